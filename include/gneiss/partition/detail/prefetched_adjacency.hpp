// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss::detail {

/// Lists of a chunk for loops that look up each neighbor in an array. The random reads of its entries bound such loops,
/// so entries of upcoming neighbors are prefetched, across lists.
class prefetched_adjacency {
public:
    /// Starts a chunk; the lists that follow are its lists.
    void begin(const adjacency_chunk& chunk) noexcept {
        chunk_ = chunk;
        fetched_ = chunk.empty() ? 0 : chunk.offsets.front();
    }

    /// Returns list `i` of the chunk, whose entries of `array` were prefetched. Lists are taken in order. O(neighbors).
    template <class T>
    [[nodiscard]] std::span<const node_id> take(std::size_t i, std::span<const T> array) noexcept {
        const node_id* const neighbors = chunk_.neighbors.data();
        const std::size_t wanted = std::min<std::size_t>(chunk_.offsets[i + 1] + ahead, chunk_.offsets.back());
        for (fetched_ = std::max<std::size_t>(fetched_, chunk_.offsets[i]); fetched_ < wanted; ++fetched_)
            prefetch(array.data() + neighbors[fetched_]);
        return chunk_.list(i);
    }

private:
    static constexpr std::size_t ahead = 64; // neighbors; one memory access takes about as long as some tens of them

    adjacency_chunk chunk_;
    std::size_t fetched_ = 0; // neighbors of the chunk already prefetched
};

} // namespace gneiss::detail
