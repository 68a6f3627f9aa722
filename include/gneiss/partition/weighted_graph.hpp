// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss {

/// Undirected graph in memory with node and edge weights. Plain data; `check_graph` validates it. Members check
/// nothing: offsets are not empty, and nodes exist.
///
/// Invariant: the lists of both ends contain an edge u–v once, with the same weight; no loops. Weights are positive.
/// Weights that are all 1 need not be stored. Sums of weights are 64-bit; a single weight beyond 32 bits saturates.
struct weighted_graph {
    std::vector<edge_index> offsets{0};      ///< [nodes + 1]
    std::vector<node_id> neighbors;          ///< [arcs], two per edge
    std::vector<std::uint32_t> edge_weights; ///< [arcs] or empty: all 1
    std::vector<std::uint32_t> node_weights; ///< [nodes] or empty: all 1

    [[nodiscard]] std::size_t nodes() const noexcept { return offsets.size() - 1; }
    [[nodiscard]] edge_index arcs() const noexcept { return neighbors.size(); }
    /// Returns the number of neighbors of node v.
    [[nodiscard]] std::size_t degree(node_id v) const noexcept {
        return static_cast<std::size_t>(offsets[v + std::size_t{1}] - offsets[v]);
    }
    /// Returns the weight of node v.
    [[nodiscard]] std::uint32_t weight(node_id v) const noexcept { return node_weights.empty() ? 1 : node_weights[v]; }
    /// Returns the weight of all nodes.
    [[nodiscard]] std::uint64_t total_node_weight() const noexcept {
        return node_weights.empty() ? nodes()
                                    : std::accumulate(node_weights.begin(), node_weights.end(), std::uint64_t{0});
    }
    /// Counts each edge once.
    [[nodiscard]] std::uint64_t total_edge_weight() const noexcept {
        return (edge_weights.empty() ? arcs()
                                     : std::accumulate(edge_weights.begin(), edge_weights.end(), std::uint64_t{0})) /
            2;
    }
    /// Memory of the arrays [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        return 8 * offsets.size() + 4 * (neighbors.size() + edge_weights.size() + node_weights.size());
    }

    /// Calls `visit(neighbor, edge weight)` along the list of `v`.
    template <class Visit>
    void for_each(node_id v, Visit&& visit) const {
        const std::size_t first = static_cast<std::size_t>(offsets[v]),
                          last = static_cast<std::size_t>(offsets[v + std::size_t{1}]);
        if (edge_weights.empty())
            for (std::size_t a = first; a < last; ++a) visit(neighbors[a], std::uint32_t{1});
        else
            for (std::size_t a = first; a < last; ++a) visit(neighbors[a], edge_weights[a]);
    }
};

/// Throws errc::invalid_argument unless the arrays of `graph` are consistent and ids are below its nodes. The caller
/// ensures symmetry and the absence of loops. O(nodes + arcs).
inline void check_graph(const weighted_graph& graph) {
    const auto check = [](bool good, const char* what) {
        if (!good) throw error(errc::invalid_argument, what);
    };
    check(!graph.offsets.empty() && graph.offsets.front() == 0 && graph.offsets.back() == graph.neighbors.size() &&
            std::ranges::is_sorted(graph.offsets),
        "the offsets of a graph do not cut its neighbors into lists");
    check(graph.nodes() <= std::size_t{1} << 31, "a weighted graph has at most 2^31 nodes");
    check(graph.edge_weights.empty() || graph.edge_weights.size() == graph.neighbors.size(),
        "a graph needs a weight for each arc, or none");
    check(graph.node_weights.empty() || graph.node_weights.size() == graph.nodes(),
        "a graph needs a weight for each node, or none");
    check(std::ranges::all_of(graph.neighbors, [n = graph.nodes()](node_id u) { return u < n; }),
        "a neighbor is not a node of its graph");
}

namespace detail {

/// Throws errc::invalid_argument unless `parts` has an element for each node, and node weights have one, too.
inline void check_part_count(std::span<const partition_id16> parts, const weighted_graph& graph) {
    if (graph.offsets.empty() || parts.size() != graph.nodes() ||
        (!graph.node_weights.empty() && graph.node_weights.size() != graph.nodes()))
        throw error(errc::invalid_argument,
            std::to_string(parts.size()) + " nodes have a part, of " +
                std::to_string(graph.offsets.empty() ? 0 : graph.nodes()));
}

} // namespace detail

/// Returns the weight of the edges between parts, each once. O(arcs). Throws errc::invalid_argument unless every node
/// has a part, and as `check_graph`.
[[nodiscard]] inline std::uint64_t edge_cut(const weighted_graph& graph, std::span<const partition_id16> parts) {
    check_graph(graph);
    detail::check_part_count(parts, graph);
    std::uint64_t twice = 0;
    for (std::size_t v = 0; v < graph.nodes(); ++v)
        graph.for_each(
            static_cast<node_id>(v), [&](node_id u, std::uint32_t w) { twice += parts[u] != parts[v] ? w : 0; });
    return twice / 2;
}

/// Returns the weight of each part: [parts]. A node without a part is not counted. Throws errc::out_of_range for a part
/// beyond `parts`; errc::invalid_argument unless every node has a part or `no_partition`, and for a graph without
/// offsets. O(nodes).
[[nodiscard]] inline std::vector<std::uint64_t> part_weights(
    const weighted_graph& graph, std::span<const partition_id16> assignment, std::uint32_t parts) {
    detail::check_part_count(assignment, graph);
    std::vector<std::uint64_t> weights(parts);
    for (std::size_t v = 0; v < graph.nodes(); ++v)
        detail::add_weight(weights, assignment[v], graph.weight(static_cast<node_id>(v)));
    return weights;
}

/// Contracts clusters: a node of the result stands for the nodes of one cluster, an edge for all edges between two of
/// them. Edges inside a cluster vanish.
///
/// \param cluster   [nodes] below `clusters`; each cluster has a node
/// Cost: O(nodes + arcs), two parallel passes over the arcs. Memory in addition to the result: 4 bytes per node and 4 ·
/// min(16, threads + 1) per cluster. Lists are unordered, but the same for any number of threads.
/// Errors: those of `check_graph`; errc::invalid_argument unless every node has a cluster; errc::out_of_range for one
/// beyond `clusters`.
template <executor E>
[[nodiscard]] weighted_graph contract(
    const weighted_graph& graph, std::span<const node_id> cluster, std::size_t clusters, const E& executor) {
    check_graph(graph);
    if (cluster.size() != graph.nodes() || clusters > graph.nodes())
        throw error(errc::invalid_argument,
            std::to_string(cluster.size()) + " nodes are in " + std::to_string(clusters) + " clusters, the graph has " +
                std::to_string(graph.nodes()) + " nodes");
    std::vector<node_id> members(graph.nodes());
    std::vector<std::uint32_t> first(clusters + 1);
    for (const node_id c : cluster) {
        if (c >= clusters)
            throw error(
                errc::out_of_range, "a node is in cluster " + std::to_string(c) + " of " + std::to_string(clusters));
        ++first[c + std::size_t{1}];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (std::size_t v = graph.nodes(); v-- > 0;)
        members[--first[cluster[v] + std::size_t{1}]] = static_cast<node_id>(v);
    // first[c + 1] is now the start of cluster c
    const auto members_of = [&](std::size_t c) {
        const std::size_t begin = first[c + 1], end = c + 1 < clusters ? first[c + 2] : members.size();
        return std::span(members).subspan(begin, end - begin);
    };

    weighted_graph coarse;
    coarse.offsets.assign(clusters + 1, 0);
    coarse.node_weights.resize(clusters);
    const auto saturated = [](std::uint64_t w) {
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(w, std::numeric_limits<std::uint32_t>::max()));
    };
    // Threads share the clusters in runs. Each run records the positions of neighbors in the list of the current
    // cluster.
    const std::size_t runs =
        std::min<std::size_t>({executor.concurrency() == 1 ? 1 : executor.concurrency() + 1, 16, clusters});
    if (runs == 0) return coarse;
    const std::size_t grain = ceil_div(clusters, runs);
    parallel_for(executor, clusters, grain, [&](std::size_t begin, std::size_t end) {
        std::vector<node_id> seen_by(clusters, ~node_id{0});
        for (std::size_t c = begin; c < end; ++c) {
            std::uint64_t weight = 0;
            edge_index distinct = 0;
            seen_by[c] = static_cast<node_id>(c);
            for (const node_id v : members_of(c)) {
                weight += graph.weight(v);
                graph.for_each(v, [&](node_id u, std::uint32_t) {
                    node_id& seen = seen_by[cluster[u]];
                    distinct += seen != c;
                    seen = static_cast<node_id>(c);
                });
            }
            coarse.node_weights[c] = saturated(weight);
            coarse.offsets[c + 1] = distinct;
        }
    });
    std::partial_sum(coarse.offsets.begin(), coarse.offsets.end(), coarse.offsets.begin());
    coarse.neighbors.resize(static_cast<std::size_t>(coarse.offsets.back()));
    coarse.edge_weights.resize(coarse.neighbors.size());
    parallel_for(executor, clusters, grain, [&](std::size_t begin, std::size_t end) {
        std::vector<std::uint32_t> place(clusters, 0); // 1 + position in the current list; 0: not in it
        for (std::size_t c = begin; c < end; ++c) {
            const std::size_t list = static_cast<std::size_t>(coarse.offsets[c]);
            std::uint32_t size = 0;
            for (const node_id v : members_of(c))
                graph.for_each(v, [&](node_id u, std::uint32_t w) {
                    const node_id to = cluster[u];
                    if (to == c) return;
                    if (place[to] == 0) {
                        coarse.neighbors[list + size] = to;
                        place[to] = ++size;
                        coarse.edge_weights[list + size - 1] = w;
                        return;
                    }
                    std::uint32_t& sum = coarse.edge_weights[list + place[to] - 1];
                    sum = saturated(std::uint64_t{sum} + w);
                });
            for (std::uint32_t i = 0; i < size; ++i) place[coarse.neighbors[list + i]] = 0;
        }
    });
    return coarse;
}

/// Builds the graph of a stream in memory. `balance` sets node weights; repeated edges become one, weighted by their
/// number; loops are dropped.
///
/// Cost: one pass of the stream and O(arcs log degree). Memory: 8 bytes per node and 4 per arc, at most 8 if edges
/// repeat; grows like `std::vector` if the stream does not know its arcs. Neighbors are not checked here; `check_graph`
/// does.
template <adjacency_stream Stream>
[[nodiscard]] weighted_graph make_weighted_graph(Stream& stream, balance_by balance = balance_by::nodes) {
    weighted_graph graph;
    graph.offsets.reserve(static_cast<std::size_t>(stream.nodes()) + 1);
    graph.neighbors.reserve(static_cast<std::size_t>(stream.arcs()));
    if (balance == balance_by::edges) graph.node_weights.reserve(static_cast<std::size_t>(stream.nodes()));
    std::vector<node_id> list;
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            const node_id v = chunk.node(i);
            const std::span<const node_id> all = chunk.list(i);
            if (balance == balance_by::edges)
                graph.node_weights.push_back(static_cast<std::uint32_t>(node_weight(balance, all.size())));
            list.assign(all.begin(), all.end());
            if (!std::ranges::is_sorted(list)) std::ranges::sort(list);
            for (std::size_t j = 0; j < list.size();) {
                std::size_t next = j + 1;
                while (next < list.size() && list[next] == list[j]) ++next;
                if (list[j] != v) {
                    if (next - j > 1 && graph.edge_weights.empty()) {
                        graph.edge_weights.reserve(graph.neighbors.capacity());
                        graph.edge_weights.assign(graph.neighbors.size(), 1);
                    }
                    graph.neighbors.push_back(list[j]);
                    if (next - j > 1 || !graph.edge_weights.empty())
                        graph.edge_weights.push_back(static_cast<std::uint32_t>(next - j));
                }
                j = next;
            }
            graph.offsets.push_back(graph.neighbors.size());
        }
    return graph;
}

} // namespace gneiss
