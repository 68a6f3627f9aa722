// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/bisect.hpp>
#include <gneiss/partition/detail/cluster.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::detail {

/// Final parts [first, first + count) into which a block of an unfinished partition will be split.
struct block {
    std::uint32_t first, count;
};

/// Effort of a bisection.
struct bisection_effort {
    std::uint32_t repeats = 1;  ///< coarsenings, of which the best is taken; 1 on graphs of 2¹⁹ arcs or more
    std::uint32_t attempts = 1; ///< growths from different nodes on the coarsest graph
    std::size_t coarsest = 120; ///< nodes; above the size of the graph: no coarsening
    std::size_t patience = 60;  ///< moves without a new best state that end a pass of refinement there
};

/// Bisects a graph: coarsens it, grows a side from several nodes, and refines on every level back to the finest.
/// Isolated nodes are left out and fill the remaining room.
class bisector {
public:
    bisector(bisection::weights caps, const bisection_effort& effort, random_key key)
        : caps_(caps),
          effort_(effort),
          key_(key) {}

    [[nodiscard]] std::vector<std::uint8_t> operator()(weighted_graph graph) const {
        std::vector<node_id> lonely, kept(graph.nodes(), none);
        node_id others = 0;
        for (node_id v = 0; v < graph.nodes(); ++v) {
            if (graph.degree(v) == 0)
                lonely.push_back(v);
            else
                kept[v] = others++;
        }
        std::vector<std::uint32_t> weights;
        for (const node_id v : lonely) weights.push_back(graph.weight(v));
        if (!lonely.empty()) without_lonely(graph, kept);

        bisection best = once(graph, key_);
        for (std::uint32_t i = 1; i < effort_.repeats && graph.arcs() < repeated_arcs; ++i)
            if (bisection result = once(graph, key_.with(i)); result.better_than(best)) best = std::move(result);
        std::vector<std::uint8_t> side(kept.size());
        for (std::size_t v = 0; v < side.size(); ++v)
            if (kept[v] != none) side[v] = best.sides()[kept[v]];

        // Heavy nodes first, each to the side with more room.
        bisection::weights weight = best.weight();
        std::vector<std::size_t> order(lonely.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return weights[i]; });
        const auto room = [&](std::size_t s) { return static_cast<double>(caps_[s]) - static_cast<double>(weight[s]); };
        for (const std::size_t i : order) {
            const std::uint8_t to = room(1) > room(0) ? 1 : 0;
            side[lonely[i]] = to;
            weight[to] += weights[i];
        }
        return side;
    }

private:
    static constexpr node_id none = ~node_id{0};
    static constexpr edge_index repeated_arcs = edge_index{1} << 19;

    static void without_lonely(weighted_graph& graph, std::span<const node_id> kept) {
        std::size_t to = 0;
        for (std::size_t v = 0; v < kept.size(); ++v) {
            if (kept[v] == none) continue;
            if (!graph.node_weights.empty()) graph.node_weights[to] = graph.node_weights[v];
            graph.offsets[++to] = graph.offsets[v + 1];
        }
        graph.offsets.resize(to + 1);
        if (!graph.node_weights.empty()) graph.node_weights.resize(to);
        for (node_id& u : graph.neighbors) u = kept[u];
    }

    [[nodiscard]] bisection once(const weighted_graph& graph, random_key key) const {
        std::vector<std::pair<std::vector<node_id>, weighted_graph>>
            levels; // clusters of the finer graph, and their graph
        const auto coarsest = [&]() -> const weighted_graph& { return levels.empty() ? graph : levels.back().second; };
        const std::uint64_t heaviest = std::max<std::uint64_t>(graph.total_node_weight() / 50, 1);
        while (coarsest().nodes() > effort_.coarsest) {
            const cluster_options limit{.max_weight = heaviest, .passes = 3};
            clustering result = cluster_maker(coarsest(), limit, key.with(levels.size())).make();
            if (result.clusters * 20 > coarsest().nodes() * 19) break;
            weighted_graph coarse = contract(coarsest(), result.of, result.clusters, serial_executor{});
            levels.emplace_back(std::move(result.of), std::move(coarse));
        }
        std::vector<std::uint8_t> sides = grown(coarsest(), key.with(1000));
        while (!levels.empty()) {
            std::vector<std::uint8_t> fine(levels.back().first.size());
            for (std::size_t v = 0; v < fine.size(); ++v) fine[v] = sides[levels.back().first[v]];
            levels.pop_back();
            bisection refined(coarsest(), caps_, std::move(fine));
            refined.refine(3, 150);
            sides = std::move(refined.sides());
        }
        return bisection(graph, caps_, std::move(sides));
    }
    /// Best of several growths, the first from the node with the heaviest edges.
    [[nodiscard]] std::vector<std::uint8_t> grown(const weighted_graph& graph, random_key key) const {
        bisection best(graph, caps_);
        if (graph.nodes() == 0) return std::move(best.sides());
        for (std::uint32_t i = 0; i < effort_.attempts; ++i) {
            bisection tried(graph, caps_);
            tried.grow(i == 0 ? hub(graph) : static_cast<node_id>(below(key[i], graph.nodes())), i == 0, key.with(i));
            tried.refine(4, effort_.patience);
            if (i == 0 || tried.better_than(best)) best = std::move(tried);
        }
        return std::move(best.sides());
    }
    [[nodiscard]] static node_id hub(const weighted_graph& graph) {
        node_id found = 0;
        std::uint64_t most = 0;
        for (node_id v = 0; v < graph.nodes(); ++v) {
            std::uint64_t sum = 0;
            graph.for_each(v, [&](node_id, std::uint32_t w) { sum += w; });
            if (sum > most) most = sum, found = v;
        }
        return found;
    }

    bisection::weights caps_;
    bisection_effort effort_;
    random_key key_;
};

/// Caps of blocks: the sum over their parts, minus the share of the slack that later bisections need.
[[nodiscard]] inline std::vector<std::uint64_t> block_caps(
    std::span<const block> blocks, std::span<const std::uint64_t> part_caps, std::uint64_t total) {
    const auto depth = [](std::size_t parts) {
        return static_cast<double>(std::bit_width(std::max<std::size_t>(parts, 1) - 1));
    };
    double sum = 0;
    for (const std::uint64_t cap : part_caps) sum += static_cast<double>(cap);
    const double tight = std::min(1.0, static_cast<double>(total) / std::max(sum, 1.0));
    std::vector<std::uint64_t> caps;
    for (const block& b : blocks) {
        double mine = 0;
        for (std::uint32_t p = b.first; p < b.first + b.count; ++p) mine += static_cast<double>(part_caps[p]);
        caps.push_back(static_cast<std::uint64_t>(
            mine * std::pow(tight, depth(b.count) / std::max(depth(part_caps.size()), 1.0)) + 1e-6 * mine));
        if (b.count == 1) caps.back() = part_caps[b.first];
    }
    return caps;
}

/// Splits every block of more than one part in two, ⌈count/2⌉ : ⌊count/2⌋. `parts` are block numbers, before and after.
template <executor E>
void split_blocks(const weighted_graph& graph, std::span<partition_id16> parts, std::vector<block>& blocks,
    std::span<const std::uint64_t> part_caps, const bisection_effort& effort, random_key key, const E& executor) {
    std::vector<block> halves;
    std::vector<std::uint32_t> number(blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        number[b] = static_cast<std::uint32_t>(halves.size());
        const std::uint32_t left = blocks[b].count - blocks[b].count / 2;
        halves.push_back({blocks[b].first, left});
        if (blocks[b].count > 1) halves.push_back({blocks[b].first + left, blocks[b].count - left});
    }
    const std::vector<std::uint64_t> caps = block_caps(halves, part_caps, graph.total_node_weight());

    std::vector<node_id> members(graph.nodes()), local(graph.nodes());
    std::vector<std::size_t> first(blocks.size() + 1);
    for (const partition_id16 p : parts) ++first[p + std::size_t{1}];
    for (std::size_t b = 0; b < blocks.size(); ++b) first[b + 1] += first[b];
    {
        std::vector<std::size_t> at(first.begin(), first.end() - 1);
        for (node_id v = 0; v < graph.nodes(); ++v) {
            local[v] = static_cast<node_id>(at[parts[v]] - first[parts[v]]);
            members[at[parts[v]]++] = v;
        }
    }
    std::vector<std::vector<std::uint8_t>> sides(blocks.size());
    executor.run(blocks.size(), [&](std::size_t b) {
        if (blocks[b].count == 1 || first[b] == first[b + 1]) return;
        const std::span mine = std::span(members).subspan(first[b], first[b + 1] - first[b]);
        weighted_graph inner;
        inner.offsets.reserve(mine.size() + 1);
        std::size_t arcs = 0;
        for (const node_id v : mine) graph.for_each(v, [&](node_id u, std::uint32_t) { arcs += parts[u] == b; });
        inner.neighbors.reserve(arcs);
        if (!graph.edge_weights.empty()) inner.edge_weights.reserve(arcs);
        if (!graph.node_weights.empty()) inner.node_weights.reserve(mine.size());
        for (const node_id v : mine) {
            graph.for_each(v, [&](node_id u, std::uint32_t w) {
                if (parts[u] != b) return;
                inner.neighbors.push_back(local[u]);
                if (!graph.edge_weights.empty()) inner.edge_weights.push_back(w);
            });
            inner.offsets.push_back(inner.neighbors.size());
            if (!graph.node_weights.empty()) inner.node_weights.push_back(graph.weight(v));
        }
        const bisector split({caps[number[b]], caps[number[b] + 1]}, effort, key.with(blocks[b].first));
        sides[b] = split(std::move(inner));
    });
    for (std::size_t b = 0; b < blocks.size(); ++b)
        for (std::size_t i = first[b]; i < first[b + 1]; ++i)
            parts[members[i]] =
                static_cast<partition_id16>(number[b] + (sides[b].empty() ? 0 : sides[b][i - first[b]]));
    blocks = std::move(halves);
}

} // namespace gneiss::detail
