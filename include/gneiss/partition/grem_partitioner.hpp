// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/listed_edges.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/grem.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

/// Seed partitioner for GREM by the library's multilevel partitioner, which keeps caps. The executor must outlive it.
/// Throws errc::invalid_argument without one.
template <executor E>
struct multilevel_bisector {
    const E* on;                                          ///< executor of the bisection
    multilevel_effort effort = multilevel_effort::normal; ///< effort of the bisection
    std::stop_token stop{};                               ///< stops it with errc::canceled

    /// Returns the part of each node, 0 or 1, with at most `most` nodes in each.
    [[nodiscard]] std::vector<partition_id16> operator()(
        symmetric_csr graph, std::array<std::uint64_t, 2> most, std::uint64_t seed) const {
        if (on == nullptr) throw error(errc::invalid_argument, "an executor is needed", {.field = "on"});
        symmetric_stream lists(graph);
        const weighted_graph weighted = make_weighted_graph(lists);
        graph = {};
        return multilevel_partition(weighted,
            {.parts = 2, .max_weights = {most[0], most[1]}, .effort = effort, .seed = seed, .stop = stop}, *on);
    }
};

/// GREM over adjacency lists, which it reads once if its options shuffle. See `grem`.
///
///     memory_scratch<> place;
///     const auto part = grem_partitioner{{.chunk = .1}}(lists, {.parts = 8}, place, executor);
struct grem_partitioner {
    grem_options options{}; ///< options of GREM

    /// Returns the part of each node, [nodes]; `place` holds edges that do not fit.
    template <adjacency_stream Stream, scratch Scratch, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& graph, const partition_request& request, Scratch& place, const E& on) const {
        listed_edges edges(graph);
        return grem(edges, place, request, options, multilevel_bisector<E>{.on = &on, .stop = request.stop});
    }
    /// Maximum memory including the seed partitioner on a chunk, without stream and scratch [bytes].
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        const edge_index edges = arcs / 2;
        const auto chunk = static_cast<edge_index>(options.chunk * static_cast<double>(edges)) + 1;
        const std::uint64_t resumed = request.journal == nullptr ? 0 : 11 * nodes; // until the first save
        return grem_bytes(nodes, edges, request.parts, options) + 56 * std::min(nodes, 2 * chunk) + 32 * chunk +
            resumed;
    }
};

} // namespace gneiss
