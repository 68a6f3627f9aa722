// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace programs {

/// Parses "in", "out" or "both".
[[nodiscard]] inline gneiss::neighbor_direction parse_direction(const std::string& word) {
    return word == "in" ? gneiss::neighbor_direction::in
        : word == "out" ? gneiss::neighbor_direction::out
                        : gneiss::neighbor_direction::both;
}

/// Returns the directions that hops use. Precondition: there is one.
[[nodiscard]] inline gneiss::neighbor_direction directions_of(const std::vector<gneiss::hop_fanout>& hops) {
    for (const gneiss::hop_fanout& hop : hops)
        if (hop.direction() != hops.front().direction()) return gneiss::neighbor_direction::both;
    return hops.front().direction();
}

/// Returns the memory of the lists of neighbors in these directions [bytes].
[[nodiscard]] inline std::uint64_t bytes_in_memory(
    const gneiss::bucket_store& store, gneiss::neighbor_direction directions) {
    return gneiss::csr<>::bytes_needed(store.rows().nodes, store.edges(), {}) *
        (directions == gneiss::neighbor_direction::both ? 2 : 1);
}

/// Reads the lists of neighbors of all nodes. Memory: `bytes_in_memory`, charged by the caller, and meanwhile a
/// bucket's edges, charged here. Throws over_budget; errors of reading.
[[nodiscard]] inline gneiss::csr_graph<> read_graph(
    const gneiss::bucket_store& store, gneiss::neighbor_direction directions, gneiss::memory_budget& budget) {
    std::uint64_t largest = 0;
    for (const gneiss::bucket_row& row : store.table()) largest = std::max(largest, row.edges);
    const auto reading = budget.charge(
        {"edges of a bucket", largest * sizeof(gneiss::edge) + store.largest_block(gneiss::edge_direction::out)});
    const auto side = [&](gneiss::neighbor_direction d) {
        if (directions != d && directions != gneiss::neighbor_direction::both) return gneiss::csr<>();
        return gneiss::csr<>::from_edges(store.rows().nodes, d, {}, [&](auto&& sink) { store.for_each_edge(sink); });
    };
    return gneiss::csr_graph<>(side(gneiss::neighbor_direction::in), side(gneiss::neighbor_direction::out));
}

} // namespace programs
