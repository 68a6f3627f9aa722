// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss {

namespace detail {

/// Sums by pair of clusters: a hash table that doubles when three quarters full. 12 bytes per slot.
class pair_sums {
public:
    pair_sums() : keys_(1024, none), sums_(1024) {}

    void add(node_id a, node_id b) {
        const std::uint64_t key = std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
        const std::size_t at = find(key);
        if (keys_[at] == none) {
            keys_[at] = key;
            if (++size_ > keys_.size() / 4 * 3) {
                sums_[at] = 1;
                grow();
                return;
            }
        }
        sums_[at] += sums_[at] != std::numeric_limits<std::uint32_t>::max() ? 1U : 0U;
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Calls visit(a, b, sum) for every pair, a < b, in an order that depends on the additions.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (std::size_t at = 0; at < keys_.size(); ++at)
            if (keys_[at] != none)
                visit(static_cast<node_id>(keys_[at] >> 32), static_cast<node_id>(keys_[at]), sums_[at]);
    }

private:
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    [[nodiscard]] std::size_t find(std::uint64_t key) const noexcept {
        std::size_t at = static_cast<std::size_t>(mix64(key)) & (keys_.size() - 1);
        while (keys_[at] != none && keys_[at] != key) at = (at + 1) & (keys_.size() - 1);
        return at;
    }
    void grow() {
        std::vector<std::uint64_t> keys(2 * keys_.size(), none);
        std::vector<std::uint32_t> sums(keys.size());
        keys_.swap(keys);
        sums_.swap(sums);
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (keys[i] != none) {
                const std::size_t at = find(keys[i]);
                keys_[at] = keys[i];
                sums_[at] = sums[i];
            }
    }

    std::vector<std::uint64_t> keys_; // a power of two
    std::vector<std::uint32_t> sums_;
    std::size_t size_ = 0;
};

} // namespace detail

/// Maximum memory of `quotient_graph`, without the clusters [bytes].
[[nodiscard]] constexpr std::uint64_t quotient_bytes(std::uint64_t clusters, std::uint64_t edges) noexcept {
    return 12 * clusters + 36 * edges + 16 * edges + (1 << 16); // a table that doubles, then the lists
}

/// Returns the graph of clusters: a node weighs the sum of its members, an edge the number of edges between the two
/// clusters.
/// Returns nullopt if it has more than `most_edges`, because there are too many clusters.
///
/// \param clusters  from `cluster_nodes` on this stream
/// Cost: one pass of the stream and one lookup per edge between clusters. Memory: `quotient_bytes`.
/// Errors: errc::invalid_argument unless each node has a cluster below `clusters.count`, or none; errc::canceled.
template <adjacency_stream Stream>
[[nodiscard]] std::optional<weighted_graph> quotient_graph(
    Stream& stream, const node_clusters& clusters, std::uint64_t most_edges, const partition_request& request) {
    if (clusters.of.size() != stream.nodes() ||
        std::ranges::any_of(clusters.of, [&](node_id c) { return c >= clusters.count && c != no_cluster; }))
        throw error(errc::invalid_argument, "clusters are not of the nodes of this stream");
    weighted_graph result;
    std::vector<std::uint64_t> weights(clusters.count);
    detail::pair_sums edges;
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
        check_stop(request);
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            const node_id mine = clusters.of[chunk.node(i)];
            if (mine == no_cluster) continue;
            const std::span<const node_id> list = chunk.list(i);
            weights[mine] += node_weight(request.balance, list.size());
            for (const node_id u : list)
                if (clusters.of[u] > mine) edges.add(mine, clusters.of[u]); // the other list contains it too
        }
        if (edges.size() > most_edges) return std::nullopt;
        if (request.progress)
            request.progress("quotient graph", std::uint64_t{chunk.first} + chunk.size(), stream.nodes());
    }
    result.node_weights.reserve(weights.size());
    for (const std::uint64_t weight : weights)
        result.node_weights.push_back(
            static_cast<std::uint32_t>(std::min<std::uint64_t>(weight, std::numeric_limits<std::uint32_t>::max())));
    weights = {};
    result.offsets.assign(clusters.count + 1, 0);
    edges.for_each([&](node_id a, node_id b, std::uint32_t) {
        ++result.offsets[a + std::size_t{1}];
        ++result.offsets[b + std::size_t{1}];
    });
    std::partial_sum(result.offsets.begin(), result.offsets.end(), result.offsets.begin());
    result.neighbors.resize(2 * edges.size());
    result.edge_weights.resize(2 * edges.size());
    edges.for_each([&](node_id a, node_id b, std::uint32_t sum) {
        for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
            const auto at = static_cast<std::size_t>(result.offsets[from]++); // each list's begin becomes its end
            result.neighbors[at] = to;
            result.edge_weights[at] = sum;
        }
    });
    std::shift_right(result.offsets.begin(), result.offsets.end(), 1);
    result.offsets.front() = 0;
    return result;
}

} // namespace gneiss
