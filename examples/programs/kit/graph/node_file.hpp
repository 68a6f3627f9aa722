// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <gneiss/io/dataset.hpp>

namespace programs {

/// Returns the rows of the nodes in a file of integers, .npy or one per line: ids of the source or, for nodes with
/// names, current rows. Throws over_budget if they exceed `memory` bytes; errc::out_of_range for an invalid node;
/// errc::invalid_format.
[[nodiscard]] std::vector<gneiss::node_id> rows_in(
    const std::filesystem::path& file, const gneiss::dataset& data, std::uint64_t memory);

} // namespace programs
