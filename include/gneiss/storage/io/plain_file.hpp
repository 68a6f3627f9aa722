// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>

namespace gneiss {

/// A range of a file's data [bytes]. Offsets count from the first byte of data, not of the file.
struct byte_range {
    std::uint64_t offset = 0, length = 0; ///< first byte, and number of bytes

    friend bool operator==(const byte_range&, const byte_range&) = default;
};

/// An open file for sequential, buffered work: preprocessing, headers, manifests. Training uses an engine instead.
///
/// Handles short reads and writes and EINTR. Errors: `io_error` with path, offset and length; a read past the end is
/// `error` with `errc::corrupt`. Positioned calls on one file from several threads are safe.
class plain_file {
public:
    plain_file() = default;

    /// Opens a regular file for reading; a FIFO or a device is refused.
    [[nodiscard]] static plain_file open(const std::filesystem::path& path) {
        return {detail::open_regular(path, O_RDONLY), path};
    }
    /// Opens a directory, to sync or lock it.
    [[nodiscard]] static plain_file open_directory(const std::filesystem::path& path) {
        const int fd =
            detail::retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
        if (fd < 0) throw io_error(errno, "open", {.path = path});
        return {fd, path};
    }
    /// Creates an empty file, replacing an existing one; a link or a device is refused.
    [[nodiscard]] static plain_file create(const std::filesystem::path& path) {
        return {detail::create_regular(path), path};
    }
    /// Takes over a descriptor.
    plain_file(int descriptor, std::filesystem::path path) : fd_(descriptor), path_(std::move(path)) {}
    /// Creates an unnamed file in `directory`: deleted when closed, even after a crash.
    [[nodiscard]] static plain_file scratch(const std::filesystem::path& directory) {
        static constexpr int options = O_RDWR | O_CLOEXEC;
        plain_file file;
        file.path_ = directory / "scratch";
        file.fd_ = ::open(directory.c_str(), options | O_TMPFILE, 0600);
        if (file.fd_ >= 0) return file;
        // File systems without O_TMPFILE (overlay, NFS): a unique name that is unlinked at once.
        std::string name = (directory / ("scratch-" + std::string(6, 'X'))).string();
        file.fd_ = ::mkostemp(name.data(), O_CLOEXEC);
        if (file.fd_ < 0) throw io_error(errno, "create a scratch file", {.path = directory});
        ::unlink(name.c_str());
        return file;
    }

    plain_file(plain_file&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
    plain_file& operator=(plain_file&& other) noexcept {
        std::swap(fd_, other.fd_);
        std::swap(path_, other.path_);
        return *this;
    }
    ~plain_file() {
        if (fd_ >= 0) ::close(fd_);
    }

    /// True unless it was moved from.
    [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
    /// Returns the file descriptor.
    [[nodiscard]] int descriptor() const noexcept { return fd_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Returns the size of the file [bytes].
    [[nodiscard]] std::uint64_t size() const {
        struct ::stat status{};
        if (::fstat(fd_, &status) != 0) throw io_error(errno, "stat", {.path = path_});
        return static_cast<std::uint64_t>(status.st_size);
    }

    /// Fills `to` from `offset` on, or throws.
    void read_at(std::uint64_t offset, std::span<std::byte> to) const {
        if (read_some_at(offset, to) != to.size())
            throw error(
                errc::corrupt, "the file ends too early", {.path = path_, .offset = offset, .length = to.size()});
    }
    /// Fills `to` up to the end of the file; returns the bytes read.
    [[nodiscard]] std::size_t read_some_at(std::uint64_t offset, std::span<std::byte> to) const {
        std::size_t done = 0;
        while (done < to.size()) {
            const ssize_t n = detail::retry_interrupted(
                [&] { return ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done)); });
            if (n == 0) break;
            if (n < 0) throw io_error(errno, "read", {.path = path_, .offset = offset, .length = to.size()});
            done += static_cast<std::size_t>(n);
        }
        return done;
    }
    /// Writes all bytes at `offset`.
    void write_at(std::uint64_t offset, std::span<const std::byte> from) {
        std::size_t done = 0;
        while (done < from.size()) {
            const ssize_t n = detail::retry_interrupted([&] {
                return ::pwrite(fd_, from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
            });
            if (n <= 0)
                throw io_error(
                    n == 0 ? ENOSPC : errno, "write", {.path = path_, .offset = offset, .length = from.size()});
            done += static_cast<std::size_t>(n);
        }
    }
    /// Sets the size of the file.
    void truncate(std::uint64_t bytes) {
        if (detail::retry_interrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes)); }) != 0)
            throw io_error(errno, "resize", {.path = path_, .length = bytes});
    }
    /// Waits until data and size are on the device. A failure is final: never retry; abandon the file.
    void sync() {
        if (::fsync(fd_) != 0) throw io_error(errno, "sync", {.path = path_});
    }
    /// Closes the file and throws its errors (some file systems report lost writes only here).
    void close() {
        if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) throw io_error(errno, "close", {.path = path_});
    }

    // Hints; failures do not matter.
    /// Starts writing a range to the device without waiting.
    void begin_writeback(std::uint64_t offset, std::uint64_t length) const noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
        ::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
#endif
    }
    /// Waits until a range is written and drops it from the page cache, which counts as memory of a container.
    void drop_written(std::uint64_t offset, std::uint64_t length) const noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
        ::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(length),
            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#endif
        drop_cached(offset, length);
    }
    /// Drops a range from the page cache; a hint.
    void drop_cached(std::uint64_t offset, std::uint64_t length) const noexcept {
        (void)::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
    }
    /// Asks for a range to be read ahead; a hint.
    void prefetch(std::uint64_t offset, std::uint64_t length) const noexcept {
        (void)::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
    }

private:
    int fd_ = -1;
    std::filesystem::path path_;
};

/// Makes names created, renamed or removed in `directory` survive power loss. Throws io_error.
inline void sync_directory(const std::filesystem::path& directory) {
    plain_file handle = plain_file::open_directory(directory.empty() ? std::filesystem::path(".") : directory);
    handle.sync();
}

/// Appends to a plain file through the page cache, limiting it to two dirty pieces.
///
/// Not thread-safe. Errors as `plain_file`.
class sequential_writer {
public:
    sequential_writer() = default;
    /// Appends to `file` (which must outlive this) from `offset` on; starts write-back every `piece` bytes.
    explicit sequential_writer(plain_file& file, std::uint64_t offset = 0, std::uint64_t piece = std::uint64_t{8} << 20)
        : file_(&file),
          end_(offset),
          begun_(offset),
          dropped_(offset),
          piece_(std::max<std::uint64_t>(piece, 1)) {}

    /// Appends bytes.
    void append(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const auto n = static_cast<std::size_t>(
                std::min<std::uint64_t>(bytes.size(), begun_ + piece_ > end_ ? begun_ + piece_ - end_ : piece_));
            file_->write_at(end_, bytes.first(n));
            bytes = bytes.subspan(n);
            end_ += n;
            if (end_ - begun_ < piece_) continue;
            file_->begin_writeback(begun_, end_ - begun_);
            if (begun_ > dropped_) file_->drop_written(dropped_, begun_ - dropped_);
            dropped_ = begun_;
            begun_ = end_;
        }
    }
    /// Returns the position of the next byte.
    [[nodiscard]] std::uint64_t position() const noexcept { return end_; }
    /// Writes out and drops what the page cache still holds, if that is a piece or more.
    void drop() noexcept {
        if (end_ - dropped_ < piece_) return;
        file_->drop_written(dropped_, end_ - dropped_);
        begun_ = dropped_ = end_;
    }

private:
    plain_file* file_ = nullptr;
    std::uint64_t end_ = 0, begun_ = 0, dropped_ = 0, piece_ = 1;
};

} // namespace gneiss
