#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/greedy.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::detail {

/// Gives clusters parts under caps of weight and of labels: the heaviest first, each where its heaviest edges lead to,
/// of the parts it fits into; then passes that move one after the other alike. A cluster that fits nowhere goes where
/// it is least too much, so caps may be broken by some nodes in the end.
///
/// Cost: O(clusters k + arcs) at most, for each pass. Memory: 12 bytes a (cluster, label) that there is, 16 a cluster,
/// 16 a part and 8 a part and label; while it is made 8 bytes a node.
class label_placement {
public:
    label_placement(
        const weighted_graph& graph, const node_clusters& clusters, const greedy_limits& limits, std::uint32_t parts)
        : graph_(graph),
          limits_(limits),
          first_(clusters.count + 1),
          weights_(parts),
          held_(parts * limits.label_caps.size()),
          edges_(parts),
          part_(clusters.count, no_part) {
        std::vector<std::uint64_t> pairs; // (cluster, label)
        for (std::size_t v = 0; v < clusters.of.size(); ++v)
            if (clusters.of[v] != no_cluster) {
                const std::size_t label = std::min<std::size_t>(limits.labels[v], limits.label_caps.size() - 1);
                pairs.push_back(std::uint64_t{clusters.of[v]} << 32 | label);
            }
        std::ranges::sort(pairs);
        for (std::size_t i = 0, next = 0; i < pairs.size(); i = next) {
            while (next < pairs.size() && pairs[next] == pairs[i]) ++next;
            rows_.push_back({static_cast<std::uint32_t>(pairs[i]), static_cast<std::uint32_t>(next - i)});
            first_[static_cast<std::size_t>(pairs[i] >> 32) + 1] = rows_.size();
        }
    }

    [[nodiscard]] std::vector<part_id> operator()(std::uint32_t passes) && {
        std::vector<node_id> order(part_.size());
        std::iota(order.begin(), order.end(), node_id{0});
        std::ranges::stable_sort(order, [&](node_id a, node_id b) { return graph_.weight(a) > graph_.weight(b); });
        for (std::uint32_t pass = 0; pass <= passes; ++pass)
            for (const node_id c : order) place(c);
        return std::move(part_);
    }

private:
    struct labelled {
        std::uint32_t label, nodes;
    };

    [[nodiscard]] std::span<const labelled> labels(node_id c) const noexcept {
        return std::span(rows_).subspan(first_[c], first_[c + std::size_t{1}] - first_[c]);
    }
    /// How much of cluster c part p has no room for; 0: it fits.
    [[nodiscard]] std::uint64_t too_much(node_id c, std::size_t p) const noexcept {
        const auto beyond = [](std::uint64_t held, std::uint64_t more, std::uint64_t cap) {
            return held + more - std::min(held + more, std::max(held, cap));
        };
        std::uint64_t sum = beyond(weights_[p], graph_.weight(c), limits_.cap);
        for (const auto& [label, nodes] : labels(c))
            sum += beyond(held_[p * limits_.label_caps.size() + label], nodes, limits_.label_caps[label]);
        return sum;
    }
    void add(node_id c, part_id p, bool enters) noexcept {
        weights_[p] += enters ? graph_.weight(c) : -std::uint64_t{graph_.weight(c)};
        for (const auto& [label, nodes] : labels(c))
            held_[p * limits_.label_caps.size() + label] += enters ? nodes : -std::uint64_t{nodes};
    }

    void place(node_id c) {
        if (const part_id from = std::exchange(part_[c], no_part); from != no_part) add(c, from, false);
        touched_.clear();
        graph_.for_each(c, [&](node_id d, std::uint32_t weight) {
            if (part_[d] == no_part) return;
            if (edges_[part_[d]] == 0) touched_.push_back(part_[d]);
            edges_[part_[d]] += weight;
        });
        part_id best = no_part;
        for (const part_id p : touched_)
            if (too_much(c, p) == 0 && (best == no_part || edges_[p] > edges_[best] ||
                                           (edges_[p] == edges_[best] && weights_[p] < weights_[best])))
                best = p;
        for (const part_id p : touched_) edges_[p] = 0;
        if (best == no_part) {
            std::tuple least{~std::uint64_t{0}, ~std::uint64_t{0}, std::size_t{0}};
            for (std::size_t p = 0; p < weights_.size(); ++p)
                least = std::min(least, std::tuple{too_much(c, p), weights_[p], p});
            best = static_cast<part_id>(std::get<2>(least));
        }
        part_[c] = best;
        add(c, best, true);
    }

    const weighted_graph& graph_;
    const greedy_limits& limits_;
    std::vector<std::size_t> first_;     // [clusters + 1] into rows_; a cluster has a node, and so a row
    std::vector<labelled> rows_;         // of each cluster
    std::vector<std::uint64_t> weights_; // [parts]
    std::vector<std::uint64_t> held_;    // [parts, labels + 1] nodes
    std::vector<std::uint64_t> edges_;   // [parts] to the cluster at hand
    std::vector<part_id> touched_;       // parts that it has edges to
    std::vector<part_id> part_;          // [clusters]
};

} // namespace gneiss::detail
