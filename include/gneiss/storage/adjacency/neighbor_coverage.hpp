// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss {

/// Chance of a neighbor to be resident in a buffer state: for each resident partition, the share of its nodes' edges
/// whose other end is resident, too.
///
///     const neighbor_coverage coverage(store, state.resident, neighbor_direction::in);
///     coverage.of(batch.nodes, chances); // for `encoder_pass::coverage`
///
/// Exact for a partition, from the sizes of its edge buckets; of a node it is the expected value. Memory: 4 bytes per
/// partition. Cost: O(c · p) for c of p partitions, once a state; O(log p) per node. Immutable, thread-safe.
class neighbor_coverage {
public:
    /// \param resident   ascending
    /// \param direction  of the neighbors that samples draw
    /// \param share      of the missing neighbors that count: 1 − share · (1 − c) is returned in place of the chance c
    /// \param loops      `loops(p)` returns the self loops of resident partition p that both directions have once (0
    /// for one direction) Throws errc::out_of_range for a partition beyond the store; errc::invalid_argument for
    /// partitions that do not ascend, or a share outside [0, 1].
    template <std::invocable<partition_id> Loops>
    neighbor_coverage(const bucket_store& store, std::span<const partition_id> resident, neighbor_direction direction,
        double share, Loops&& loops)
        : finder_(store.rows()),
          of_partition_(store.rows().partitions, 1.0F) {
        if (std::ranges::adjacent_find(resident, std::greater_equal<>()) != resident.end())
            throw error(errc::invalid_argument, "resident partitions do not ascend");
        if (!(share >= 0 && share <= 1))
            throw error(errc::invalid_argument, "a share from 0 to 1 is needed", {.field = "share"});
        for (const partition_id p : resident) {
            store.check({p, p});
            std::uint64_t present = 0, all = 0;
            for (partition_id q = 0; q < store.rows().partitions; ++q) {
                std::uint64_t edges = 0;
                if (direction != neighbor_direction::out) edges += store.extent({q, p}).edges;
                if (direction != neighbor_direction::in) edges += store.extent({p, q}).edges;
                all += edges;
                if (std::ranges::binary_search(resident, q)) present += edges;
            }
            if (present == all) continue; // also without edges
            of_partition_[p] = static_cast<float>(
                1 - share * static_cast<double>(all - present) / static_cast<double>(all - loops(p)));
            complete_ = false;
        }
    }

    /// The same for edges without self loops.
    neighbor_coverage(const bucket_store& store, std::span<const partition_id> resident, neighbor_direction direction,
        double share = 1)
        : neighbor_coverage(store, resident, direction, share, [](partition_id) { return std::uint64_t{0}; }) {}

    /// Returns true if all neighbors of all resident nodes are resident.
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    /// Returns the coverage of a resident partition, in [0, 1]. Precondition, not checked: the partition exists.
    [[nodiscard]] float operator[](partition_id p) const noexcept { return of_partition_[p]; }
    /// Sets `out` to the coverage of each node. Precondition, not checked: nodes are of the store; others are read out
    /// of bounds.
    void of(std::span<const node_id> nodes, std::vector<float>& out) const {
        out.resize(nodes.size());
        std::ranges::transform(nodes, out.begin(), [this](node_id v) { return of_partition_[finder_.of(v)]; });
    }

private:
    row_finder finder_;
    std::vector<float> of_partition_;
    bool complete_ = true;
};

/// Returns the edges between partitions as a share of those that random partitions of equal sizes have between them, 1
/// − 1/p of all in the mean: 1 for random partitions, near 0 for partitions by locality. 0 without edges, or for one
/// partition. O(p).
[[nodiscard]] inline double relative_cut(const bucket_store& store) {
    const partition_id partitions = store.rows().partitions;
    std::uint64_t inside = 0;
    for (partition_id p = 0; p < partitions; ++p) inside += store.extent({p, p}).edges;
    const std::uint64_t all = store.edges();
    if (all == 0 || partitions < 2) return 0;
    return static_cast<double>(all - inside) / static_cast<double>(all) / (1 - 1.0 / partitions);
}

} // namespace gneiss
