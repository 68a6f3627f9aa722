// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/quotient.hpp>
#include <gneiss/partition/refine.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

namespace detail {

/// Numbers each occurring pair of parts; returns nullopt if there are too many pairs.
[[nodiscard]] inline std::optional<std::vector<partition_id16>> overlay(
    std::span<const partition_id16> a, std::span<const partition_id16> b) {
    std::map<std::pair<partition_id16, partition_id16>, partition_id16> numbers;
    std::vector<partition_id16> result(a.size());
    for (std::size_t v = 0; v < result.size(); ++v) {
        result[v] = numbers.try_emplace({a[v], b[v]}, static_cast<partition_id16>(numbers.size())).first->second;
        if (numbers.size() > max_partition_count) return std::nullopt;
    }
    return result;
}

} // namespace detail

/// Improves a partition using another one of the same nodes: nodes on whose parts both agree form clusters. The graph
/// of these clusters fits into memory; `multilevel_refine` moves whole clusters on it, then single nodes are refined.
///
/// \param parts       [nodes] parts that keep their caps; changed in place
/// \param other       [nodes] may be `parts` itself
/// \param most_edges  maximum edges of the graph of clusters; 0: nodes + arcs / 4
///
/// Does nothing if labels have caps, if the graph of clusters has more edges, or if more than 65534 pairs of parts
/// occur.
/// Memory: 2 bytes per node, `cluster_bytes`, and the graph with its refinement.
/// Cost: some 12 passes of the stream. Errors: those of `refine_parts`.
/// Source: the combination of KaFFPaE (Sanders and Schulz, ALENEX 2012), over a stream.
template <adjacency_stream Stream, executor E>
void combine_parts(Stream& stream, std::span<partition_id16> parts, std::span<const partition_id16> other,
    const partition_request& request, const E& executor, std::uint64_t most_edges = 0) {
    check_request(request, stream.nodes());
    check_assignment(parts, request.parts, stream.nodes());
    check_assignment(other, request.parts, stream.nodes());
    if (!request.labels.empty() && request.label_cap != 0) return;
    const auto within = detail::overlay(parts, other);
    if (!within) return;
    const std::uint64_t total = total_weight(request.balance, stream.nodes(), stream.arcs());
    const clustering_limits limits{
        .max_weight = std::clamp<std::uint64_t>(total / (20 * request.parts), 2, std::uint64_t{1} << 31),
        .within = *within};
    const node_clusters clusters = cluster_nodes(stream, request, limits, executor);
    const auto graph =
        quotient_graph(stream, clusters, most_edges != 0 ? most_edges : stream.nodes() + stream.arcs() / 4, request);
    if (!graph || graph->nodes() == 0) return;
    std::vector<partition_id16> of_cluster(clusters.count);
    std::vector<std::uint64_t> caps(request.parts, max_weight(total, request.parts, request.imbalance));
    for (std::size_t v = 0; v < parts.size(); ++v)
        if (clusters.of[v] != no_cluster)
            of_cluster[clusters.of[v]] = parts[v];
        else if (caps[parts[v]] != 0)
            --caps[parts[v]]; // stays in place and weighs 1, by nodes and by edges
    multilevel_refine(*graph, of_cluster,
        multilevel_options{
            .parts = request.parts, .max_weights = std::move(caps), .seed = request.seed, .stop = request.stop},
        executor);
    for (std::size_t v = 0; v < parts.size(); ++v)
        if (clusters.of[v] != no_cluster) parts[v] = of_cluster[clusters.of[v]];
    refine_parts(stream, parts, request, 4, executor);
}

} // namespace gneiss
