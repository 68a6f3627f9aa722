// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/cluster_counts.hpp>
#include <gneiss/partition/detail/proposals.hpp>

namespace gneiss {

inline constexpr node_id no_cluster = ~node_id{0}; ///< cluster of a node without neighbors

/// Clusters of connected nodes.
struct node_clusters {
    std::vector<node_id> of{}; ///< [nodes] below `count`, numbered by first node, or `no_cluster`
    std::size_t count = 0;     ///< number of clusters
};

/// Limits on the clusters of `cluster_nodes`.
struct clustering_limits {
    std::uint64_t max_weight = 1; ///< for a cluster of several nodes, in the unit of request.balance; below 2³²
    std::uint32_t passes = 5;     ///< maximum
    std::span<const partition_id16> within{}; ///< [nodes] or empty: no cluster spans two of these parts
};

namespace detail {

/// Clustering under construction: a cluster has the number of its founding node.
class clustering_state {
public:
    clustering_state(std::uint64_t nodes, const clustering_limits& limits, random_key key)
        : limits_(limits),
          key_(key),
          of_(huge_page_vector<node_id>(static_cast<std::size_t>(nodes))),
          weights_(huge_page_vector<std::uint32_t>(static_cast<std::size_t>(nodes))) {}

    void found(node_id v, std::uint64_t weight, bool isolated) noexcept {
        of_[v] = isolated ? no_cluster : v;
        weights_[v] =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(weight, std::numeric_limits<std::uint32_t>::max()));
    }
    [[nodiscard]] bool isolated(node_id v) const noexcept { return of_[v] == no_cluster; }
    [[nodiscard]] bool alone(node_id v, std::uint64_t weight) const noexcept {
        return of_[v] == v && weights_[v] <= weight;
    }
    [[nodiscard]] node_id of(node_id v) const noexcept { return of_[v]; }
    [[nodiscard]] bool fits(node_id v, node_id c, std::uint64_t weight) const noexcept {
        return weights_[c] + weight <= limits_.max_weight && related(v, c);
    }
    [[nodiscard]] bool related(node_id v, node_id c) const noexcept {
        return limits_.within.empty() || limits_.within[c] == limits_.within[v];
    }
    void move(node_id v, node_id to, std::uint64_t weight) noexcept {
        weights_[of_[v]] -= static_cast<std::uint32_t>(weight);
        weights_[to] += static_cast<std::uint32_t>(weight);
        of_[v] = to;
    }

    /// Cluster with most of v's neighbors, among its own and those accepted by `may(c)`; ties among others are broken
    /// at random.
    template <class May>
    [[nodiscard]] node_id best(cluster_counts& counts, std::size_t list, node_id v, May&& may) const {
        const random_key key = key_.with(v);
        std::uint32_t at_home = 0, most = 0;
        std::uint64_t drawn = 0;
        node_id found = of_[v];
        counts.count(list, v, of_);
        counts.take([&](node_id c, std::uint32_t n) {
            if (c == of_[v]) {
                at_home = n;
            } else if (n >= most && may(c)) {
                const std::uint64_t draw = key[c];
                if (n == most && draw <= drawn) return;
                most = n;
                drawn = draw;
                found = c;
            }
        });
        return most > at_home ? found : of_[v];
    }

    /// Numbers the clusters by their first nodes.
    [[nodiscard]] node_clusters take() && {
        node_clusters result;
        std::ranges::fill(weights_, no_cluster); // now the final number of each cluster
        for (node_id& c : of_) {
            if (c == no_cluster) continue;
            if (weights_[c] == no_cluster) weights_[c] = static_cast<node_id>(result.count++);
            c = weights_[c];
        }
        result.of = std::move(of_);
        return result;
    }

private:
    clustering_limits limits_;
    random_key key_;
    std::vector<node_id> of_;            // [nodes]
    std::vector<std::uint32_t> weights_; // [nodes] weight of the cluster that the node founded
};

} // namespace detail

/// Maximum memory of `cluster_nodes` [bytes]; lists as in `refine_bytes`, and without 16 to 32 bytes per neighbor of
/// the longest list for each thread.
[[nodiscard]] constexpr std::uint64_t cluster_bytes(std::uint64_t nodes, edge_index arcs) noexcept {
    const std::uint64_t usual = detail::proposal_block * ceil_div(arcs, std::max<std::uint64_t>(nodes, 1));
    return 12 * nodes + 8 * std::min(arcs, 4 * usual);
}

/// Clusters nodes by size-constrained label propagation: a node joins the cluster of most of its neighbors among those
/// with room. Finally, nodes that are still alone and whose neighbors are mostly in the same cluster, such as leaves of
/// a hub, join each other.
///
/// Cost: `passes` + 2 passes of the stream, O(arcs) each, parallel over the threads of `executor` except the first and
/// the last. The result does not depend on threads or chunks. Memory: `cluster_bytes`, 12 bytes per node.
/// Errors: errc::invalid_argument for limits out of range, or 2³² nodes; errc::canceled; errc::out_of_range for 2³²
/// neighbors of the moving nodes among 8192. Stops early when a pass moves fewer than one node in 64.
/// Source: Meyerhenke, Sanders and Schulz, arXiv 1404.4887, section IV; lone nodes: KaMinPar, ESA 2021.
template <adjacency_stream Stream, executor E>
[[nodiscard]] node_clusters cluster_nodes(
    Stream& stream, const partition_request& request, const clustering_limits& limits, const E& executor) {
    using detail::cluster_counts;
    const auto check = [](bool good, const char* field, const char* what) {
        if (!good) throw error(errc::invalid_argument, what, {.field = field});
    };
    check(stream.nodes() < no_cluster, "nodes", "fewer than 2^32 - 1 nodes are needed");
    check(limits.max_weight >> 32 == 0, "max_weight", "a number below 2^32 is needed");
    check(limits.within.empty() || limits.within.size() == stream.nodes(), "within",
        "a part is needed for each node, or none");
    const auto weight = [&](const adjacency_chunk& chunk, std::size_t i) {
        return node_weight(request.balance, chunk.offsets[i + 1] - chunk.offsets[i]);
    };
    const auto for_each_list = [&](auto&& visit) {
        stream.rewind();
        for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
            check_stop(request);
            visit(chunk);
        }
    };
    detail::clustering_state state(stream.nodes(), limits, random_key{request.seed, random_domain::partition}.with(10));
    for_each_list([&](const adjacency_chunk& chunk) {
        for (std::size_t i = 0; i < chunk.size(); ++i)
            state.found(chunk.node(i), weight(chunk, i), chunk.offsets[i] == chunk.offsets[i + 1]);
    });
    std::uint64_t moves = stream.nodes();
    for (std::uint32_t pass = 0; pass < limits.passes && moves > stream.nodes() >> 6; ++pass) {
        moves = 0;
        const auto best = [&](cluster_counts& counts, std::size_t i, node_id v, std::uint64_t w) {
            return state.best(counts, i, v, [&](node_id c) { return state.fits(v, c, w); });
        };
        detail::proposal_pass<cluster_counts>(
            stream, request, "clustering", executor, [] { return cluster_counts(); },
            [&](cluster_counts& counts, const adjacency_chunk& chunk, std::size_t i) {
                const node_id v = chunk.node(i);
                if (state.isolated(v)) return false;
                return state.alone(v, weight(chunk, i)) || best(counts, i, v, weight(chunk, i)) != state.of(v);
            },
            [&](cluster_counts& counts, const adjacency_chunk& lists, std::size_t i, node_id v) {
                const node_id to = best(counts, i, v, weight(lists, i));
                if (to == state.of(v)) return;
                state.move(v, to, weight(lists, i));
                ++moves;
            });
    }
    std::vector<node_id> waiting(
        static_cast<std::size_t>(stream.nodes()), no_cluster); // lone node waiting near each cluster
    cluster_counts counts;
    for_each_list([&](const adjacency_chunk& chunk) {
        counts.begin(chunk);
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            const node_id v = chunk.node(i);
            if (state.isolated(v) || !state.alone(v, weight(chunk, i))) continue;
            const node_id near = state.best(counts, i, v, [&](node_id c) { return state.related(v, c); });
            if (near == v) continue;
            if (const node_id other = waiting[near]; other != no_cluster && state.fits(v, other, weight(chunk, i)))
                state.move(v, other, weight(chunk, i));
            else
                waiting[near] = v;
        }
    });
    waiting = {};
    return std::move(state).take();
}

} // namespace gneiss
