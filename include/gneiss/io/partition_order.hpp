// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// The row order of a partitioning: partition after partition, in random order within each. It is called for the old
/// rows in ascending order, with the partition of each.
///
/// The result is a function of (sizes, key, sequence of partitions). Memory: 40 bytes per partition. Not thread-safe.
class partition_order {
public:
    /// \param sizes  rows of each partition
    partition_order(std::span<const std::uint64_t> sizes, random_key key)
        : rows_(row_partitioning::of_sizes(sizes)),
          met_(sizes.size(), 0) {
        for (std::size_t p = 0; p < sizes.size(); ++p) within_.emplace_back(sizes[p], key.with(p));
    }

    /// Returns the partitions of the new rows.
    [[nodiscard]] const row_partitioning& rows() const noexcept { return rows_; }

    /// Returns the new row of the next row, which goes to `p`. Throws errc::invalid_argument if `p` is full. O(1).
    [[nodiscard]] node_id operator()(partition_id p) {
        if (met_[p] == within_[p].size())
            throw error(errc::invalid_argument, "a partition gets more rows than it has room for");
        return static_cast<node_id>(rows_.begin(p) + within_[p](met_[p]++));
    }

private:
    row_partitioning rows_;
    std::vector<keyed_permutation> within_;
    std::vector<std::uint64_t> met_; // rows assigned to each
};

} // namespace gneiss
