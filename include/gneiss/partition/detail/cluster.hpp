// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/memory.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::detail {

/// Saturating sums of nonzero weights by key: a dense array that resets only touched entries. O(1) per addition,
/// O(touched) per reset.
template <std::unsigned_integral T>
class sparse_sums {
public:
    explicit sparse_sums(std::size_t keys) : sum_(keys) {}

    void add(std::uint32_t key, std::uint32_t weight) {
        T& sum = sum_[key];
        if (sum == 0) touched_.push_back(key);
        sum = static_cast<T>(sum + weight);
        if (sum < weight) sum = std::numeric_limits<T>::max();
    }
    [[nodiscard]] T operator[](std::uint32_t key) const noexcept { return sum_[key]; }
    [[nodiscard]] const std::vector<std::uint32_t>& touched() const noexcept { return touched_; }
    void reset() noexcept {
        for (const std::uint32_t key : touched_) sum_[key] = 0;
        touched_.clear();
    }

private:
    std::vector<T> sum_;
    std::vector<std::uint32_t> touched_;
};

/// Orders nodes by ascending degree (by powers of two), at random within a class.
[[nodiscard]] inline std::vector<node_id> by_degree(const weighted_graph& graph, random_key key) {
    std::vector<node_id> order(graph.nodes());
    std::vector<std::size_t> first(34);
    const auto bucket = [&](std::size_t v) {
        return std::min<std::size_t>(std::bit_width(graph.degree(static_cast<node_id>(v))), 32);
    };
    for (std::size_t v = 0; v < order.size(); ++v) ++first[bucket(v) + 1];
    for (std::size_t b = 1; b < first.size(); ++b) first[b] += first[b - 1];
    const std::vector<std::size_t> begin = first;
    for (std::size_t v = 0; v < order.size(); ++v) order[first[bucket(v)]++] = static_cast<node_id>(v);
    for (std::size_t b = 0; b + 1 < begin.size(); ++b) {
        std::span<node_id> like(order.data() + begin[b], begin[b + 1] - begin[b]);
        shuffle(like, key.with(b));
    }
    return order;
}

/// Options of one level of coarsening.
struct cluster_options {
    std::uint64_t max_weight = 1; ///< for a cluster of more than one node
    std::uint32_t passes = 5;
    std::span<const partition_id16> parts{}; ///< [nodes] or empty; clusters do not span parts
};

/// Clusters of a graph.
struct clustering {
    std::vector<node_id> of; ///< [nodes] below `clusters`
    std::size_t clusters = 0;
};

/// Size-constrained label propagation: each node repeatedly joins the cluster with room to which it has the heaviest
/// edges. Nodes left alone then join others that prefer the same full cluster (leaves of a hub); isolated nodes join
/// each other. O(passes · arcs); 25 bytes per node. Pure function of its arguments. Source: Meyerhenke, Sanders and
/// Schulz, ESA 2014; two-hop: LaSalle et al., IA3 2015.
class cluster_maker {
public:
    cluster_maker(const weighted_graph& graph, const cluster_options& options, random_key key)
        : graph_(graph),
          options_(options),
          key_(key),
          of_(graph.nodes()),
          weight_(graph.nodes()),
          sums_(graph.nodes()) {
        for (std::size_t v = 0; v < of_.size(); ++v) {
            of_[v] = static_cast<node_id>(v);
            weight_[v] = graph.weight(of_[v]);
        }
    }

    [[nodiscard]] clustering make() && {
        const std::vector<node_id> order = by_degree(graph_, key_);
        std::vector<std::uint8_t> active(of_.size(), 1);
        std::size_t clusters = of_.size();
        for (std::uint32_t pass = 0; pass < options_.passes; ++pass) {
            std::size_t moved = 0;
            for (const node_id v : order) {
                if (!std::exchange(active[v], std::uint8_t{0})) continue;
                const node_id to = best(v, options_.max_weight, key_.with(pass).with(v).value());
                if (to == of_[v]) continue;
                join(v, to);
                ++moved;
                graph_.for_each(v, [&](node_id u, std::uint32_t) { active[u] = 1; });
            }
            clusters = static_cast<std::size_t>(std::ranges::count_if(weight_, [](std::uint32_t w) { return w != 0; }));
            if (moved * 16 < of_.size()) break;
        }
        merge_isolated(order, clusters);
        merge_two_hop(order, clusters);
        // number clusters by their first nodes
        std::vector<node_id> number(of_.size(), ~node_id{0});
        clustering result{std::move(of_), 0};
        for (node_id& c : result.of) {
            if (number[c] == ~node_id{0}) number[c] = static_cast<node_id>(result.clusters++);
            c = number[c];
        }
        return result;
    }

private:
    [[nodiscard]] bool may_join(node_id v, node_id cluster_of) const {
        return options_.parts.empty() || options_.parts[v] == options_.parts[cluster_of];
    }
    /// Cluster with room, among those of its neighbors and its own, to which `v` has the heaviest edges.
    [[nodiscard]] node_id best(node_id v, std::uint64_t max_weight, std::uint64_t tie) {
        graph_.for_each(v, [&](node_id u, std::uint32_t w) {
            if (may_join(v, u)) sums_.add(of_[u], w);
        });
        node_id found = of_[v];
        std::uint32_t most = sums_[found];
        std::uint32_t equal = 1;
        for (const std::uint32_t c : sums_.touched()) {
            if (c == of_[v] || sums_[c] < most || std::uint64_t{weight_[c]} + graph_.weight(v) > max_weight) continue;
            if (sums_[c] == most) { // choose uniformly among equal ones
                tie = mix64(tie);
                if (below(tie, ++equal) != 0) continue;
            } else {
                equal = 1;
            }
            most = sums_[c];
            found = c;
        }
        sums_.reset();
        return found;
    }
    void join(node_id v, node_id to) {
        weight_[of_[v]] -= graph_.weight(v);
        weight_[to] += graph_.weight(v);
        of_[v] = to;
    }
    [[nodiscard]] bool alone(node_id v) const { return of_[v] == v && weight_[v] == graph_.weight(v); }

    void merge_isolated(std::span<const node_id> order, std::size_t& clusters) {
        std::vector<node_id> open; // by part
        for (const node_id v : order) {
            if (graph_.degree(v) != 0) break;
            merge(v, options_.parts.empty() ? 0 : options_.parts[v], open, clusters);
        }
    }
    /// Joins lone nodes with the same favorite cluster, full or not, until half the number of nodes is reached.
    void merge_two_hop(std::span<const node_id> order, std::size_t& clusters) {
        if (clusters * 2 <= of_.size()) return;
        std::vector<node_id> open(of_.size(), ~node_id{0});
        for (const node_id v : order) {
            if (clusters * 2 <= of_.size()) break;
            if (graph_.degree(v) == 0 || !alone(v)) continue;
            const node_id favorite = best(v, ~std::uint64_t{0}, 0);
            if (favorite != v) merge(v, favorite, open, clusters);
        }
    }
    /// Joins `v` to the cluster started for `group`, or starts one.
    void merge(node_id v, std::size_t group, std::vector<node_id>& open, std::size_t& clusters) {
        if (group >= open.size()) open.resize(group + 1, ~node_id{0});
        node_id& to = open[group];
        if (to == v || !alone(v)) return;
        if (to != ~node_id{0} && of_[to] == to && may_join(v, to) &&
            std::uint64_t{weight_[to]} + graph_.weight(v) <= options_.max_weight) {
            join(v, to);
            --clusters;
        } else {
            to = v;
        }
    }

    const weighted_graph& graph_;
    const cluster_options& options_;
    random_key key_;
    std::vector<node_id> of_;
    std::vector<std::uint32_t> weight_;
    sparse_sums<std::uint32_t> sums_;
};

} // namespace gneiss::detail
