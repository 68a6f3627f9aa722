#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/prefetch.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss::detail {

/// How many neighbours of one node lie in each cluster: as `neighbour_counts`, but a hash table, since there are as
/// many clusters as nodes. Cost: O(neighbours). Memory: 16 to 32 bytes a neighbour of the longest list met.
class cluster_counts {
public:
    cluster_counts() { grow(64); }

    /// The lists that follow are this chunk's.
    void begin(const adjacency_chunk& chunk) noexcept {
        chunk_ = chunk;
        fetched_ = chunk.empty() ? 0 : chunk.offsets.front();
    }
    /// Counts list `i` of the chunk, of node v, itself left out. Precondition: what was counted before was taken.
    void count(std::size_t i, node_id v, std::span<const node_id> cluster) {
        const node_id* const neighbours = chunk_.neighbours.data();
        const std::size_t begin = chunk_.offsets[i], end = chunk_.offsets[i + 1];
        const std::size_t wanted = std::min<std::size_t>(end + ahead, chunk_.offsets.back());
        for (fetched_ = std::max(fetched_, begin); fetched_ < wanted; ++fetched_)
            prefetch(cluster.data() + neighbours[fetched_]);
        if (2 * (end - begin) > slots_.size()) grow(std::bit_ceil(2 * (end - begin)));
        for (std::size_t j = begin; j < end; ++j) {
            if (neighbours[j] == v) continue;
            const node_id c = cluster[neighbours[j]];
            std::size_t at = (c * 0x9e3779b1U) >> shift_;
            while (slots_[at].count != 0 && slots_[at].cluster != c) at = (at + 1) & (slots_.size() - 1);
            if (slots_[at].count++ == 0) {
                slots_[at].cluster = c;
                touched_.push_back(static_cast<std::uint32_t>(at));
            }
        }
    }
    /// Calls visit(cluster, neighbours in it) for each cluster that has one, in the order of first neighbours, and
    /// forgets them.
    template <class Visit>
    void take(Visit&& visit) {
        for (const std::uint32_t at : touched_) {
            visit(slots_[at].cluster, slots_[at].count);
            slots_[at].count = 0;
        }
        touched_.clear();
    }

private:
    static constexpr std::size_t ahead = 64; // neighbours

    struct slot {
        node_id cluster = 0;
        std::uint32_t count = 0; // 0: free
    };

    void grow(std::size_t size) {
        slots_.assign(size, {});
        shift_ = static_cast<std::uint32_t>(33 - std::bit_width(size));
    }

    std::vector<slot> slots_; // a power of two
    std::uint32_t shift_ = 0; // of a 32-bit hash to a slot
    std::vector<std::uint32_t> touched_;
    adjacency_chunk chunk_;
    std::size_t fetched_ = 0;
};

} // namespace gneiss::detail
