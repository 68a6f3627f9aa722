// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace gneiss::importing {

/// OUT.partial, the directory of an unfinished dataset: created and locked by the constructor, until the dataset is
/// published.
///
/// The destructor removes a directory that the constructor created or that was cleared, unless keep() was called.
/// Throws errc::already_exists while another process uses it.
class partial_directory {
public:
    /// Creates and locks the directory.
    explicit partial_directory(const std::filesystem::path& out)
        : path_(out.string() + ".partial"),
          lock_(path_),
          removable_(lock_.created()) {}
    partial_directory(const partial_directory&) = delete;
    partial_directory& operator=(const partial_directory&) = delete;
    ~partial_directory() {
        if (removable_ && !kept_) lock_.remove(path_); // unless it is published
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Returns a file of the dataset.
    [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }
    /// Returns a temporary file, removed with the others when the dataset is complete.
    [[nodiscard]] std::filesystem::path work(const std::string& name) const { return path_ / ("work-" + name); }
    /// Returns the directory for unpacked arrays of archives.
    [[nodiscard]] std::filesystem::path unpacked() const { return unpacked_in(path_); }
    /// Returns that of a directory.
    [[nodiscard]] static std::filesystem::path unpacked_in(const std::filesystem::path& partial) {
        return partial / "work-npz";
    }
    /// Returns the beginning of the names of copied pipes.
    [[nodiscard]] std::filesystem::path pipes() const { return work("pipe"); }
    /// Returns the file of the edge records of a split.
    [[nodiscard]] std::filesystem::path records(std::size_t split) const {
        return work("edges-" + std::to_string(split));
    }

    /// Sets whether a resume is possible; then the directory stays if the import fails.
    void keep(bool resumable) noexcept { kept_ = resumable; }
    /// Lets the destructor remove the directory, also one of an earlier run.
    void discard() noexcept {
        removable_ = true;
        kept_ = false;
    }

    /// Removes everything but the lock, unpacked arrays and copied pipes.
    void clear() {
        removable_ = true;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            if (entry.path().filename() != directory_lock::name && entry.path() != unpacked() &&
                !entry.path().string().starts_with(pipes().string()))
                remove_tree(entry.path());
    }

    /// Throws errc::no_space with both figures unless `bytes` are free.
    void need_disk(std::uint64_t bytes, const char* what) const {
        std::error_code failed;
        const auto space = std::filesystem::space(path_, failed);
        if (!failed && space.available < bytes)
            throw error(errc::no_space,
                std::string(what) + " need about " + format_bytes(bytes) + " of disk, " +
                    format_bytes(space.available) + " are free",
                {.path = path_});
    }

private:
    std::filesystem::path path_;
    directory_lock lock_;
    bool removable_ = false, kept_ = false;
};

} // namespace gneiss::importing
