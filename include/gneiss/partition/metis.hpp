// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes METIS; it needs the target gneiss::metis.
#include <metis.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

/// Options of METIS.
struct metis_options {
    std::uint32_t parts = 2;            ///< k, 1 … max_partition_count
    double imbalance = .03;             ///< maximum weight of a part is 1 + imbalance times the mean
    bool recursive = false;             ///< recursive bisection instead of the direct k-way method
    std::span<const class_id> labels{}; ///< [nodes] or empty; each label becomes a constraint; `unlabeled`: none
    double label_imbalance = .05;       ///< maximum nodes of a label in a part is 1 + label_imbalance times the mean
    std::uint64_t seed = 0;             ///< only the low 31 bits are used
};

namespace detail {

/// Converts `values` for METIS: in place if its integers have 32 bits, else copied to `room`.
[[nodiscard]] inline idx_t* metis_array(std::vector<std::uint32_t>& values, std::vector<idx_t>& room) {
    if (values.empty()) return nullptr;
    if constexpr (sizeof(idx_t) == sizeof(std::uint32_t)) {
        return reinterpret_cast<std::make_signed_t<std::uint32_t>*>(values.data());
    } else {
        room.assign(values.begin(), values.end());
        return room.data();
    }
}

} // namespace detail

/// Partitions a graph in memory by METIS, as a reference for other partitioners. Consumes the graph.
///
///     const std::vector<partition_id16> parts = metis_partition(make_weighted_graph(stream), {.parts = 64});
///
/// Balance is best effort: with labels (one constraint for node weights and one per label) METIS may exceed the request
/// by far. With fewer nodes than parts each node gets its own part, without calling METIS. Cost and memory: METIS's,
/// some 10 to 20 times the graph, plus 4 bytes per node and constraint. A function of graph and options for a given
/// build of METIS. METIS sets signal handlers without synchronization: make one call at a time. Errors:
/// errc::invalid_argument for zero or too many parts, a wrong number of labels, an imbalance that is not at least 0, or
/// a graph with inconsistent arrays; errc::unsupported for more than 65535 labels or sums of weights beyond METIS's
/// integers, and if METIS fails; std::bad_alloc.
/// Source: Karypis and Kumar, SIAM J. Sci. Comput. 20(1), 1998; the constraints: SC'98.
[[nodiscard]] inline std::vector<partition_id16> metis_partition(weighted_graph graph, const metis_options& options) {
    check_graph(graph);
    const std::size_t nodes = graph.nodes();
    check_request({.parts = options.parts, .imbalance = options.imbalance, .labels = options.labels}, nodes);
    if (!(options.label_imbalance >= 0))
        throw error(errc::invalid_argument, "a number of at least 0 is needed", {.field = "label_imbalance"});
    if (options.parts == 1) return std::vector<partition_id16>(nodes);
    std::vector<partition_id16> result(nodes);
    if (nodes <= options.parts) {
        for (std::size_t v = 0; v < nodes; ++v) result[v] = static_cast<partition_id16>(v);
        return result;
    }
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<idx_t>::max());
    if (graph.arcs() > most || graph.total_node_weight() > most || graph.total_edge_weight() > most / 2)
        throw error(errc::unsupported, "this graph's weights are beyond the integers that METIS was built with");

    class_id labels = 0;
    for (const class_id label : options.labels)
        if (label != unlabeled) labels = std::max(labels, label + 1);
    if (labels > 65535)
        throw error(errc::unsupported, "METIS balances at most 65535 labels, not " + std::to_string(labels),
            {.field = "labels"});
    auto constraints = static_cast<idx_t>(1 + labels);
    std::vector<idx_t> weights;
    if (labels != 0) {
        const auto columns = static_cast<std::size_t>(constraints);
        weights.resize(nodes * columns);
        for (std::size_t v = 0; v < nodes; ++v) {
            weights[v * columns] = static_cast<idx_t>(graph.weight(static_cast<node_id>(v)));
            if (options.labels[v] != unlabeled) weights[v * columns + 1 + options.labels[v]] = 1;
        }
    }
    std::vector<real_t> slack(static_cast<std::size_t>(constraints), static_cast<real_t>(1 + options.label_imbalance));
    slack[0] = static_cast<real_t>(1 + options.imbalance);

    std::vector<idx_t> lists(graph.offsets.begin(), graph.offsets.end());
    graph.offsets = {};
    std::vector<idx_t> neighbor_capacity, edges_room, nodes_room;
    idx_t* const neighbors = detail::metis_array(graph.neighbors, neighbor_capacity);
    idx_t* const edge_weights = detail::metis_array(graph.edge_weights, edges_room);
    idx_t* const node_weights = labels != 0 ? weights.data() : detail::metis_array(graph.node_weights, nodes_room);

    idx_t settings[METIS_NOPTIONS];
    METIS_SetDefaultOptions(settings);
    settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
    settings[METIS_OPTION_NUMBERING] = 0;
    auto n = static_cast<idx_t>(nodes), parts = static_cast<idx_t>(options.parts);
    idx_t cut = 0, none = 0;
    std::vector<idx_t> found(nodes);
    const auto run = options.recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway;
    const int status = run(&n, &constraints, lists.data(), neighbors != nullptr ? neighbors : &none, node_weights,
        nullptr, edge_weights, &parts, nullptr, slack.data(), settings, &cut, found.data());
    if (status == METIS_ERROR_MEMORY) throw std::bad_alloc();
    if (status != METIS_OK) throw error(errc::unsupported, "METIS refused with status " + std::to_string(status));
    std::ranges::transform(found, result.begin(), [](idx_t p) { return static_cast<partition_id16>(p); });
    return result;
}

} // namespace gneiss
