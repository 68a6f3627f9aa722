// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <gneiss/core/error.hpp>

#include "kit/report/file_names.hpp"

namespace programs {

/// Beginning of the names of adjacency files that programs make in a dataset's directory.
inline constexpr std::string_view lists_prefix = "csc-";
/// Name of the file of a disk's measured speed there.
inline constexpr std::string_view device_profile_name = "device.profile";

/// Throws errc::not_found unless `path` is a directory with a dataset's manifest. The message explains the likely
/// mistake, such as a mistyped name. `advice` ends the message; without it, that of an absent path says what makes a
/// dataset.
inline void check_dataset(const std::filesystem::path& path, const std::string& advice = "") {
    std::error_code failed;
    if (std::filesystem::exists(path / "manifest.json", failed) || failed) return;
    const char* const what = !std::filesystem::exists(path, failed) ? advice.empty()
            ? "No such file or directory: gneiss-data import makes a dataset of your edges, gneiss-data "
              "get one of a published graph"
            : "No such file or directory"
        : std::filesystem::exists(path / config_name, failed)       ? "is a run, not a dataset"
        : std::filesystem::is_directory(path, failed)
        ? "is not a dataset: it has no manifest.json"
        : "is not a dataset but a file: gneiss-data import makes a dataset of a file of edges";
    throw gneiss::error(gneiss::errc::not_found, what + advice, {.path = path});
}

/// Returns the display name of a dataset or a run: the last part of its path, without a trailing slash.
[[nodiscard]] inline std::string directory_name(const std::filesystem::path& path) {
    return (path / "").parent_path().filename().string();
}

} // namespace programs
