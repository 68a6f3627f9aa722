#pragma once

#include <cstdint>
#include <vector>

#include <gneiss/core/row_layout.hpp>

namespace gneiss::test {

/// Returns partitions of these sizes.
inline row_partitioning cut_into(const std::vector<std::uint64_t>& sizes) { return row_partitioning::of_sizes(sizes); }

} // namespace gneiss::test
