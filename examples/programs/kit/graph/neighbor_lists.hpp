// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace programs {

/// Returns the paths of a dataset's adjacency files for a direction: DATASET/csc-in, DATASET/csc-out.
[[nodiscard]] gneiss::csc_files lists_of(const gneiss::dataset& data, gneiss::neighbor_direction d);
/// Returns the paths in another directory.
[[nodiscard]] gneiss::csc_files lists_in(const std::filesystem::path& directory, gneiss::neighbor_direction d);

/// Adjacency files, and the directory that is removed with this object if they are not the dataset's.
struct placed_lists {
    gneiss::csc_files files{};
    std::unique_ptr<const gneiss::scratch_directory> own{};
};
/// Returns the dataset's files for a direction; if they are missing and the dataset cannot be written, files in a new
/// directory in `scratch`. Throws `gneiss::io_error`.
[[nodiscard]] placed_lists place_lists(
    const gneiss::dataset& data, gneiss::neighbor_direction d, const std::filesystem::path& scratch);

/// True if all of them exist.
[[nodiscard]] bool lists_exist(const gneiss::csc_files& files);

/// Builds the files from the dataset's buckets if they are missing, within `memory`. Errors as of gneiss::build_csc.
void make_lists(const gneiss::dataset& data, const gneiss::csc_files& files, std::uint64_t memory,
    const gneiss::tbb_executor& executor, const std::stop_token& stop,
    const std::function<void(std::uint64_t done, std::uint64_t edges)>& progress);

/// Returns how often each node occurs in the lists: its degree in the other direction, hence how often it is reached. A
/// self loop of both directions counts once, as samplers draw it. One pass over the lists; 4 bytes per node. Throws
/// io_error, errc::corrupt.
[[nodiscard]] std::vector<std::uint32_t> occurrences(const gneiss::csc_files& files);

} // namespace programs
