// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/statvfs.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Renames a file or directory; an existing file gets replaced. Not durable before its directory is synced. Errors:
/// `io_error` with the new name.
inline void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to) {
    if (std::rename(from.c_str(), to.c_str()) != 0) throw io_error(errno, "cannot rename into place", {.path = to});
}

/// Returns a hidden name in the directory of `path`, such as `data/.small.old`: one that no user gave to something
/// else.
[[nodiscard]] inline std::filesystem::path hidden_beside(const std::filesystem::path& path, std::string_view ending) {
    const std::filesystem::path whole = path.has_filename() ? path : path.parent_path();
    return whole.parent_path() / ("." + whole.filename().string() + std::string(ending));
}

/// Writes a file at `path` from `write(sequential_writer&)` in one durable step: temporary file, fsync, rename, fsync
/// of the directory.
///
/// Meaning: after a crash at any time the file is the old or the new one, whole; after this returns, the new one. On an
/// error before the rename the old file is untouched and the temporary is removed; after it, the new one is in place
/// but power loss may restore the old one. Cost: two device flushes.
/// Precondition: one writer of `path` at a time (the temporary is `hidden_beside(path, ".tmp")`; one left by a crash is
/// replaced).
/// Errors: `io_error`; a failed fsync is not repeated. Source: the protocol that lost nothing in 25 power cuts.
template <std::invocable<sequential_writer&> Write>
void atomic_write_file(const std::filesystem::path& path, Write&& write) {
    const std::filesystem::path temporary = hidden_beside(path, ".tmp");
    plain_file file = plain_file::create(temporary);
    try {
        sequential_writer out(file);
        write(out);
        file.sync();
        out.drop();
        file.close();
        rename_into_place(temporary, path);
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove(temporary, ignored);
        throw;
    }
    sync_directory(path.parent_path());
}
/// The same, for bytes in memory.
inline void atomic_write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    atomic_write_file(path, [&](sequential_writer& out) { out.append(bytes); });
}

/// Replaces the directory at `path` by `made`, whose files are synced; the old one is `hidden_beside(path, ".old")`
/// meanwhile.
///
/// Meaning: after a crash at any time one of the two is whole, at `path`, `made` or the hidden name; the old one, which
/// is marked (`directory_mark`), is removed only after the new name is durable. Cost: a device flush.
/// Precondition: all of the old one may be removed.
/// Errors: errc::already_exists if a directory without the mark has the hidden name; `io_error`. The existing directory
/// still has one of the names.
inline void replace_directory(const std::filesystem::path& made, const std::filesystem::path& path) {
    const std::filesystem::path old = hidden_beside(path, ".old");
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
        if (is_marked(old))
            try_remove_tree(old); // left by a crash; if it cannot be removed, the rename fails
        else if (std::filesystem::exists(std::filesystem::symlink_status(old, ignored)))
            throw error(
                errc::already_exists, "is in the way of the directory that is replaced: move it", {.path = old});
        (void)make_directory(path); // not a link
        const plain_file mark(open_mark(path), path / directory_mark);
        rename_into_place(path, old);
    }
    rename_into_place(made, path);
    sync_directory(std::filesystem::absolute(path).parent_path());
    if (is_marked(old)) try_remove_tree(old);
}

/// Removes a directory that did not get its final name.
struct removed_unless_renamed {
    std::filesystem::path path; ///< directory to remove

    ~removed_unless_renamed() { try_remove_tree(path); }
};

/// Returns the bytes that a file under `path` may still grow by, for this user. Throws `io_error`.
[[nodiscard]] inline std::uint64_t free_disk_bytes(const std::filesystem::path& path) {
    struct ::statvfs status{};
    if (::statvfs(path.c_str(), &status) != 0) throw io_error(errno, "cannot determine the free space", {.path = path});
    return std::uint64_t{status.f_bavail} * status.f_frsize;
}

/// Throws `error` (no_space) with both figures unless `bytes` fit under `path`: call it before work begins.
inline void require_disk_space(const std::filesystem::path& path, std::uint64_t bytes) {
    if (const std::uint64_t available = free_disk_bytes(path); bytes > available)
        throw error(errc::no_space,
            format_bytes(bytes) + " are needed on this disk, " + format_bytes(available) + " are free", {.path = path});
}

/// Allocates `bytes` for `path` from its start, creating it if absent: later writes into that range do not run out of
/// space. New bytes are zero; the file never shrinks. Errors: `io_error`, with `out_of_space()` on a full disk.
inline void preallocate(const std::filesystem::path& path, std::uint64_t bytes) {
    const error_place place{.path = path, .length = bytes};
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
        throw io_error(EFBIG, "cannot allocate", place);
    const int fd = detail::open_regular(path, O_WRONLY | O_CREAT, "cannot open");
    const int result = detail::retry_interrupted([&] {
        errno = bytes == 0 ? 0 : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
        return errno == 0 ? 0 : -1;
    });
    const int number = errno;
    ::close(fd);
    if (result != 0) throw io_error(number, "cannot allocate", place);
}

} // namespace gneiss
