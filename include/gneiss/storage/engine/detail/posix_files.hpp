// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/detail/open_file.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>
#include <gneiss/storage/engine/concepts.hpp>

namespace gneiss::detail {

/// The kernel's `struct statx`, of which older C libraries lack the last fields used here.
struct kernel_statx {
    std::uint32_t mask = 0;
    std::uint32_t unused_before[37] = {};
    std::uint32_t dio_mem_align = 0; ///< at byte 152 since Linux 6.1
    std::uint32_t dio_offset_align = 0;
    std::uint32_t unused_after[24] = {};
};
static_assert(offsetof(kernel_statx, dio_mem_align) == 152 && sizeof(kernel_statx) == 256);

/// Returns the alignment of memory, offset and length for direct I/O on an open file; 0: the file system has no direct
/// I/O; `page_alignment` if the kernel does not report it.
[[nodiscard]] inline std::size_t query_direct_alignment(int fd) noexcept {
    constexpr std::uint32_t statx_dioalign = 0x2000;
    constexpr int at_empty_path = 0x1000;
    kernel_statx info;
    if (::syscall(SYS_statx, fd, "", at_empty_path, statx_dioalign, &info) != 0 || (info.mask & statx_dioalign) == 0)
        return page_alignment;
    return info.dio_mem_align > info.dio_offset_align ? info.dio_mem_align : info.dio_offset_align;
}

/// The open files of an engine on top of POSIX. A handle is the file descriptor.
class posix_files {
public:
    posix_files() = default;
    posix_files(posix_files&& other) noexcept : alignment_(std::exchange(other.alignment_, {})) {}
    posix_files& operator=(posix_files&& other) noexcept {
        std::swap(alignment_, other.alignment_);
        return *this;
    }
    posix_files(const posix_files&) = delete;
    posix_files& operator=(const posix_files&) = delete;
    ~posix_files() {
        for (std::size_t fd = 0; fd < alignment_.size(); ++fd)
            if (alignment_[fd] != 0) ::close(static_cast<int>(fd));
    }

    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        const int flags = options.write ? O_RDWR : O_RDONLY;
        bool direct = options.direct;
        int fd = -1;
        std::size_t alignment = 1;
        if (direct) {
            fd = open_once(path, options, flags | O_DIRECT);
            direct = fd >= 0;
            if (direct) alignment = query_direct_alignment(fd);
            // Buffers and file contents are aligned to pages: files with larger blocks use the page cache.
            if (direct && (alignment == 0 || alignment > page_alignment)) {
                ::close(fd);
                direct = false;
                alignment = 1;
            }
        }
        if (!direct) fd = open_once(path, options, flags);
        try {
            if (alignment_.size() <= static_cast<std::size_t>(fd)) alignment_.resize(static_cast<std::size_t>(fd) + 1);
        } catch (...) {
            ::close(fd);
            throw;
        }
        alignment_[static_cast<std::size_t>(fd)] = alignment;
        return fd;
    }

    void close(int fd) noexcept {
        if (fd < 0 || static_cast<std::size_t>(fd) >= alignment_.size()) return;
        if (std::exchange(alignment_[static_cast<std::size_t>(fd)], 0) != 0) ::close(fd);
    }

    [[nodiscard]] std::uint64_t size(int fd) const {
        const off_t end = ::lseek(fd, 0, SEEK_END); // unlike fstat, also correct for block devices
        if (end < 0) fail("cannot determine the size", {});
        return static_cast<std::uint64_t>(end);
    }

    void resize(int fd, std::uint64_t bytes) {
        if (retry_interrupted([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); }) != 0)
            fail("cannot resize", {}, bytes);
    }

    [[nodiscard]] std::size_t direct_alignment(int fd) const noexcept {
        GNEISS_ASSERT(fd >= 0 && static_cast<std::size_t>(fd) < alignment_.size());
        return alignment_[static_cast<std::size_t>(fd)];
    }

private:
    /// Returns -1 if the file system refuses O_DIRECT.
    static int open_once(const std::filesystem::path& path, const open_options& options, int flags) {
        try {
            if (options.create && options.truncate) return create_regular(path, flags & O_DIRECT, "cannot open");
            const int fd = open_regular(path, flags | (options.create ? O_CREAT : 0), "cannot open");
            if (options.truncate && ::ftruncate(fd, 0) != 0) {
                const int number = errno;
                ::close(fd);
                throw io_error(number, "cannot open", {.path = path});
            }
            return fd;
        } catch (const io_error& why) {
            if ((flags & O_DIRECT) != 0 && why.code().value() == EINVAL) return -1;
            throw;
        }
    }
    [[noreturn]] static void fail(const char* what, const std::filesystem::path& path, std::uint64_t length = 0) {
        const int number = errno;
        throw io_error(number, what, {.path = path, .length = length});
    }

    std::vector<std::size_t> alignment_; // by descriptor; 0: not open here
};

} // namespace gneiss::detail
