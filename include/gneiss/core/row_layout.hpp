#pragma once

#include <cstddef>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// One embedding row as it lies in a buffer slot and on disk: `dim` floats of value, then `state` floats of optimiser
/// state, side by side, so that both are swapped and checkpointed together.
struct row_layout {
    std::uint32_t dim = 0;   ///< floats of value
    std::uint32_t state = 0; ///< floats of optimiser state (Adagrad: dim, Adam: 2·dim, SGD: 0)

    [[nodiscard]] constexpr std::size_t floats() const noexcept { return std::size_t{dim} + state; }
    [[nodiscard]] constexpr std::size_t bytes() const noexcept { return floats() * sizeof(float); }

    friend bool operator==(const row_layout&, const row_layout&) = default;
};

/// How `nodes` rows are cut into `partitions` ranges of equal size; the last ones may be shorter, even empty.
///
/// Internal ids are a random permutation of the dataset's nodes, so a contiguous range is a random partition.
struct row_partitioning {
    std::uint64_t nodes = 0;
    std::uint32_t partitions = 1;

    /// Rows of a full partition.
    [[nodiscard]] constexpr std::uint64_t capacity() const noexcept {
        return nodes == 0 ? 0 : ceil_div(nodes, std::uint64_t{partitions});
    }
    /// First row of partition `p`; `begin(partitions)` is `nodes`.
    [[nodiscard]] constexpr std::uint64_t begin(partition_id p) const noexcept {
        const std::uint64_t first = p * capacity();
        return first < nodes ? first : nodes;
    }
    [[nodiscard]] constexpr std::uint64_t size(partition_id p) const noexcept { return begin(p + 1) - begin(p); }
    [[nodiscard]] constexpr partition_id of(std::uint64_t node) const noexcept {
        return static_cast<partition_id>(node / capacity());
    }

    friend bool operator==(const row_partitioning&, const row_partitioning&) = default;
};

} // namespace gneiss
