// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

namespace detail {

/// Largest difference of two shares after any state, among entries with totals of at least `least_total`. `advance(s)`
/// updates `done` to its value after state s.
template <class Advance>
[[nodiscard]] double largest_spread(std::span<const std::uint64_t> totals, std::uint64_t least_total,
    std::span<const std::uint64_t> done, std::size_t states, Advance&& advance) {
    double bias = 0;
    for (std::size_t s = 0; s < states; ++s) {
        advance(s);
        double least = 1, most = 0;
        for (std::size_t v = 0; v < totals.size(); ++v) {
            if (totals[v] < least_total) continue;
            const double share = static_cast<double>(done[v]) / static_cast<double>(totals[v]);
            least = std::min(least, share);
            most = std::max(most, share);
        }
        bias = std::max(bias, most - least);
    }
    return bias;
}

} // namespace detail

/// Edge permutation bias B of an epoch: how unevenly edges of different nodes are spread over the epoch.
///
/// Each edge advances the tallies of both its ends, normalized to 1 at the end of the epoch. dᵢ is the largest
/// difference between two nodes' tallies after state i, and B is the largest dᵢ. 0: everything trains in one state;
/// near 1: all edges of some node are done before those of another begin. Nodes without edges do not count. A node with
/// a single edge is either done or not, so two of them make B 1 for every order; exclude such nodes to compare orders.
///
/// \param states        an epoch's states in order
/// \param nodes         number of nodes
/// \param edges_of      `edges_of(bucket, take)` calls `take(range)` for the edges of an edge bucket, in any pieces;
/// elements have
///                      `source` and `destination`; called twice for each bucket
/// \param least_degree  nodes with fewer edges do not count; at least 1
///
/// Cost: two passes over the edges, O(states · nodes) time; 16 bytes per node. Precondition: ids below `nodes`.
/// Source: MariusGNN, EuroSys'23, §6.
template <class EdgesOf>
[[nodiscard]] double edge_bias(
    std::span<const buffer_state> states, std::uint64_t nodes, EdgesOf&& edges_of, std::uint64_t least_degree = 1) {
    GNEISS_ASSERT(least_degree >= 1);
    std::vector<std::uint64_t> totals(static_cast<std::size_t>(nodes)), done(totals.size());
    const auto count = [&](const buffer_state& s, std::vector<std::uint64_t>& tallies) {
        for (const edge_bucket& bucket : s.edge_buckets)
            edges_of(bucket, [&](const auto& edges) {
                for (const auto& e : edges) {
                    GNEISS_ASSERT(e.source < nodes && e.destination < nodes);
                    ++tallies[e.source];
                    ++tallies[e.destination];
                }
            });
    };
    for (const buffer_state& s : states) count(s, totals);
    return detail::largest_spread(
        totals, least_degree, done, states.size(), [&](std::size_t s) { count(states[s], done); });
}

/// The same bias without reading edges: assumes equal degrees and equal bucket sizes, so that the nodes of a partition
/// advance together, by 1/(2p) for each end of a bucket. O(states · p + p²).
[[nodiscard]] inline double uniform_bias(std::span<const buffer_state> states, std::uint32_t partitions) {
    const std::vector<std::uint64_t> totals(partitions, 2 * std::uint64_t{partitions});
    std::vector<std::uint64_t> done(partitions);
    return detail::largest_spread(totals, 1, done, states.size(), [&](std::size_t s) {
        for (const auto& [i, j] : states[s].edge_buckets) {
            ++done[i];
            ++done[j];
        }
    });
}

} // namespace gneiss
