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
#include <gneiss/partition/detail/burden_table.hpp>
#include <gneiss/partition/detail/mend.hpp>
#include <gneiss/partition/detail/part_room.hpp>
#include <gneiss/partition/detail/saved_parts.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/quotient.hpp>
#include <gneiss/partition/refine.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

namespace detail {

/// The parts of nodes whose clusters have parts. Nodes without neighbours go to the lightest part.
[[nodiscard]] inline std::vector<part_id> project_parts(const node_clusters& clusters,
    std::span<const part_id> of_cluster, std::span<const std::uint64_t> weights, std::uint32_t parts) {
    std::vector<part_id> made(clusters.of.size());
    burden_table lightest(1, parts);
    std::vector<std::uint64_t> weight(weights.begin(), weights.end());
    for (std::uint32_t p = 0; p < parts; ++p) lightest.set(0, static_cast<part_id>(p), static_cast<double>(weight[p]));
    for (std::size_t v = 0; v < made.size(); ++v)
        if (clusters.of[v] != no_cluster) {
            made[v] = of_cluster[clusters.of[v]];
        } else {
            made[v] = lightest.first(0);
            lightest.set(0, made[v], static_cast<double>(++weight[made[v]]));
        }
    return made;
}

} // namespace detail

/// Semi-external multilevel partitioning: streamed clustering makes a graph that fits into memory, whose nodes are
/// clusters; that is partitioned by `multilevel_partition`; its parts are refined over the stream. Cuts as those of
/// programs that hold all edges, on graphs with communities, meshes and the web; where hubs rule, `band_partitioner` is
/// better.
///
///     const std::vector<part_id> parts = semi_partitioner{}(stream, {.parts = 64}, on);
///
/// Clusters weigh at most 1/(20 k) of all. Where the graph of clusters has more than `most_edges`, they may weigh twice
/// as much, again and again; where even 1/k does not help, and where labels have caps, the parts are those of
/// `band_partitioner`.
///
/// Steps: `clustering_passes` + 2 of the stream, one for the graph of clusters, one to look at caps and `passes` of
/// refinement. Cost: O(arcs) a pass, and the multilevel method on the graph of clusters. Memory: `memory`.
/// Caps: exact, those of labels too; a node that weighs its list and fits nowhere goes to the lightest part.
/// Errors: those of `check_request`; errc::config_mismatch for another run's journal; errc::cancelled.
/// Source: Meyerhenke, Sanders and Schulz, arXiv 1404.4887.
struct semi_partitioner {
    std::uint32_t clustering_passes = 5; ///< at most
    std::uint32_t passes = 4;            ///< of refinement, at most
    std::uint64_t most_edges = 0;        ///< of the graph of clusters; 0: nodes + arcs / 4

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<part_id> operator()(Stream& stream, const partition_request& request, const E& on) const {
        check_request(request, stream.nodes());
        if (stream.nodes() == 0) return {};
        const detail::saved_parts journal(request, stream.nodes(), 1);
        std::vector<part_id> parts = journal.done() != 0 ? journal.load() : by_clusters(stream, request, on);
        if (journal.done() == 0) journal.save(1, parts);
        refine_parts(stream, parts, request, passes, on);
        return parts;
    }

    /// The most that the passes take, and the graph of clusters with what partitions it.
    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        const std::uint64_t edges = limit(nodes, arcs);
        return 6 * nodes + std::max({cluster_bytes(nodes, arcs), quotient_bytes(nodes, edges) + 40 * edges,
                               refine_bytes(nodes, arcs, request), band_partitioner{}.memory(nodes, arcs, request)});
    }

private:
    static constexpr std::uint64_t finest = 20; // clusters a part, at least

    [[nodiscard]] std::uint64_t limit(std::uint64_t nodes, edge_index arcs) const noexcept {
        return most_edges != 0 ? most_edges : nodes + arcs / 4;
    }

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<part_id> by_clusters(
        Stream& stream, const partition_request& request, const E& on) const {
        const std::uint64_t nodes = stream.nodes(), total = total_weight(request.balance, nodes, stream.arcs());
        const std::vector<std::uint64_t> caps(request.parts, max_weight(total, request.parts, request.imbalance));
        const bool labelled = !request.labels.empty() && request.label_cap != 0;
        for (std::uint64_t share = labelled ? 0 : finest; share != 0; share /= 2) {
            const clustering_limits limits{
                .max_weight = std::clamp<std::uint64_t>(total / (share * request.parts), 2, std::uint64_t{1} << 31),
                .passes = clustering_passes};
            const node_clusters clusters = cluster_nodes(stream, request, limits, on);
            std::optional<weighted_graph> graph =
                quotient_graph(stream, clusters, limit(nodes, stream.arcs()), request);
            if (!graph) continue;
            const std::vector<std::uint32_t> weights = graph->node_weights;
            const std::vector<part_id> of_cluster = multilevel_partition(*std::move(graph),
                multilevel_options{.parts = request.parts, .max_weights = caps, .seed = request.seed}, on);
            std::vector<std::uint64_t> held(request.parts);
            for (std::size_t c = 0; c < weights.size(); ++c) held[of_cluster[c]] += weights[c];
            std::vector<part_id> parts = detail::project_parts(clusters, of_cluster, held, request.parts);
            if (detail::room_of(stream, parts, request).over())
                parts = detail::mend_parts(stream, std::move(parts), request);
            return parts;
        }
        partition_request alone = request;
        alone.journal = nullptr;
        return band_partitioner{.passes = 0}(stream, alone, on);
    }
};

static_assert(partitioner<semi_partitioner>);

} // namespace gneiss
