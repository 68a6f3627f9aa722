// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>

namespace gneiss::detail {

/// Opens a regular file, never a FIFO or a device, which could block or never end. `flags` as of open(2); a file to be
/// written is not a link. Returns the descriptor. Errors: errc::unsupported for other files; `io_error`, also for a
/// directory.
[[nodiscard]] inline int open_regular(const std::filesystem::path& path, int flags, const char* what = "open") {
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    const int fd = retry_interrupted([&] {
        return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (writes ? O_NOFOLLOW : 0), 0644);
    });
    if (fd < 0 && errno == ELOOP && writes)
        throw error(errc::unsupported, "is a symbolic link, which is not followed to write", {.path = path});
    if (fd < 0) throw io_error(errno, what, {.path = path});
    struct ::stat status{};
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK); // it would refuse requests of io_uring
        return fd;
    }
    ::close(fd);
    if (S_ISDIR(status.st_mode)) throw io_error(EISDIR, what, {.path = path});
    throw error(errc::unsupported, "is not a regular file", {.path = path});
}

/// Creates an empty file, opened for reading and writing, in place of a regular one. Returns the descriptor. `flags`
/// are added.
/// Errors: errc::already_exists for a link, a device or a FIFO, which stays as it is; `io_error`.
[[nodiscard]] inline int create_regular(const std::filesystem::path& path, int flags = 0, const char* what = "create") {
    for (int attempt = 0;; ++attempt) {
        const int fd = retry_interrupted(
            [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0644); });
        if (fd >= 0) return fd;
        if (errno != EEXIST || attempt == 100) throw io_error(errno, what, {.path = path});
        struct ::stat status{};
        if (::lstat(path.c_str(), &status) != 0) continue; // removed meanwhile
        if (S_ISDIR(status.st_mode)) throw io_error(EISDIR, what, {.path = path});
        if (!S_ISREG(status.st_mode))
            throw error(errc::already_exists, "is not a regular file, and is not replaced", {.path = path});
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw io_error(errno, what, {.path = path});
    }
}

} // namespace gneiss::detail
