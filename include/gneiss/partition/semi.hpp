// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/band.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/load_table.hpp>
#include <gneiss/partition/detail/partition_capacity.hpp>
#include <gneiss/partition/detail/pass_checkpoint.hpp>
#include <gneiss/partition/detail/repair_balance.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/quotient.hpp>
#include <gneiss/partition/refine.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

namespace detail {

/// Projects parts of clusters to their nodes. Nodes without neighbors go to the lightest part.
[[nodiscard]] inline std::vector<partition_id16> project_parts(const node_clusters& clusters,
    std::span<const partition_id16> of_cluster, std::span<const std::uint64_t> weights, std::uint32_t parts) {
    std::vector<partition_id16> result(clusters.of.size());
    load_table lightest(1, parts);
    std::vector<std::uint64_t> weight(weights.begin(), weights.end());
    for (std::uint32_t p = 0; p < parts; ++p)
        lightest.set(0, static_cast<partition_id16>(p), static_cast<double>(weight[p]));
    for (std::size_t v = 0; v < result.size(); ++v)
        if (clusters.of[v] != no_cluster) {
            result[v] = of_cluster[clusters.of[v]];
        } else {
            result[v] = lightest.first(0);
            lightest.set(0, result[v], static_cast<double>(++weight[result[v]]));
        }
    return result;
}

} // namespace detail

/// Semi-external multilevel partitioner: streaming clustering reduces the graph to one of clusters that fits into
/// memory, `multilevel_partition` partitions it, and its parts are refined over the stream. On graphs with communities,
/// meshes and the web, cuts match those of programs that hold all edges; if hubs dominate, `band_partitioner` is
/// better.
///
///     const std::vector<partition_id16> parts = semi_partitioner{}(stream, {.parts = 64}, executor);
///
/// Clusters weigh at most 1/(20 k) of the total. If the graph of clusters has more than `most_edges`, the limit doubles
/// repeatedly. If even 1/k does not suffice, or if labels have caps, the parts are those of `band_partitioner`.
///
/// Steps: `clustering_passes` + 2 of the stream, one for the graph of clusters, one to check caps, and `passes` of
/// refinement.
/// Cost: O(arcs) per pass, and the multilevel method on the graph of clusters. Memory: `memory`.
/// Caps: exact, including label caps, if nodes weigh 1; else the cap on weight holds before those on labels, and a node
/// that fits nowhere goes to the lightest part (`detail::greedy_engine`).
/// Errors: those of `check_request`; errc::config_mismatch for another run's journal; errc::canceled.
/// Source: Meyerhenke, Sanders and Schulz, arXiv 1404.4887.
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
struct semi_partitioner {
    std::uint32_t clustering_passes = 5; ///< maximum
    std::uint32_t passes = 4;            ///< maximum passes of refinement
    std::uint64_t most_edges = 0;        ///< maximum edges of the graph of clusters; 0: nodes + arcs / 4

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E& executor) const {
        check_request(request, stream.nodes());
        if (stream.nodes() == 0) return {};
        const detail::pass_checkpoint journal(request, stream.nodes(), 1);
        std::vector<partition_id16> parts =
            journal.done() != 0 ? journal.load() : by_clusters(stream, request, executor);
        if (journal.done() == 0) journal.save(1, parts);
        refine_parts(stream, parts, request, passes, executor);
        return parts;
    }

    /// Maximum memory of the passes, and of the graph of clusters with its partitioning [bytes].
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        const std::uint64_t edges = limit(nodes, arcs);
        return 6 * nodes +
            std::max({cluster_bytes(nodes, arcs), quotient_bytes(nodes, edges) + 40 * edges,
                refine_bytes(nodes, arcs, request), band_partitioner{}.memory(nodes, arcs, request)});
    }

private:
    static constexpr std::uint64_t finest = 20; // minimum clusters per part

    [[nodiscard]] std::uint64_t limit(std::uint64_t nodes, edge_index arcs) const noexcept {
        return most_edges != 0 ? most_edges : nodes + arcs / 4;
    }

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> by_clusters(
        Stream& stream, const partition_request& request, const E& executor) const {
        const std::uint64_t nodes = stream.nodes(), total = total_weight(request.balance, nodes, stream.arcs());
        const std::vector<std::uint64_t> caps(request.parts, max_weight(total, request.parts, request.imbalance));
        const bool labeled = !request.labels.empty() && request.label_cap != 0;
        for (std::uint64_t share = labeled ? 0 : finest; share != 0; share /= 2) {
            const clustering_limits limits{
                .max_weight = std::clamp<std::uint64_t>(total / (share * request.parts), 2, std::uint64_t{1} << 31),
                .passes = clustering_passes};
            const node_clusters clusters = cluster_nodes(stream, request, limits, executor);
            std::optional<weighted_graph> graph =
                quotient_graph(stream, clusters, limit(nodes, stream.arcs()), request);
            if (!graph) continue;
            const std::vector<std::uint32_t> weights = graph->node_weights;
            const std::vector<partition_id16> of_cluster = multilevel_partition(*std::move(graph),
                multilevel_options{
                    .parts = request.parts, .max_weights = caps, .seed = request.seed, .stop = request.stop},
                executor);
            std::vector<std::uint64_t> held(request.parts);
            for (std::size_t c = 0; c < weights.size(); ++c) held[of_cluster[c]] += weights[c];
            std::vector<partition_id16> parts = detail::project_parts(clusters, of_cluster, held, request.parts);
            if (detail::room_of(stream, parts, request).over())
                parts = detail::repair_balance(stream, std::move(parts), request);
            return parts;
        }
        partition_request alone = request;
        alone.journal = nullptr;
        return band_partitioner{.passes = 0}(stream, alone, executor);
    }
};

static_assert(partitioner<semi_partitioner>);

} // namespace gneiss
