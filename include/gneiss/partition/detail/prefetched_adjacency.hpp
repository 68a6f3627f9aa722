// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss::detail {

/// The lists of a chunk for who looks up each neighbor in an array. Its entries are read at random, which is what bounds
/// such loops, so those of the coming neighbors are asked for ahead, across lists.
class prefetched_adjacency {
public:
    /// The lists that follow are this chunk's.
    void begin(const adjacency_chunk& chunk) noexcept {
        chunk_ = chunk;
        fetched_ = chunk.empty() ? 0 : chunk.offsets.front();
    }

    /// List `i` of the chunk, whose entries of `array` were asked for; lists are taken in order. O(its neighbors).
    template <class T>
    [[nodiscard]] std::span<const node_id> take(std::size_t i, std::span<const T> array) noexcept {
        const node_id* const neighbors = chunk_.neighbors.data();
        const std::size_t wanted = std::min<std::size_t>(chunk_.offsets[i + 1] + ahead, chunk_.offsets.back());
        for (fetched_ = std::max<std::size_t>(fetched_, chunk_.offsets[i]); fetched_ < wanted; ++fetched_)
            prefetch(array.data() + neighbors[fetched_]);
        return chunk_.list(i);
    }

private:
    static constexpr std::size_t ahead = 64; // neighbors; a reading from memory takes as long as some tens of them

    adjacency_chunk chunk_;
    std::size_t fetched_ = 0; // neighbors of the chunk that were asked for
};

} // namespace gneiss::detail
