// SPDX-License-Identifier: Apache-2.0
// Execution traces by thread, in a file for ui.perfetto.dev and chrome://tracing.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Numeric arguments of a span. Those equal to `none` are omitted from the file.
struct trace_arguments {
    static constexpr std::uint64_t none = ~std::uint64_t{0}; ///< value of an absent argument
    /// Position of the work in training; absent ones are `none`.
    std::uint64_t epoch = none, state = none, pass = none, batch = none, partition = none;
    std::uint64_t bytes = none; ///< bytes moved
};

/// Work or a wait of one thread. Names of waits begin with "wait for".
struct recorded_span {
    const char* name = "";                     ///< name of the work; a literal, not copied
    std::chrono::nanoseconds begin{0}, end{0}; ///< since construction of the recorder
    trace_arguments with{};                    ///< arguments that viewers show

    /// True for a wait, false for work.
    [[nodiscard]] bool waits() const noexcept { return std::string_view(name).starts_with("wait for"); }
};

class trace_track;

/// Options of `trace_recorder`.
struct trace_options {
    std::string process = "gneiss"; ///< shown by viewers
    std::size_t block = 512;        ///< spans buffered per track, at least 1
    /// Called with each span as it is written and the name of its track; one call at a time, on any thread. Must not
    /// throw.
    std::function<void(const std::string& track, const recorded_span&)> on_span{};
};

/// Writes spans to a file in the Trace Event format: an array of complete events ("X") in microseconds, and thread
/// names.
///
/// Each thread records on its own track:
///
///     trace_recorder recorder("trace.json");
///     trace_track track(recorder, "reader");
///     { trace_span span(&track, "read", {.partition = 3}); … }
///
/// A span takes no lock. A track writes its block when it is full, so the file grows and memory does not; `flush`
/// writes the spans of all tracks. `close` closes the array. The format allows a missing end, so the file of a killed
/// process also opens. There is no global state: any number of recorders may run.
/// Memory: 72 bytes · `block` per track (36 KiB), and the text of one block (about the same again).
/// Cost: two clock reads per span, and some 0.3 µs for its line. Thread-safe.
/// Errors: a write error after construction ends only the trace; `close` throws it.
/// Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
class trace_recorder {
public:
    using clock = std::chrono::steady_clock; ///< clock of all spans

    /// Creates the file, replacing an existing one. Throws io_error.
    explicit trace_recorder(std::filesystem::path file, trace_options options = {})
        : path_(std::move(file)),
          options_(std::move(options)),
          file_(created(path_)) {
        if (!file_) throw io_error(errno, "cannot write the trace", {.path = path_});
        (void)std::setvbuf(file_.get(), nullptr, _IONBF, 0);
        options_.block = std::max<std::size_t>(options_.block, 1);
        text_ = R"([{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":)";
        quote(options_.process);
        text_ += "}}";
        put();
    }
    trace_recorder(const trace_recorder&) = delete;
    trace_recorder& operator=(const trace_recorder&) = delete;
    /// Closes the file. Precondition: its tracks are destroyed.
    ~trace_recorder() {
        const std::scoped_lock lock(mutex_);
        end();
    }

    /// Writes the spans that have ended. Spans recorded concurrently may be written later.
    void flush() noexcept;
    /// Flushes and closes the array; spans that end later are dropped. Throws io_error if any write failed.
    void close() {
        flush();
        const std::scoped_lock lock(mutex_);
        end();
        if (failed_ != 0) throw io_error(failed_, "the trace ends early, writing was refused", {.path = path_});
    }

    /// Returns the path of the file.
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    friend class trace_track;
    /// Opens the file, which is no link, empty; a FIFO without a reader does not block.
    static std::FILE* created(const std::filesystem::path& path) noexcept {
        const int fd =
            ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
        std::FILE* const file = fd < 0 ? nullptr : ::fdopen(fd, "w");
        if (fd >= 0 && file == nullptr) ::close(fd);
        return file;
    }
    struct closer {
        void operator()(std::FILE* of) const noexcept { (void)std::fclose(of); }
    };

    // Callers of these hold the mutex.
    void begin(trace_track& track);
    void name_thread(const trace_track& track);
    void write(trace_track& from, std::size_t count) noexcept;
    void event(const trace_track& of, const recorded_span& span);
    void quote(std::string_view text) {
        text_ += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') text_ += '\\';
            text_ += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        text_ += '"';
    }
    void number(std::uint64_t value) {
        char digits[20];
        text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    }
    void microseconds(std::chrono::nanoseconds time) {
        const auto all = static_cast<std::uint64_t>(std::max<std::chrono::nanoseconds::rep>(time.count(), 0));
        number(all / 1000);
        const auto rest = static_cast<unsigned>(all % 1000);
        text_ += '.';
        for (const unsigned digit : {rest / 100, rest / 10 % 10, rest % 10}) text_ += static_cast<char>('0' + digit);
    }
    /// Writes the text to the file.
    void put() noexcept {
        if (file_ && failed_ == 0 && std::fwrite(text_.data(), 1, text_.size(), file_.get()) != text_.size())
            failed_ = errno != 0 ? errno : EIO;
        text_.clear();
    }
    void end() noexcept {
        if (!file_) return;
        text_ = "\n]\n"; // fits a short string: does not allocate
        put();
        if (std::fclose(file_.release()) != 0 && failed_ == 0) failed_ = errno;
    }

    std::filesystem::path path_;
    trace_options options_;
    clock::time_point began_ = clock::now();

    std::mutex mutex_; // guards the members below
    std::unique_ptr<std::FILE, closer> file_;
    std::string text_; // not yet written
    int failed_ = 0;   // errno
    std::vector<trace_track*> tracks_;
    std::uint64_t last_ = 0; // number of the latest track
};

/// Records the spans of one thread. One thread records at a time.
class trace_track {
public:
    using clock = trace_recorder::clock; ///< clock of all spans

    /// Precondition: the recorder outlives this. Throws std::bad_alloc; the recorder is then without the track.
    trace_track(trace_recorder& to, std::string name) : to_(to), name_(std::move(name)), spans_(to.options_.block) {
        const std::scoped_lock lock(to.mutex_);
        to.begin(*this);
    }
    trace_track(const trace_track&) = delete;
    trace_track& operator=(const trace_track&) = delete;
    ~trace_track() {
        const std::scoped_lock lock(to_.mutex_);
        to_.write(*this, count_.load(std::memory_order_relaxed));
        std::erase(to_.tracks_, this);
    }

    /// Adds a span that has ended. `name` is a string literal.
    void add(
        const char* name, clock::time_point begin, clock::time_point end, const trace_arguments& with = {}) noexcept {
        std::size_t here = count_.load(std::memory_order_relaxed);
        if (here == spans_.size()) {
            const std::scoped_lock lock(to_.mutex_);
            to_.write(*this, here);
            written_ = here = 0;
            count_.store(0, std::memory_order_relaxed);
        }
        spans_[here] = {name, begin - to_.began_, end - to_.began_, with};
        count_.store(here + 1, std::memory_order_release);
    }
    /// Adds a wait that ends now. Waits below one microsecond are omitted.
    void add_wait(const char* name, clock::time_point begin, const trace_arguments& with = {}) noexcept {
        const auto now = clock::now();
        if (now - begin >= std::chrono::microseconds(1)) add(name, begin, now, with);
    }

private:
    friend class trace_recorder;
    trace_recorder& to_;
    std::string name_;
    std::uint64_t number_ = 0;
    std::vector<recorded_span>
        spans_; // one block; the first count_ are complete. Changes only under the recorder's mutex
    std::atomic<std::size_t> count_{0};
    std::size_t written_ = 0; // spans of the block; guarded by the recorder's mutex
};

inline void trace_recorder::begin(trace_track& track) {
    tracks_.reserve(tracks_.size() + 1);
    track.number_ = ++last_;
    const std::size_t kept = text_.size();
    try {
        name_thread(track);
    } catch (...) { // no memory for the text
        text_.resize(kept);
        throw;
    }
    tracks_.push_back(&track);
    put();
}

inline void trace_recorder::name_thread(const trace_track& track) {
    text_ += R"(,
{"name":"thread_name","ph":"M","pid":1,"tid":)";
    number(last_);
    text_ += R"(,"args":{"name":)";
    quote(track.name_);
    text_ += R"(}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":)";
    number(last_);
    text_ += R"(,"args":{"sort_index":)";
    number(last_);
    text_ += "}}";
}

inline void trace_recorder::flush() noexcept {
    const std::scoped_lock lock(mutex_);
    for (trace_track* const each : tracks_) write(*each, each->count_.load(std::memory_order_acquire));
}

inline void trace_recorder::write(trace_track& from, std::size_t count) noexcept {
    try {
        for (; from.written_ < count; ++from.written_) {
            if (file_ && failed_ == 0) event(from, from.spans_[from.written_]);
            if (options_.on_span) options_.on_span(from.name_, from.spans_[from.written_]);
        }
    } catch (...) { // no memory for the text
        failed_ = ENOMEM;
    }
    if (!text_.empty()) put();
}

inline void trace_recorder::event(const trace_track& of, const recorded_span& span) {
    text_ += ",\n{\"name\":";
    quote(span.name);
    text_ += span.waits() ? R"(,"cat":"wait","ph":"X","pid":1,"tid":)" : R"(,"cat":"work","ph":"X","pid":1,"tid":)";
    number(of.number_);
    text_ += R"(,"ts":)";
    microseconds(span.begin);
    text_ += R"(,"dur":)";
    microseconds(span.end - span.begin);
    text_ += R"(,"args":{)";
    bool first = true;
    for (const auto& [name, value] : {std::pair("epoch", span.with.epoch), std::pair("state", span.with.state),
             std::pair("pass", span.with.pass), std::pair("batch", span.with.batch),
             std::pair("partition", span.with.partition), std::pair("bytes", span.with.bytes)}) {
        if (value == trace_arguments::none) continue;
        if (!std::exchange(first, false)) text_ += ',';
        quote(name);
        text_ += ':';
        number(value);
    }
    text_ += "}}";
}

/// Returns a track of `to`, or null if `to` is null.
[[nodiscard]] inline std::unique_ptr<trace_track> open_track(trace_recorder* to, std::string name) {
    return to == nullptr ? nullptr : std::make_unique<trace_track>(*to, std::move(name));
}

/// Records work from construction to the end of the scope. With a null track it costs one comparison.
class trace_span {
public:
    /// `name` is a string literal.
    trace_span(trace_track* on, const char* name, const trace_arguments& with = {}) noexcept : on_(on) {
        if (on_ == nullptr) return;
        name_ = name;
        with_ = with;
        begin_ = trace_track::clock::now();
    }
    trace_span(const trace_span&) = delete;
    trace_span& operator=(const trace_span&) = delete;
    ~trace_span() {
        if (on_ != nullptr) on_->add(name_, begin_, trace_track::clock::now(), with_);
    }

    /// Sets the number of bytes moved, known at the end.
    void bytes(std::uint64_t moved) noexcept { with_.bytes = moved; }
    /// True if the span is recorded.
    explicit operator bool() const noexcept { return on_ != nullptr; }

private:
    trace_track* on_;
    const char* name_ = "";
    trace_track::clock::time_point begin_{};
    trace_arguments with_{};
};

} // namespace gneiss
