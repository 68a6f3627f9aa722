// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/detail/cluster.hpp>
#include <gneiss/partition/detail/gain_queue.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::detail {

/// Graph with each node on one of two sides.
class bisection {
public:
    using weights = std::array<std::uint64_t, 2>;

    bisection(const weighted_graph& graph, weights caps, std::vector<std::uint8_t> sides = {})
        : graph_(&graph),
          caps_(caps),
          side_(std::move(sides)) {
        side_.resize(graph.nodes());
        std::uint64_t twice = 0;
        for (node_id v = 0; v < graph.nodes(); ++v) {
            weight_[side_[v]] += graph.weight(v);
            graph.for_each(v, [&](node_id u, std::uint32_t w) { twice += side_[u] != side_[v] ? w : 0; });
        }
        cut_ = twice / 2;
    }

    /// Total weight above the caps of both sides.
    [[nodiscard]] std::uint64_t excess() const noexcept { return over(0) + over(1); }
    [[nodiscard]] bool better_than(const bisection& other) const noexcept {
        return std::pair(excess(), cut_) < std::pair(other.excess(), other.cut_);
    }
    [[nodiscard]] std::vector<std::uint8_t>& sides() noexcept { return side_; }
    [[nodiscard]] const weights& weight() const noexcept { return weight_; }

    /// Grows side 1 from `seed` until it is full, starting with all nodes in side 0, then undoes the moves after the
    /// best state. Always moves the node that adds least to the cut or, if `dense`, the node with the heaviest edges to
    /// side 1: that collects the core of a graph with hubs and leaves loosely attached nodes behind.
    void grow(node_id seed, bool dense, random_key key) {
        const std::size_t n = graph_->nodes();
        gain_queue queue(n);
        std::vector<std::int64_t> inside(n),
            gain(n); // weight of the edges to side 1; change of the cut by a move to it
        std::vector<node_id> moved;
        for (node_id v = 0; v < n; ++v) graph_->for_each(v, [&](node_id, std::uint32_t w) { gain[v] -= w; });
        const auto rank = [&](node_id v) { return dense ? inside[v] : gain[v]; };
        random_stream draw(key);
        std::size_t next = static_cast<std::size_t>(draw.below(n)), begun = 0, best = 0;
        std::pair<std::uint64_t, std::uint64_t> least{excess(), cut_};
        queue.push(seed, rank(seed));
        while (weight_[1] < caps_[1]) {
            if (queue.empty()) { // another component
                if (begun++ == n) break;
                if (side_[next] == 0) queue.push(static_cast<node_id>(next), rank(static_cast<node_id>(next)));
                next = next + 1 == n ? 0 : next + 1;
                continue;
            }
            const node_id v = queue.pop();
            if (weight_[1] + graph_->weight(v) > caps_[1]) continue;
            flip(v, gain[v]);
            moved.push_back(v);
            if (const std::pair now{excess(), cut_}; now < least) least = now, best = moved.size();
            graph_->for_each(v, [&](node_id u, std::uint32_t w) {
                inside[u] += w;
                gain[u] += 2 * std::int64_t{w};
                if (side_[u] == 0) queue.push(u, rank(u));
            });
            if (moved.size() == n) break;
        }
        while (moved.size() > best) {
            const node_id v = moved.back();
            moved.pop_back();
            std::int64_t back = 0;
            graph_->for_each(
                v, [&](node_id u, std::uint32_t w) { back += side_[u] == 0 ? std::int64_t{w} : -std::int64_t{w}; });
            flip(v, back);
        }
    }

    /// Makes passes of moves, each the movable node of highest gain, even if negative; keeps the best state of each
    /// pass.
    /// Source: Fiduccia and Mattheyses, DAC 1982.
    void refine(std::uint32_t passes, std::size_t patience) {
        const std::size_t n = graph_->nodes();
        std::array<gain_queue, 2> queue{gain_queue(n), gain_queue(n)};
        std::vector<std::int64_t> gain(n);
        std::vector<std::uint8_t> locked(n);
        std::vector<node_id> moved;
        for (std::uint32_t pass = 0; pass < passes; ++pass) {
            std::ranges::fill(locked, std::uint8_t{0});
            queue[0].clear(), queue[1].clear();
            moved.clear();
            for (node_id v = 0; v < n; ++v) {
                std::int64_t out = 0, in = 0;
                graph_->for_each(v, [&](node_id u, std::uint32_t w) { (side_[u] != side_[v] ? out : in) += w; });
                gain[v] = out - in;
                if (out != 0 || over(side_[v]) != 0) queue[side_[v]].push(v, gain[v]);
            }
            const std::pair<std::uint64_t, std::uint64_t> before{excess(), cut_};
            std::pair<std::uint64_t, std::uint64_t> least = before;
            std::size_t best = 0;
            while (moved.size() - best < patience) {
                const std::uint8_t from = next_side(queue);
                if (from == 2) break;
                const node_id v = queue[from].pop();
                locked[v] = 1;
                const std::uint8_t to = from ^ 1;
                if (weight_[to] + graph_->weight(v) > caps_[to] &&
                    over(from) <= weight_[to] + graph_->weight(v) - caps_[to])
                    continue; // does not fit
                flip(v, gain[v]);
                moved.push_back(v);
                if (const std::pair now{excess(), cut_}; now < least) least = now, best = moved.size();
                graph_->for_each(v, [&](node_id u, std::uint32_t w) {
                    gain[u] += side_[u] == to ? -2 * std::int64_t{w} : 2 * std::int64_t{w};
                    if (!locked[u]) queue[side_[u]].push(u, gain[u]);
                });
                gain[v] = -gain[v];
            }
            while (moved.size() > best) {
                const node_id v = moved.back();
                moved.pop_back();
                std::int64_t back = 0;
                graph_->for_each(v, [&](node_id u, std::uint32_t w) {
                    back += side_[u] == side_[v] ? -std::int64_t{w} : std::int64_t{w};
                });
                flip(v, back);
            }
            if (least == before) break;
        }
    }

private:
    [[nodiscard]] std::uint64_t over(std::size_t side) const noexcept {
        return weight_[side] - std::min(weight_[side], caps_[side]);
    }
    void flip(node_id v, std::int64_t gain) noexcept {
        const std::uint8_t from = side_[v];
        side_[v] = from ^ 1;
        weight_[from] -= graph_->weight(v);
        weight_[from ^ 1] += graph_->weight(v);
        cut_ -= static_cast<std::uint64_t>(gain);
    }
    /// Side of the next node: one that is too heavy, else that of higher gain; 2: none.
    [[nodiscard]] std::uint8_t next_side(const std::array<gain_queue, 2>& queue) const noexcept {
        if (over(0) != 0 && !queue[0].empty()) return 0;
        if (over(1) != 0 && !queue[1].empty()) return 1;
        if (queue[0].empty()) return queue[1].empty() ? 2 : 1;
        if (queue[1].empty()) return 0;
        if (queue[0].top_gain() != queue[1].top_gain()) return queue[0].top_gain() > queue[1].top_gain() ? 0 : 1;
        return weight_[0] * caps_[1] >= weight_[1] * caps_[0] ? 0 : 1;
    }

    const weighted_graph* graph_;
    weights caps_, weight_{};
    std::uint64_t cut_ = 0;
    std::vector<std::uint8_t> side_;
};

} // namespace gneiss::detail
