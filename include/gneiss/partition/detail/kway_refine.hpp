// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/cluster.hpp>
#include <gneiss/partition/detail/gain_queue.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::detail {

/// Improves a k-way partition by moving nodes between parts, under caps.
///
/// A move never makes a part heavier than its cap. Serial; a pure function of its arguments. Memory: 4 to 9 bytes per
/// node, 24 per part, and the queue of a search.
class kway_refiner {
public:
    kway_refiner(const weighted_graph& graph, std::span<partition_id16> parts, std::span<const std::uint64_t> caps)
        : graph_(graph),
          part_(parts),
          caps_(caps),
          weight_(caps.size()),
          to_(caps.size()) {
        for (node_id v = 0; v < graph.nodes(); ++v) weight_[part_[v]] += graph.weight(v);
    }

    [[nodiscard]] std::uint64_t excess() const noexcept {
        std::uint64_t sum = 0;
        for (std::size_t p = 0; p < caps_.size(); ++p) sum += weight_[p] - std::min(weight_[p], caps_[p]);
        return sum;
    }

    /// Moves each node to the part with its heaviest edges, in passes over nodes whose neighbors moved. Returns the
    /// gain.
    std::uint64_t propagate(std::uint32_t passes, random_key key) {
        std::uint64_t gained = 0;
        std::vector<std::uint8_t> active(graph_.nodes(), 1);
        for (std::uint32_t pass = 0; pass < passes; ++pass) {
            std::size_t moved = 0;
            const node_id n = static_cast<node_id>(graph_.nodes());
            const node_id start = n == 0 ? 0 : static_cast<node_id>(below(key[pass], n));
            for (node_id i = 0; i < n; ++i) {
                const node_id v = i < n - start ? start + i : i - (n - start);
                if (!std::exchange(active[v], std::uint8_t{0})) continue;
                const move m = best_move(v);
                if (m.to == no_partition || m.gain < 0 ||
                    (m.gain == 0 && weight_[m.to] + graph_.weight(v) >= weight_[part_[v]]))
                    continue;
                if (m.gain == 0 && pass + 1 == passes) continue;
                apply(v, m.to);
                gained += static_cast<std::uint64_t>(m.gain);
                ++moved;
                graph_.for_each(v, [&](node_id u, std::uint32_t) { active[u] = 1; });
            }
            if (moved * 1024 < graph_.nodes()) break;
        }
        return gained;
    }

    /// Runs local searches, each from one border node. It and nodes around it move in order of gain, even negative,
    /// until the search stalls; moves after the best state are undone. A node moves once per round. Returns the gain.
    /// Source: Sanders and Schulz, ESA 2011 (multi-try FM).
    /// \param patience  moves without a new best state that end a search
    std::uint64_t search(std::uint32_t rounds, std::size_t patience, random_key key) {
        const std::size_t n = graph_.nodes();
        gain_queue queue(n);
        std::vector<partition_id16> target(n, no_partition);
        std::vector<std::uint8_t> locked(n);
        std::vector<node_id> border;
        std::vector<std::pair<node_id, partition_id16>> moved; // and its origin
        std::uint64_t total = 0;
        for (std::uint32_t round = 0; round < rounds; ++round) {
            border.clear();
            std::uint64_t twice_cut = 0;
            for (node_id v = 0; v < n; ++v) {
                std::uint64_t out = 0;
                graph_.for_each(v, [&](node_id u, std::uint32_t w) { out += part_[u] != part_[v] ? w : 0; });
                if (out != 0) border.push_back(v);
                twice_cut += out;
            }
            shuffle(border, key.with(round));
            std::ranges::fill(locked, std::uint8_t{0});
            std::uint64_t gained = 0;
            read_ = 0;
            for (const node_id seed : border) {
                if (locked[seed]) continue;
                if (static_cast<double>(read_) > allowed_work(gained, twice_cut)) break;
                const move first = best_move(seed);
                if (first.to == no_partition) continue;
                target[seed] = first.to;
                queue.push(seed, first.gain);
                moved.clear();
                std::int64_t sum = 0, best = 0;
                std::size_t kept = 0;
                while (!queue.empty() && moved.size() - kept < patience) {
                    const node_id v = queue.pop();
                    const move m = best_move(v);
                    if (m.to == no_partition) continue;
                    if (!queue.empty() && m.gain < queue.top_gain()) { // its gain has dropped
                        target[v] = m.to;
                        queue.push(v, m.gain);
                        continue;
                    }
                    const partition_id16 from = part_[v];
                    apply(v, m.to);
                    locked[v] = 1;
                    moved.emplace_back(v, from);
                    sum += m.gain;
                    if (sum > best) best = sum, kept = moved.size();
                    graph_.for_each(v, [&](node_id u, std::uint32_t w) {
                        if (locked[u]) return;
                        if (!queue.contains(u)) {
                            const move next = best_move(u);
                            if (next.to == no_partition) return;
                            target[u] = next.to;
                            queue.push(u, next.gain);
                            return;
                        }
                        std::int64_t change = 0;
                        if (part_[u] == from) change += w;
                        if (part_[u] == m.to) change -= w;
                        if (target[u] == from) change -= w;
                        if (target[u] == m.to) change += w;
                        if (change != 0) queue.push(u, queue.gain(u) + change);
                    });
                }
                while (moved.size() > kept) {
                    apply(moved.back().first, moved.back().second);
                    moved.pop_back();
                }
                queue.clear();
                gained += static_cast<std::uint64_t>(best);
            }
            total += gained;
            if (gained * 2000 < twice_cut) break;
        }
        return total;
    }

    /// Moves nodes out of overweight parts, lowest loss per weight first, into parts with room. Returns false if a part
    /// is still too heavy; with nodes of weight 1 and sufficient caps that does not happen.
    bool balance() {
        if (excess() == 0) return true;
        gain_queue queue(graph_.nodes());
        for (node_id v = 0; v < graph_.nodes(); ++v)
            if (weight_[part_[v]] > caps_[part_[v]])
                if (const move m = relief(v); m.to != no_partition) queue.push(v, relative(m.gain, graph_.weight(v)));
        while (!queue.empty()) {
            const std::int64_t believed = queue.top_gain();
            const node_id v = queue.pop();
            if (weight_[part_[v]] <= caps_[part_[v]]) continue;
            const move m = relief(v);
            if (m.to == no_partition) continue;
            if (const std::int64_t now = relative(m.gain, graph_.weight(v));
                now < believed && !queue.empty() && now < queue.top_gain()) {
                queue.push(v, now);
                continue;
            }
            apply(v, m.to);
        }
        return excess() == 0;
    }

private:
    /// Maximum number of arcs that a round may read. Gains allow more, which bounds the work on graphs that are all
    /// border.
    [[nodiscard]] double allowed_work(std::uint64_t gained, std::uint64_t twice_cut) const noexcept {
        const double share =
            2 * static_cast<double>(gained) / static_cast<double>(std::max<std::uint64_t>(twice_cut, 1));
        return static_cast<double>(graph_.arcs()) * (2 + 400 * share);
    }
    struct move {
        std::int64_t gain;
        partition_id16 to; ///< no_partition: none has room
    };

    [[nodiscard]] bool fits(node_id v, partition_id16 p) const noexcept {
        return weight_[p] + graph_.weight(v) <= caps_[p];
    }
    void apply(node_id v, partition_id16 to) noexcept {
        weight_[part_[v]] -= graph_.weight(v);
        weight_[to] += graph_.weight(v);
        part_[v] = to;
    }
    /// Best move to another part: among its neighbors' parts with room, the one with the heaviest edges to `v`, then
    /// the lighter one.
    [[nodiscard]] move best_move(node_id v) {
        const partition_id16 own = part_[v];
        read_ += graph_.degree(v);
        graph_.for_each(v, [&](node_id u, std::uint32_t w) { to_.add(part_[u], w); });
        partition_id16 found = no_partition;
        std::uint64_t most = 0;
        for (const std::uint32_t p : to_.touched())
            if (p != own && to_[p] >= most && fits(v, static_cast<partition_id16>(p)) &&
                (to_[p] > most || found == no_partition || weight_[p] < weight_[found])) {
                most = to_[p];
                found = static_cast<partition_id16>(p);
            }
        const move result{static_cast<std::int64_t>(most) - static_cast<std::int64_t>(to_[own]), found};
        to_.reset();
        return result;
    }
    /// Returns `best_move`, or a move to the part with the most room if no neighbor's part has any.
    [[nodiscard]] move relief(node_id v) {
        move m = best_move(v);
        if (m.to != no_partition) return m;
        std::uint64_t room = 0;
        for (std::size_t p = 0; p < caps_.size(); ++p)
            if (p != part_[v] && caps_[p] > weight_[p] && caps_[p] - weight_[p] > room &&
                fits(v, static_cast<partition_id16>(p))) {
                room = caps_[p] - weight_[p];
                m.to = static_cast<partition_id16>(p);
            }
        if (m.to != no_partition)
            graph_.for_each(
                v, [&](node_id u, std::uint32_t w) { m.gain -= part_[u] == part_[v] ? std::int64_t{w} : 0; });
        return m;
    }
    /// Gain relative to weight: losses are divided by it, gains multiplied.
    [[nodiscard]] static std::int64_t relative(std::int64_t gain, std::uint32_t weight) noexcept {
        return gain > 0 ? gain * weight : gain * 64 / static_cast<std::int64_t>(std::max(weight, 1U));
    }

    const weighted_graph& graph_;
    std::span<partition_id16> part_;
    std::span<const std::uint64_t> caps_;
    std::vector<std::uint64_t> weight_;
    sparse_sums<std::uint64_t> to_;
    std::uint64_t read_ = 0; // arcs, for `allowed_work`
};

} // namespace gneiss::detail
