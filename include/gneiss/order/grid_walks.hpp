// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/order/from_buckets.hpp>

namespace gneiss {

/// Returns all p² edge buckets row by row: (0, 0), (0, 1), … A simple baseline. O(p²).
[[nodiscard]] inline std::vector<edge_bucket> row_major_buckets(std::uint32_t partitions) {
    std::vector<edge_bucket> buckets;
    buckets.reserve(std::size_t{partitions} * partitions);
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = 0; j < partitions; ++j) buckets.emplace_back(i, j);
    return buckets;
}

/// Order of `row_major_buckets` with Belady's eviction. The same in every epoch.
class row_major_order : public bucket_list_order {
public:
    /// Plans the walk; throws as `bucket_list_order`.
    row_major_order(std::uint32_t partitions, std::uint32_t resident_partitions)
        : bucket_list_order((detail::check_buffer(partitions, resident_partitions), row_major_buckets(partitions)),
              partitions, resident_partitions) {}
};

static_assert(edge_bucket_order<row_major_order>);

/// Returns cell `at` of the Hilbert curve over a `width` × `width` grid, from (0, 0) to (width − 1, 0). O(log width).
///
/// Precondition: width is a power of two up to 2¹⁶, at < width².
[[nodiscard]] constexpr edge_bucket hilbert_cell(std::uint32_t width, std::uint64_t at) noexcept {
    std::uint32_t x = 0, y = 0;
    for (std::uint32_t size = 1; size < width; size *= 2, at /= 4) {
        const bool right = (at & 2) != 0, up = ((at & 1) != 0) != right;
        if (!up) { // the two outer quadrants are rotated
            if (right) {
                x = size - 1 - x;
                y = size - 1 - y;
            }
            std::swap(x, y);
        }
        x += right ? size : 0;
        y += up ? size : 0;
    }
    return {x, y};
}

/// Returns all p² edge buckets along the Hilbert curve of the next power of two, without cells outside. O(p² log p).
[[nodiscard]] inline std::vector<edge_bucket> hilbert_buckets(std::uint32_t partitions) {
    std::vector<edge_bucket> buckets;
    buckets.reserve(std::size_t{partitions} * partitions);
    const std::uint32_t width = std::bit_ceil(partitions);
    for (std::uint64_t at = 0; at < std::uint64_t{width} * width; ++at) {
        const edge_bucket b = hilbert_cell(width, at);
        if (b.first < partitions && b.second < partitions) buckets.push_back(b);
    }
    return buckets;
}

/// Returns the same curve with (j, i) directly after (i, j) where it first meets either: about half the swaps. O(p² log
/// p).
[[nodiscard]] inline std::vector<edge_bucket> hilbert_symmetric_buckets(std::uint32_t partitions) {
    std::vector<edge_bucket> buckets;
    buckets.reserve(std::size_t{partitions} * partitions);
    bitmap seen(std::size_t{partitions} * partitions);
    for (const auto& [i, j] : hilbert_buckets(partitions)) {
        if (seen[std::size_t{j} * partitions + i]) continue;
        seen.set(std::size_t{i} * partitions + j);
        buckets.emplace_back(i, j);
        if (i != j) buckets.emplace_back(j, i);
    }
    return buckets;
}

/// Edge buckets along a Hilbert curve, which has locality but ignores the buffer, with Belady's eviction. The same in
/// every epoch. The paper's baseline. Source: Marius, OSDI'21, §4.1 and Figure 7.
class hilbert_order : public bucket_list_order {
public:
    /// Options of the walk.
    struct options {
        bool symmetric; ///< (j, i) directly after (i, j): `hilbert_symmetric_buckets`
    };
    /// Plans the walk; throws as `bucket_list_order`.
    hilbert_order(
        std::uint32_t partitions, std::uint32_t resident_partitions, const options& walk = {.symmetric = false})
        : bucket_list_order((detail::check_buffer(partitions, resident_partitions),
                                walk.symmetric ? hilbert_symmetric_buckets(partitions) : hilbert_buckets(partitions)),
              partitions, resident_partitions) {}
};

static_assert(edge_bucket_order<hilbert_order>);

} // namespace gneiss
