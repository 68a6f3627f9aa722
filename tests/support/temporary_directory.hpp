#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include <gneiss/core/error.hpp>

namespace gneiss::test {

/// A new, empty directory, removed with its contents on destruction.
class temporary_directory {
public:
    explicit temporary_directory(const std::filesystem::path& under = std::filesystem::temp_directory_path()) {
        std::string name = (under / ("gneiss-" + std::string(6, 'X'))).string();
        if (::mkdtemp(name.data()) == nullptr) throw io_error(errno, "create a directory", {.path = name});
        path_ = name;
    }
    temporary_directory(const temporary_directory&) = delete;
    temporary_directory& operator=(const temporary_directory&) = delete;
    ~temporary_directory() {
        try {
            std::filesystem::remove_all(path_);
        } catch (...) { // NOLINT(bugprone-empty-catch): the directory remains
        }
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

} // namespace gneiss::test
