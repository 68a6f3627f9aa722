// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/foreign_format.hpp>
#include <gneiss/io/import/detail/gzip_decoder.hpp>
#include <gneiss/io/import/detail/zstd_decoder.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>

namespace gneiss::importing {

/// A source of bytes. `read` fills a prefix of the memory and returns its size; 0 means the end.
class byte_source {
public:
    virtual ~byte_source() = default;
    /// Reads at most `size` bytes. Returns the number read; 0: the end.
    virtual std::size_t read(char* data, std::size_t size) = 0;
    /// Returns the bytes of the underlying file consumed so far; 0: unknown.
    [[nodiscard]] virtual std::uint64_t consumed() const { return 0; }
};

/// Returns true for the extension of a compressed file that is read as it is.
[[nodiscard]] inline bool is_packed(const std::filesystem::path& path) {
    return path.extension() == ".gz" || path.extension() == ".zst";
}

/// A file, plain, gzip (any number of members) or zstd (any number of frames; with libzstd), distinguished by its first
/// bytes. Throws errc::unsupported, with the command that converts it, for Parquet, JSON, XML, RDF, UTF-16 and other
/// formats recognized by content, and for what is not a regular file, such as a pipe. One thread.
class file_source final : public byte_source {
public:
    /// Opens a file.
    explicit file_source(const std::filesystem::path& path) : file_source(path, path) {}
    /// Opens a file under another name.
    ///
    /// \param name  name of the file in errors
    file_source(const std::filesystem::path& path, std::filesystem::path name) : path_(std::move(name)) {
        fd_ = ::gneiss::detail::open_regular(path, O_RDONLY, "cannot be opened");
        struct ::stat status{};
        if (::fstat(fd_, &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
        std::string magic(static_cast<std::size_t>(std::min<std::uint64_t>(size_, 8)), '\0');
        if (::gneiss::detail::retry_interrupted([&] { return ::pread(fd_, magic.data(), magic.size(), 0); }) !=
            static_cast<::ssize_t>(magic.size())) {
            ::close(fd_);
            throw io_error(EIO, "the first bytes cannot be read", {.path = path_});
        }
        try {
            const auto compressed = [this](char* data, std::size_t size) { return read_file(data, size); };
            if (magic.starts_with("\x1f\x8b")) gzip_.emplace(path_, compressed);
#ifdef GNEISS_HAS_ZSTD
            if (magic.starts_with("\x28\xb5\x2f\xfd")) zstd_.emplace(path_, compressed);
#endif
            read_head();
            refuse_foreign_format(head_, path_, !head_.starts_with(magic));
        } catch (...) {
            ::close(fd_);
            throw;
        }
    }
    file_source(const file_source&) = delete;
    file_source& operator=(const file_source&) = delete;
    ~file_source() override { ::close(fd_); }

    /// Reads and decompresses bytes.
    std::size_t read(char* data, std::size_t size) override {
        if (head_read_ == head_.size()) return read_plain(data, size);
        const std::size_t count = std::min(size, head_.size() - head_read_);
        std::memcpy(data, head_.data() + head_read_, count);
        head_read_ += count;
        return count;
    }
    [[nodiscard]] std::uint64_t consumed() const override { return position_; }

private:
    std::size_t read_plain(char* data, std::size_t size) {
        size = std::min(size, std::size_t{1} << 30);
        if (gzip_) return gzip_->read(data, size);
#ifdef GNEISS_HAS_ZSTD
        if (zstd_) return zstd_->read(data, size);
#endif
        return read_file(data, size);
    }
    std::size_t read_file(char* data, std::size_t size) {
        const auto got = ::gneiss::detail::retry_interrupted([&] { return ::read(fd_, data, size); });
        if (got < 0) throw io_error(errno, "read", {.path = path_});
        position_ += static_cast<std::uint64_t>(got);
        if (got == 0 && position_ < size_)
            throw error(errc::corrupt, "the file ends too early", {.path = path_, .offset = position_});
        return static_cast<std::size_t>(got);
    }
    /// Reads the bytes by which formats that are not read are recognized.
    void read_head() {
        head_.resize(format_head_bytes);
        std::size_t filled = 0;
        while (filled < head_.size()) {
            const std::size_t got = read_plain(head_.data() + filled, head_.size() - filled);
            if (got == 0) break;
            filled += got;
        }
        head_.resize(filled);
    }

    std::filesystem::path path_;
    int fd_ = -1;
    std::optional<gzip_decoder> gzip_{};
#ifdef GNEISS_HAS_ZSTD
    std::optional<zstd_decoder> zstd_{};
#endif
    std::string head_{}; ///< first bytes, unpacked
    std::size_t head_read_ = 0;
    std::uint64_t position_ = 0;
    std::uint64_t size_ = 0; ///< when opened
};

/// Bytes generated by a function. `make` appends some to the string, or leaves it empty at the end.
class generated_source final : public byte_source {
public:
    /// Takes the function.
    explicit generated_source(std::function<void(std::string&)> make) : make_(std::move(make)) {}

    /// Reads generated bytes.
    std::size_t read(char* data, std::size_t size) override {
        if (used_ == pending_.size()) {
            pending_.clear();
            used_ = 0;
            make_(pending_);
        }
        const std::size_t count = std::min(size, pending_.size() - used_);
        std::memcpy(data, pending_.data() + used_, count);
        used_ += count;
        return count;
    }

private:
    std::function<void(std::string&)> make_;
    std::string pending_;
    std::size_t used_ = 0;
};

/// Whole lines of one source.
struct text_chunk {
    std::vector<char> bytes;      ///< the memory; only the first `size` bytes are valid
    std::size_t size = 0;         ///< bytes of the lines
    std::uint64_t first_line = 1; ///< number of the first line in its file, from 1
    std::uint64_t first_row = 0;  ///< lines before it that are neither skipped nor comments (adjacency formats)
    std::uint64_t offset = 0;     ///< bytes of the source before it, decompressed
    std::uint64_t consumed = 0;   ///< bytes of all sources consumed when it was read, if known
    std::size_t source = 0;       ///< index of the source

    /// Returns the lines.
    [[nodiscard]] std::string_view text() const noexcept { return {bytes.data(), size}; }
};

/// Cuts a byte source into chunks of whole lines.
///
/// Cost: one pass; memory of one chunk and of the longest line. A line longer than `longest_line` is an error, since a
/// binary file could otherwise be one endless line.
class line_cutter {
public:
    /// Cuts `from` into chunks of `chunk_bytes`.
    line_cutter(byte_source& from, std::filesystem::path name, std::size_t chunk_bytes, std::size_t longest_line,
        char row_comment = '\0')
        : from_(&from),
          name_(std::move(name)),
          chunk_bytes_(std::max<std::size_t>(chunk_bytes, 64)),
          longest_line_(std::max(longest_line, chunk_bytes_)),
          row_comment_(row_comment) {}

    /// Returns the next lines in `chunk`; false at the end. The last line may lack its newline.
    bool next(text_chunk& chunk) {
        chunk.bytes.resize(std::max(chunk.bytes.size(), std::max(chunk_bytes_, carry_.size())));
        std::copy(carry_.begin(), carry_.end(), chunk.bytes.begin());
        std::size_t filled = carry_.size();
        carry_.clear();
        std::size_t whole = 0; // bytes up to the last newline
        for (;;) {
            while (!ended_ && filled < chunk.bytes.size()) {
                const std::size_t got = from_->read(chunk.bytes.data() + filled, chunk.bytes.size() - filled);
                ended_ = got == 0;
                filled += got;
            }
            whole = ended_ ? filled : last_newline(chunk.bytes.data(), filled);
            if (whole != 0 || filled == 0) break;
            if (filled >= longest_line_)
                throw error(errc::invalid_format,
                    "this line is longer than " + format_bytes(longest_line_) + ": is it a text file?",
                    {.path = name_, .line = line_});
            chunk.bytes.resize(std::min(longest_line_, 2 * chunk.bytes.size()));
        }
        carry_.assign(chunk.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
            chunk.bytes.begin() + static_cast<std::ptrdiff_t>(filled));
        chunk.size = whole;
        chunk.first_line = line_;
        chunk.first_row = row_;
        chunk.offset = offset_;
        offset_ += whole;
        count(chunk.text());
        return whole != 0;
    }

    /// Skips lines at the start (a header); they count as lines but not as rows.
    void skip_lines(std::uint64_t lines) { skip_ = lines; }

private:
    static std::size_t last_newline(const char* data, std::size_t size) {
        const void* at = ::memrchr(data, '\n', size);
        return at == nullptr ? 0 : static_cast<std::size_t>(static_cast<const char*>(at) - data) + 1;
    }
    void count(std::string_view text) {
        const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
        if (row_comment_ != '\0') {
            std::uint64_t line = line_;
            for (std::size_t at = 0; at < text.size(); ++line) {
                if (text[at] != row_comment_ && line > skip_) ++row_;
                at = std::min(text.find('\n', at), text.size() - 1) + 1;
            }
        }
        line_ += lines;
    }

    byte_source* from_;
    std::filesystem::path name_;
    std::size_t chunk_bytes_;
    std::size_t longest_line_;
    char row_comment_;
    std::vector<char> carry_;
    std::uint64_t line_ = 1;
    std::uint64_t row_ = 0;
    std::uint64_t offset_ = 0;
    std::uint64_t skip_ = 0;
    bool ended_ = false;
};

/// Reads ahead on its own thread, so that reading (and decompressing) overlaps with parsing.
///
/// `produce` fills a chunk and returns false at the end; it runs on that thread only. `take` is thread-safe and returns
/// chunks in order; return a chunk with `give_back`. At most `chunks` exist. The `take` that would have returned a
/// chunk rethrows the exception of its `produce`.
class read_ahead {
public:
    /// Reads up to `chunks` chunks ahead.
    read_ahead(std::size_t chunks, std::function<bool(text_chunk&)> produce)
        : produce_(std::move(produce)),
          free_(std::max<std::size_t>(chunks, 2)) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    read_ahead(const read_ahead&) = delete;
    read_ahead& operator=(const read_ahead&) = delete;

    /// Returns the next chunk in `chunk`; false at the end.
    bool take(text_chunk& chunk) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
        if (ready_.empty()) {
            if (failure_) std::rethrow_exception(failure_);
            return false;
        }
        chunk = std::move(ready_.front());
        ready_.erase(ready_.begin());
        return true;
    }
    /// Returns a chunk's memory.
    void give_back(text_chunk&& chunk) {
        {
            const std::scoped_lock lock(mutex_);
            free_.push_back(std::move(chunk));
        }
        changed_.notify_all();
    }

private:
    void run(const std::stop_token& stop) {
        for (;;) {
            text_chunk chunk;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait(lock, stop, [&] { return !free_.empty(); })) break;
                chunk = std::move(free_.back());
                free_.pop_back();
            }
            bool more = false;
            std::exception_ptr failure;
            try {
                more = produce_(chunk);
            } catch (...) {
                failure = std::current_exception();
            }
            const std::scoped_lock lock(mutex_);
            failure_ = std::move(failure);
            if (more) ready_.push_back(std::move(chunk));
            ended_ = !more;
            changed_.notify_all();
            if (ended_) return;
        }
    }

    std::function<bool(text_chunk&)> produce_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<text_chunk> free_;
    std::vector<text_chunk> ready_;
    std::exception_ptr failure_;
    bool ended_ = false;
    std::jthread thread_; // last: joined before the rest is destroyed
};

} // namespace gneiss::importing
