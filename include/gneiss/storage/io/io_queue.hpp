// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Options of an `io_queue`.
struct io_queue_options {
    std::size_t piece_bytes = std::size_t{1} << 20; ///< largest request; a multiple of every direct alignment
    std::size_t depth = 0;                          ///< maximum requests in flight; 0: the engine's depth
    /// attempts of one request in a row without progress (EINTR, EAGAIN, ECANCELED), before it is an error
    std::uint32_t retries = 16;
};

/// The smallest aligned range that covers [offset, offset + length).
struct aligned_range {
    std::uint64_t offset = 0; ///< multiple of the alignment
    std::size_t length = 0;   ///< the same
    std::size_t skip = 0;     ///< start of the wanted bytes in it
};
/// Returns the smallest aligned range. Precondition: offset + length + alignment do not overflow.
[[nodiscard]] constexpr aligned_range align_range(
    std::uint64_t offset, std::size_t length, std::size_t alignment) noexcept {
    const std::uint64_t first = offset / alignment * alignment;
    const auto skip = static_cast<std::size_t>(offset - first);
    return {first, round_up(skip + length, alignment), skip};
}

/// Reads, writes and syncs of any length on an engine: cut into pieces, kept in a sliding window, repeated when short.
///
///     any_engine engine = engines();
///     file from(engine, path);
///     io_queue queue(engine);
///     queue.read(from, 0, bytes);   // any number of operations
///     queue.drain();
///
/// Meaning: operations start in submission order and finish in any order; `next_done` returns the tag of a finished
/// one. A sync starts after all earlier writes to the same `file` object have finished. Buffers belong to the caller
/// and are in use until the operation finishes.
/// Cost: no allocation in the steady state; one engine call per few pieces.
/// Precondition: the engine serves no other queue at the same time; files and buffers outlive their operations.
/// Errors: a failed operation ends all: pending ones are dropped, those in flight are waited for, and only then
/// `io_error` (path, offset, length, errno) or `error` (corrupt: the file ends too early) is thrown. After that all
/// buffers are free and the queue is empty and usable. A failed sync poisons its file and is not repeated; a canceled
/// one never ran, and is repeated. While an engine cannot wait for requests in flight, `outstanding` counts the buffers
/// in use, and every operation is refused with errc::io.
/// Thread-safety: one thread at a time. Source: window and waiting as measured in `docs/architecture/conventions.md`.
///
/// From examples/02_async_read.cpp:
/// \snippet 02_async_read.cpp queue
class io_queue {
public:
    /// Queue on an engine, which must outlive it.
    explicit io_queue(any_engine& engine, const io_queue_options& options = {})
        : engine_(&engine),
          options_(options),
          depth_(options.depth == 0 ? engine.traits().depth : std::min(options.depth, engine.traits().depth)) {
        if (options_.piece_bytes == 0 || options_.piece_bytes % 512 != 0)
            throw error(errc::invalid_argument, "a piece is a positive multiple of 512 bytes");
        pieces_.resize(depth_);
        for (std::size_t i = depth_; i-- > 0;) free_pieces_.push_back(static_cast<std::uint32_t>(i));
        requests_.reserve(depth_);
        completions_.resize(depth_);
    }
    io_queue(const io_queue&) = delete;
    io_queue& operator=(const io_queue&) = delete;
    /// Drops pending operations and waits for the rest.
    ~io_queue() { abandon(); }

    /// Returns the engine.
    [[nodiscard]] any_engine& engine() const noexcept { return *engine_; }

    /// Fills `into` from `offset` on. With `needed` < into.size() the file may end after that many bytes, so that the
    /// last, shorter block of a direct file can be read; the rest of `into` is then unspecified.
    void read(file& from, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag = 0) {
        read(from, offset, into, tag, into.size());
    }
    /// Reads as above; the file may end after `needed` bytes.
    void read(file& from, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag, std::size_t needed) {
        check(from, offset, into.data(), into.size());
        enqueue({&from, io_operation::read, offset, into.data(), into.size(), std::min(needed, into.size()), tag});
    }

    /// Reads any range of any file, aligned or not: reads the aligned superset into `buffer` and returns the part of it
    /// that will hold the wanted bytes.
    /// Precondition: `buffer` is aligned as `from.alignment()` and holds align_range(…).length bytes.
    [[nodiscard]] std::span<std::byte> read_unaligned(
        file& from, std::uint64_t offset, std::size_t length, std::span<std::byte> buffer, std::uint64_t tag = 0) {
        const aligned_range range = align_range(offset, length, from.alignment());
        if (buffer.size() < range.length)
            throw error(errc::invalid_argument, "buffer too small for the aligned range",
                {.path = from.path(), .offset = range.offset, .length = range.length});
        read(from, range.offset, buffer.first(range.length), tag, length == 0 ? 0 : range.skip + length);
        return buffer.subspan(range.skip, length);
    }

    /// Writes `from` at `offset`. Extends the file.
    void write(file& to, std::uint64_t offset, std::span<const std::byte> from, std::uint64_t tag = 0) {
        to.throw_if_poisoned();
        check(to, offset, from.data(), from.size());
        auto* data = const_cast<std::byte*>(from.data()); // requests have one pointer for both directions
        enqueue({&to, io_operation::write, offset, data, from.size(), from.size(), tag});
    }

    /// Makes earlier writes through the same `file` durable (if the engine is).
    void sync(file& of, std::uint64_t tag = 0) {
        of.throw_if_poisoned();
        enqueue({&of, io_operation::sync, 0, nullptr, 0, 0, tag});
    }

    /// Submits the pieces that fit to the engine and collects completions, without blocking: call it after enqueueing,
    /// before computing. Throws as `next_done` does.
    void submit() { step(0); }

    /// Returns the tag of a finished operation, blocking for one; empty if none is outstanding.
    /// A requested stop waits for operations in flight, drops the rest and throws `error` (canceled).
    [[nodiscard]] std::optional<std::uint64_t> next_done(const std::stop_token& stop = {}) {
        while (finished_.empty()) {
            if (outstanding_ == 0) return std::nullopt;
            advance(stop);
        }
        const std::uint64_t tag = finished_.front();
        finished_.pop_front();
        return tag;
    }

    /// Finishes all outstanding operations and forgets their tags. Throws as `next_done` does.
    void drain(const std::stop_token& stop = {}) {
        while (outstanding_ > 0) advance(stop);
        finished_.clear();
    }

    /// Drops pending operations and waits for the rest: then no operation is outstanding, and all buffers are free. If
    /// the engine cannot wait, after the usual retries, requests in flight stay outstanding.
    void abandon() noexcept {
        waiting_.clear();
        held_.clear();
        repeated_.clear();
        finished_.clear();
        for (std::uint32_t refused = 0; engine_->in_flight() > 0;) {
            try {
                const std::size_t count = engine_->wait(completions_, 1);
                for (std::size_t i = 0; i < count; ++i)
                    poison_after(operation_of(completions_[i]), completions_[i].result);
                refused = 0;
            } catch (...) {
                stuck_ = ++refused > options_.retries;
                if (stuck_) return;
                back_off(refused);
            }
        }
        stuck_ = false;
        operations_.clear();
        free_operations_.clear();
        free_pieces_.clear();
        for (std::size_t i = depth_; i-- > 0;) free_pieces_.push_back(static_cast<std::uint32_t>(i));
        outstanding_ = 0;
    }

    [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; } ///< operations not finished
    [[nodiscard]] std::size_t in_flight() const { return engine_->in_flight(); }    ///< requests in the engine
    /// Returns statistics so far.
    [[nodiscard]] const io_stats& stats() const noexcept { return stats_; }

private:
    struct operation {
        file* target = nullptr;
        io_operation kind = io_operation::read;
        std::uint64_t offset = 0;
        std::byte* data = nullptr;
        std::size_t length = 0;
        std::size_t needed = 0; // bytes of `length` that must arrive
        std::uint64_t tag = 0;
        std::size_t begun = 0;         // bytes cut into pieces
        std::size_t open_pieces = 0;   // pieces that are not complete
        std::size_t writes_before = 0; // sync: earlier writes not finished
        std::uint64_t sequence = 0;
        bool live = false;
    };
    struct piece {
        std::uint32_t of = 0; // index of the operation
        std::uint64_t offset = 0;
        std::byte* data = nullptr;
        std::size_t length = 0;
        std::size_t needed = 0;
        std::size_t moved = 0;
        std::uint32_t stalls = 0; // attempts in a row without progress
    };
    struct failure {
        int number = 0; // 0: unexpected end of file
        const char* what = "";
        error_place place;
    };

    void check(const file& target, std::uint64_t offset, const std::byte* data, std::size_t length) const {
        const std::size_t unit = target.alignment();
        // An alignment is a power of two: one test of the bits of all four.
        if ((offset | length | reinterpret_cast<std::uintptr_t>(data) | options_.piece_bytes) % unit != 0 && unit > 1)
            throw error(errc::invalid_argument, "direct I/O needs a multiple of " + std::to_string(unit) + " bytes",
                {.path = target.path(), .offset = offset, .length = length});
    }

    /// Throws while buffers of abandoned requests are in use.
    void require_free() {
        if (!stuck_) return;
        abandon();
        if (stuck_) throw error(errc::io, "the engine cannot wait: buffers of earlier requests are still in use");
    }

    void enqueue(const operation& what) {
        require_free();
        if (what.kind != io_operation::sync && what.needed == 0) {
            finished_.push_back(what.tag);
            return;
        }
        // Allocations that may fail come first: an operation that is not queued is not outstanding.
        if (free_operations_.empty()) {
            free_operations_.reserve(operations_.size() + 1);
            operations_.emplace_back();
            free_operations_.push_back(static_cast<std::uint32_t>(operations_.size() - 1));
        }
        const std::uint32_t index = free_operations_.back();
        std::size_t writes_before = 0;
        if (what.kind == io_operation::sync)
            for (const operation& other : operations_)
                writes_before += other.live && other.kind == io_operation::write && other.target == what.target;
        if (writes_before > 0)
            held_.push_back(index);
        else
            waiting_.push_back(index);
        free_operations_.pop_back();
        operation& self = operations_[index] = what;
        self.live = true;
        self.sequence = ++sequence_;
        self.writes_before = writes_before;
        ++outstanding_;
    }

    /// Cuts the next piece, or returns one to repeat.
    std::optional<std::uint32_t> next_piece() {
        if (!repeated_.empty()) {
            const std::uint32_t slot = repeated_.front();
            repeated_.pop_front();
            return slot;
        }
        if (waiting_.empty() || free_pieces_.empty()) return std::nullopt;
        const std::uint32_t slot = free_pieces_.back();
        free_pieces_.pop_back();
        operation& from = operations_[waiting_.front()];
        const std::size_t length = std::min(options_.piece_bytes, from.length - from.begun);
        const std::size_t needed = std::min(length, from.needed - from.begun);
        pieces_[slot] = {waiting_.front(), from.offset + from.begun, from.data + from.begun, length, needed, 0, 0};
        from.begun += length;
        ++from.open_pieces;
        if (from.begun >= from.needed) waiting_.pop_front();
        return slot;
    }

    void fill_window() {
        const std::size_t in_flight = engine_->in_flight();
        requests_.clear();
        while (in_flight + requests_.size() < depth_) {
            const std::optional<std::uint32_t> slot = next_piece();
            if (!slot) break;
            const piece& p = pieces_[*slot];
            const operation& from = operations_[p.of];
            requests_.push_back(
                {from.kind, from.target->handle(), p.offset + p.moved, p.data + p.moved, p.length - p.moved, *slot});
        }
        if (requests_.empty()) return;
        const std::size_t taken = engine_->submit(requests_);
        if (taken == 0 && in_flight == 0) throw error(errc::io, "the engine takes no requests");
        for (std::size_t i = requests_.size(); i-- > taken;)
            repeated_.push_front(static_cast<std::uint32_t>(requests_[i].tag));
        for (std::size_t i = 0; i < taken; ++i) {
            stats_.reads += requests_[i].operation == io_operation::read;
            stats_.writes += requests_[i].operation == io_operation::write;
            stats_.syncs += requests_[i].operation == io_operation::sync;
        }
    }

    /// Waits for an eighth of the window: draining a wave idles the device, single wake-ups cost system calls.
    void advance(const std::stop_token& stop) {
        if (stop.stop_requested()) {
            abandon();
            throw error(errc::canceled, "input and output stopped on request");
        }
        step(8);
    }

    /// Fills the window, then takes completions: at least one `share`-th of it, or without blocking for 0.
    void step(std::size_t share) {
        require_free();
        try {
            fill_window();
            const std::size_t at_least = share == 0 ? 0 : std::max<std::size_t>(engine_->in_flight() / share, 1);
            const auto began = std::chrono::steady_clock::now();
            const std::size_t count = engine_->wait(completions_, at_least);
            if (share != 0) stats_.waited += std::chrono::steady_clock::now() - began;
            for (std::size_t i = 0; i < count; ++i) poison_after(operation_of(completions_[i]), completions_[i].result);
            for (std::size_t i = 0; i < count; ++i) complete(completions_[i]);
            if (!failure_ && !repeated_.empty()) fill_window();
        } catch (...) { // from the engine itself, or no memory
            abandon();
            failure_.reset(); // this error is thrown, not that of a request
            throw;
        }
        if (failure_) {
            abandon();
            failure failed = *std::exchange(failure_, std::nullopt);
            if (failed.number != 0) throw io_error(failed.number, failed.what, std::move(failed.place));
            throw error(errc::corrupt, failed.what, std::move(failed.place));
        }
    }

    [[nodiscard]] const operation& operation_of(const io_completion& done) const noexcept {
        return operations_[pieces_[static_cast<std::size_t>(done.tag)].of];
    }
    /// After a failed sync the kernel may have dropped data that should become durable. A canceled one never ran.
    static void poison_after(const operation& done, std::int64_t result) noexcept {
        if (done.kind == io_operation::sync && result < 0 && result != -ECANCELED)
            done.target->set_poison(static_cast<int>(-result));
    }

    void complete(const io_completion& done) {
        const auto slot = static_cast<std::uint32_t>(done.tag);
        piece& p = pieces_[slot];
        const operation& from = operations_[p.of];
        const bool syncing = from.kind == io_operation::sync, reading = from.kind == io_operation::read;
        if (done.result < 0) {
            const int number = static_cast<int>(-done.result);
            const bool again = number == ECANCELED || (!syncing && (number == EINTR || number == EAGAIN));
            if (!again || ++p.stalls > options_.retries)
                return fail(p, number, syncing ? "cannot sync" : reading ? "cannot read" : "cannot write");
            if (number == EAGAIN) back_off(p.stalls);
            return repeat(slot);
        }
        if (syncing) return finish(slot);
        const std::size_t moved = std::min(static_cast<std::size_t>(done.result), p.length - p.moved);
        (reading ? stats_.read_bytes : stats_.written_bytes) += moved;
        if (p.moved + moved >= p.needed) return finish(slot);
        if (reading && moved == 0) return fail(p, 0, "unexpected end of file");
        const std::size_t unit = from.target->alignment();
        const std::size_t progress =
            moved / unit * unit; // the rest of a direct request begins at an alignment boundary
        p.moved += progress;
        p.stalls = progress == 0 ? p.stalls + 1 : 0;
        if (p.stalls > options_.retries)
            return reading ? fail(p, 0, "unexpected end of file") : fail(p, EIO, "a write moves nothing");
        repeat(slot);
    }

    void repeat(std::uint32_t slot) {
        ++stats_.retries;
        repeated_.push_back(slot);
    }

    static void back_off(std::uint32_t attempt) {
        if (attempt > 2) std::this_thread::sleep_for(std::chrono::microseconds(1U << std::min(attempt, 13U)));
    }

    void finish(std::uint32_t slot) {
        const std::uint32_t index = pieces_[slot].of;
        free_pieces_.push_back(slot);
        operation& done = operations_[index];
        if (--done.open_pieces > 0 || done.begun < done.needed) return;
        done.live = false;
        --outstanding_;
        finished_.push_back(done.tag);
        free_operations_.push_back(index);
        if (done.kind != io_operation::write || held_.empty()) return;
        std::erase_if(held_, [&](std::uint32_t held) {
            operation& sync = operations_[held];
            if (sync.target != done.target || done.sequence > sync.sequence || --sync.writes_before > 0) return false;
            waiting_.push_front(held);
            return true;
        });
    }

    void fail(const piece& p, int number, const char* what) {
        if (failure_) return; // the first is the cause
        const operation& from = operations_[p.of];
        failure_ = failure{
            number, what, {.path = from.target->path(), .offset = p.offset + p.moved, .length = p.length - p.moved}};
    }

    any_engine* engine_;
    io_queue_options options_;
    std::size_t depth_;
    std::vector<operation> operations_;
    std::vector<std::uint32_t> free_operations_;
    std::vector<piece> pieces_;
    std::vector<std::uint32_t> free_pieces_;
    std::deque<std::uint32_t> waiting_;  // operations with bytes not cut into pieces yet
    std::deque<std::uint32_t> repeated_; // pieces to resubmit
    std::vector<std::uint32_t> held_;    // syncs that wait for writes
    std::deque<std::uint64_t> finished_;
    std::size_t outstanding_ = 0;
    std::uint64_t sequence_ = 0;
    std::vector<io_request> requests_;
    std::vector<io_completion> completions_;
    std::optional<failure> failure_;
    bool stuck_ = false; // the engine did not wait for abandoned requests
    io_stats stats_;
};

} // namespace gneiss
