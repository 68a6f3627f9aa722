// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/detail/prefetched_adjacency.hpp>

namespace gneiss::detail {

/// Counts the neighbors of one node per cluster. Like `neighbor_counts`, but a hash table, because clusters may number
/// up to the nodes. Cost: O(neighbors). Memory: 16 to 32 bytes per neighbor of the longest list seen.
class cluster_counts {
public:
    cluster_counts() { grow(64); }

    /// Starts a chunk; the lists that follow are its lists.
    void begin(const adjacency_chunk& chunk) noexcept { lists_.begin(chunk); }
    /// Counts list `i` of the chunk, of node v, without v itself. Precondition: previous counts were taken.
    void count(std::size_t i, node_id v, std::span<const node_id> cluster) {
        const std::span<const node_id> neighbors = lists_.take(i, cluster);
        if (2 * neighbors.size() > slots_.size()) grow(std::bit_ceil(2 * neighbors.size()));
        for (const node_id u : neighbors) {
            if (u == v) continue;
            const node_id c = cluster[u];
            std::size_t at = (c * 0x9e3779b1U) >> shift_;
            while (slots_[at].count != 0 && slots_[at].cluster != c) at = (at + 1) & (slots_.size() - 1);
            if (slots_[at].count++ == 0) {
                slots_[at].cluster = c;
                touched_.push_back(static_cast<std::uint32_t>(at));
            }
        }
    }
    /// Calls visit(cluster, count) for each cluster with a neighbor, in the order of first neighbors, and resets the
    /// counts.
    template <class Visit>
    void take(Visit&& visit) {
        for (const std::uint32_t at : touched_) {
            visit(slots_[at].cluster, slots_[at].count);
            slots_[at].count = 0;
        }
        touched_.clear();
    }

private:
    struct slot {
        node_id cluster = 0;
        std::uint32_t count = 0; // 0: free
    };

    void grow(std::size_t size) {
        slots_.assign(size, {});
        shift_ = static_cast<std::uint32_t>(33 - std::bit_width(size));
    }

    std::vector<slot> slots_; // a power of two
    std::uint32_t shift_ = 0; // shift from a 32-bit hash to a slot
    std::vector<std::uint32_t> touched_;
    prefetched_adjacency lists_;
};

} // namespace gneiss::detail
