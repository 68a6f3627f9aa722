// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/prefetched_adjacency.hpp>

namespace gneiss::detail {

/// Counts the neighbors of one node per part: counters, and a list of the nonzero ones.
///
///     counts.begin(chunk);
///     for (each list i, in order) {
///         counts.count(i, part);
///         counts.take([&](partition_id16 p, std::uint32_t n) { … });
///     }
///
/// Cost: O(neighbors), independent of the number of parts. Memory: 256 KiB, of which `parts` counters are touched.
class neighbor_counts {
public:
    explicit neighbor_counts(std::uint32_t parts)
        : counts_(no_partition + std::size_t{1}),
          touched_(parts + std::size_t{1}) {
        counts_[no_partition] = 1; // never 0, so never listed
    }

    /// Starts a chunk; the lists that follow are its lists.
    void begin(const adjacency_chunk& chunk) noexcept { lists_.begin(chunk); }

    /// Counts list `i` of the chunk. `part`: [nodes], below the number of parts, or `no_partition`: not counted.
    /// Precondition: previous counts were taken.
    void count(std::size_t i, std::span<const partition_id16> part) noexcept {
        for (const node_id u : lists_.take(i, part)) {
            const partition_id16 p = part[u];
            touched_[size_] = p;
            size_ += counts_[p]++ == 0 ? 1U : 0U;
        }
    }

    /// Calls visit(part, count) for each part with a neighbor, in the order of first neighbors, and resets the counts.
    template <class Visit>
    void take(Visit&& visit) {
        for (std::size_t t = 0; t < size_; ++t) {
            const partition_id16 p = touched_[t];
            const std::uint32_t n = counts_[p];
            counts_[p] = 0;
            visit(p, n);
        }
        size_ = 0;
        counts_[no_partition] = 1;
    }

    [[nodiscard]] static constexpr std::uint64_t bytes(std::uint32_t parts) noexcept {
        return 4 * (std::uint64_t{no_partition} + 1) + 2 * (std::uint64_t{parts} + 1);
    }

private:
    std::vector<std::uint32_t> counts_;   // [every partition_id16]
    std::vector<partition_id16> touched_; // parts with a nonzero counter, and room for one more
    std::size_t size_ = 0;
    prefetched_adjacency lists_;
};

} // namespace gneiss::detail
