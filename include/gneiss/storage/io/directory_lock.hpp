// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Keeps other processes, and other holders in this one, out of a directory of unfinished files, by a locked file in
/// it. Ends with its owner or the process; has no effect on a file system without locks. The file marks the directory
/// as one of these programs: another one with files in it is a user's.
class directory_lock {
public:
    static constexpr const char* name = directory_mark; ///< of the file

    directory_lock() = default;
    /// Creates the directory if it is absent, and locks it. Errors: errc::already_exists while another holds it, and
    /// for a link or a directory of other files; `io_error`.
    explicit directory_lock(const std::filesystem::path& directory) {
        for (int attempt = 0; attempt < 100; ++attempt) {
            std::error_code failure;
            if (directory.has_parent_path()) make_directories(directory.parent_path());
            created_ |= make_directory(directory);
            if (!is_marked(directory) && !std::filesystem::is_empty(directory, failure) && !failure &&
                !is_marked(directory))
                throw error(errc::already_exists,
                    "has files of another program: move it, or choose another name for the output",
                    {.path = directory});
            try {
                file_ = plain_file(open_mark(directory), directory / name);
            } catch (const io_error& why) {
                if (why.code().value() == ENOENT) continue;                // its last holder has just removed it
                if (created_) std::filesystem::remove(directory, failure); // if it is empty
                throw;
            }
            if (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) break;
            if (holds(directory)) return;
        }
        throw error(errc::already_exists, "another process is writing here", {.path = directory});
    }

    /// True if the constructor created the directory.
    [[nodiscard]] bool created() const noexcept { return created_; }
    /// True if a directory is the locked one: it may have got another name.
    [[nodiscard]] bool holds(const std::filesystem::path& directory) const noexcept {
        struct ::stat held{}, named{};
        return ::fstat(file_.descriptor(), &held) == 0 && ::stat((directory / name).c_str(), &named) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev;
    }
    /// Removes the file from a directory that has got its name.
    static void remove_from(const std::filesystem::path& directory) noexcept {
        std::error_code ignored;
        std::filesystem::remove(directory / name, ignored);
    }
    /// Removes everything in the directory but the file. Errors: `io_error`.
    static void clear(const std::filesystem::path& directory) {
        std::error_code failure;
        std::filesystem::directory_iterator at(directory, failure);
        while (!failure && at != std::filesystem::directory_iterator()) {
            if (at->path().filename() != name) remove_tree(at->path());
            at.increment(failure);
        }
        if (failure) throw io_error(failure.value(), "remove leftovers", {.path = directory});
    }
    /// Removes the directory if it is the locked one, the file last.
    void remove(const std::filesystem::path& directory) const noexcept {
        if (!holds(directory)) return;
        try {
            clear(directory);
        } catch (...) { // the rest stays
            return;
        }
        remove_from(directory);
        std::error_code ignored;
        std::filesystem::remove(directory, ignored);
    }

private:
    plain_file file_;
    bool created_ = false;
};

/// A directory of unfinished files, empty at first, that one process writes; removed unless it gets its name.
///
///     unfinished_directory made("out.partial");
///     write(made.path() / "file");
///     made.rename_to("out");
///
/// Leftovers of a killed process are removed. Errors: errc::already_exists while another process writes it; `io_error`.
class unfinished_directory {
public:
    explicit unfinished_directory(std::filesystem::path path) : path_(std::move(path)), lock_(path_) {
        directory_lock::clear(path_);
    }
    unfinished_directory(const unfinished_directory&) = delete;
    unfinished_directory& operator=(const unfinished_directory&) = delete;
    ~unfinished_directory() { lock_.remove(path_); }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Renames it. Not durable before the directory that holds it is synced.
    void rename_to(const std::filesystem::path& to) {
        rename_into_place(path_, to);
        directory_lock::remove_from(to);
    }
    /// Renames it, durably; an existing directory is replaced (`replace_directory`).
    void replace(const std::filesystem::path& to) {
        replace_directory(path_, to);
        directory_lock::remove_from(to);
    }

private:
    std::filesystem::path path_;
    directory_lock lock_;
};

} // namespace gneiss
