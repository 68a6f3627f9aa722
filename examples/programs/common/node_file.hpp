#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <gneiss/io/dataset.hpp>

namespace programs {

/// Rows of the nodes that a file names: integers, .npy, by their number in the source; where nodes have names, by their
/// present row. Throws over_budget for more than `memory` bytes of them; errc::out_of_range for what is no node;
/// errc::invalid_format.
[[nodiscard]] std::vector<gneiss::node_id> rows_in(const std::filesystem::path& file, const gneiss::dataset& data, std::uint64_t memory);

} // namespace programs
