// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/detail/open_file.hpp>

namespace gneiss {

// The only functions that create and remove directories; storage/detail/open_file.hpp has those of files. Others share
// the machine, and a dataset or a run may come from a stranger: nothing is written through a link in it, and only what
// is ours is removed.

/// Name of the file that marks a directory as one that these programs write and may empty.
inline constexpr const char* directory_mark = ".gneiss-lock";

/// Creates the directory, whose parent exists, and returns true; returns false if it is there. Errors:
/// errc::already_exists for a link or a file; `io_error`.
inline bool make_directory(const std::filesystem::path& path) {
    const std::filesystem::path plain =
        path.has_filename() ? path : path.parent_path(); // open(2) follows a link before a slash
    if (::mkdir(plain.c_str(), 0777) == 0) return true;
    if (errno != EEXIST) throw io_error(errno, "create the directory", {.path = path});
    const int fd = ::open(plain.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        throw error(errc::already_exists, "is a link or a file, not a directory", {.path = path});
    if (fd >= 0) ::close(fd);
    return false;
}

/// Creates a directory that the user named, and its parents; links are followed. Errors: `io_error`.
inline void make_directories(const std::filesystem::path& path) {
    std::error_code failure;
    std::filesystem::create_directories(path, failure);
    if (failure) throw io_error(failure.value(), "create the directory", {.path = path});
}

/// Removes a file, a link or a directory with its contents, without following links. Precondition: these programs wrote
/// it, in a directory of theirs. Errors: `io_error`.
inline void remove_tree(const std::filesystem::path& path) {
    std::error_code failure;
    std::filesystem::remove_all(path, failure);
    if (failure) throw io_error(failure.value(), "remove", {.path = path});
}
/// The same for destructors: what cannot be removed stays. Walking a directory takes memory, which may be missing.
inline void try_remove_tree(const std::filesystem::path& path) noexcept {
    try {
        remove_tree(path);
    } catch (...) { // it stays
    }
}

/// True if the path names a directory, not a link, that these programs have marked.
[[nodiscard]] inline bool is_marked(const std::filesystem::path& directory) noexcept {
    struct ::stat status{};
    return ::lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
        ::lstat((directory / directory_mark).c_str(), &status) == 0 && S_ISREG(status.st_mode);
}
/// Opens the mark of a directory to be locked, creating it. Returns the descriptor. Errors: errc::unsupported for a
/// link; `io_error`.
[[nodiscard]] inline int open_mark(const std::filesystem::path& directory) {
    return detail::open_regular(directory / directory_mark, O_RDWR | O_CREAT);
}

/// A new directory with an unpredictable name, removed with its contents.
class scratch_directory {
public:
    /// Creates it in `within`; its name begins with `prefix`. Errors: `io_error`.
    explicit scratch_directory(const std::filesystem::path& within, std::string_view prefix = "gneiss-") {
        std::string name = (within / (std::string(prefix) + std::string(6, 'X'))).string();
        if (::mkdtemp(name.data()) == nullptr) throw io_error(errno, "create a scratch directory", {.path = within});
        path_ = name;
    }
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;
    ~scratch_directory() { try_remove_tree(path_); }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace gneiss
