// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/draw.hpp>
#include <gneiss/sample/detail/excluded_positions.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor_options.hpp>

namespace gneiss {

namespace detail {

/// Key of a batch's draws: random_key{seed, neighbor}, then epoch, state, pass and batch; a hop adds its number, from 0
/// at the seeds, and each node its dataset id. Words 0, 1, … draw from the only list, or the outgoing one of two; words
/// 2³², 2³² + 1, … from the incoming one.
[[nodiscard]] GNEISS_HD constexpr random_key neighbor_key(std::uint64_t seed, const batch_key& batch) noexcept {
    return random_key{seed, random_domain::neighbor}
        .with(batch.epoch)
        .with(batch.number.state)
        .with(batch.number.pass)
        .with(batch.number.index);
}

/// Exclusive upper bound on the edges of a hop.
inline constexpr std::uint32_t too_many_edges = std::uint32_t{1} << 31;

/// First word of a node's key for its incoming list, if both lists are drawn from separately.
inline constexpr std::uint64_t words_of_a_list = std::uint64_t{1} << 32;

/// Sampled edges of one hop, grouped by target node.
template <node_id_type NodeId>
struct hop_edges {
    std::vector<std::uint32_t> offsets; ///< [nodes + 1]
    std::vector<NodeId> neighbors;      ///< [edges]
    std::vector<std::uint32_t> numbers; ///< [edges] of the neighbors, by `hop_sampler`
    std::vector<relation_id> relations; ///< [edges], if wanted
    std::vector<edge_index> edge_ids;   ///< [edges], if wanted
};

/// Draws one hop for many nodes: degrees, positions and neighbors, as functions of graph, key and node id, whichever
/// nodes are drawn for together. Keeps its scratch.
///
/// Work is split by nodes into the graph's preferred request size; O(edges) in total, O(degrees) for weighted draws.
/// The result does not depend on the executor.
template <node_id_type NodeId>
class hop_drawer {
public:
    /// Draws the neighbors of `ids` into all of `to` but the numbers. `answered(first, count, executor)` is called with
    /// edges whose neighbors are there, once for each, in their order, while those of others are drawn.
    /// Precondition: `ids` stays as it is.
    template <neighbor_source G, executor E, class Weight, class Answered>
    void draw(const G& graph, std::span<const NodeId> ids, const hop_fanout& fanout, random_key key,
        const neighbor_options& options, const excluded_positions<NodeId>& excluded, const Weight& weight,
        const E& executor, hop_edges<NodeId>& to, const Answered& answered) {
        const neighbor_direction direction = fanout.direction();
        const bool split = fanout.in != 0 && fanout.out != 0;
        degrees_.resize(ids.size());
        outgoing_.resize(split ? ids.size() : 0);
        to.offsets.resize(ids.size() + 1);
        parallel_for(executor, ids.size(), G::neighbor_batch, [&](std::size_t begin, std::size_t end) {
            const auto part = ids.subspan(begin, end - begin);
            graph.degrees(part, direction, std::span(degrees_).subspan(begin, end - begin));
            if (split) graph.degrees(part, neighbor_direction::out, std::span(outgoing_).subspan(begin, end - begin));
            for (std::size_t i = begin; i < end; ++i)
                to.offsets[i + 1] = count_of(node(i, ids, fanout, excluded), options);
        });
        to.offsets[0] = 0;
        scan(to.offsets);
        positions_.resize(to.offsets.back());
        const auto draw_some = [&](std::size_t begin, std::size_t end) {
            std::vector<std::uint32_t> scratch;
            for (std::size_t i = begin; i < end; ++i) {
                const auto out = std::span(positions_).subspan(to.offsets[i], to.offsets[i + 1] - to.offsets[i]);
                draw_of(node(i, ids, fanout, excluded), key.with(graph.id_of(ids[i])), options, out, scratch);
            }
        };
        const auto size = [&] {
            to.neighbors.resize(to.offsets.back());
            to.relations.resize(options.relations ? to.offsets.back() : 0);
            to.edge_ids.resize(options.edge_ids ? to.offsets.back() : 0);
        };
        const auto ask = [&](std::size_t begin, std::size_t end) {
            const std::size_t first = to.offsets[begin], count = to.offsets[end] - first;
            const auto part = [&](auto& array) {
                return array.empty() ? std::span(array) : std::span(array).subspan(first, count);
            };
            graph.neighbors_at({ids.subspan(begin, end - begin), direction,
                                   std::span<const std::uint32_t>(to.offsets).subspan(begin, end - begin + 1),
                                   std::span<const std::uint32_t>(positions_).subspan(first, count)},
                {part(to.neighbors), part(to.relations), part(to.edge_ids)});
        };
        const auto pass_on = [&](std::size_t begin, std::size_t end, const auto& on) {
            answered(to.offsets[begin], to.offsets[end] - to.offsets[begin], on);
        };
        const auto answer_all = [&](const auto& answer) {
            if (executor.concurrency() == 1) { // all answers, then what is done with them: either has the caches alone
                parallel_for(executor, ids.size(), G::neighbor_batch, answer);
                pass_on(0, ids.size(), executor);
            } else {
                parallel_for_in_order(executor, ids.size(), G::neighbor_batch, answer,
                    [&](std::size_t begin, std::size_t end) { pass_on(begin, end, serial_executor{}); });
            }
        };
        if constexpr (!std::same_as<Weight, equal_weights>) {
            draw_by_weight(graph, ids, fanout, key, options, excluded, weight, executor, to);
            size();
            answer_all(ask);
        } else if (G::neighbor_batch >= ids.size()) { // a single request; parallel draws
            size();
            parallel_for(executor, ids.size(), draw_grain, draw_some);
            if (ids.empty()) return;
            ask(0, ids.size());
            pass_on(0, ids.size(), executor);
        } else {
            size();
            answer_all([&](std::size_t begin, std::size_t end) {
                draw_some(begin, end);
                ask(begin, end);
            });
        }
    }

private:
    static constexpr std::size_t draw_grain = 256;
    static constexpr std::size_t weighed_at_once = 65536; // edges, and those of one node

    /// One or two lists of a node to draw from; sizes exclude excluded edges.
    struct list {
        std::uint32_t first = 0, size = 0, fanout = 0; // positions [first, first + size + excluded)
        std::span<const std::pair<NodeId, std::uint32_t>> excluded{};
    };
    struct lists {
        list of[2];
    };

    [[nodiscard]] lists node(std::size_t i, std::span<const NodeId> ids, const hop_fanout& fanout,
        const excluded_positions<NodeId>& excluded) const noexcept {
        lists result;
        if (outgoing_.empty()) {
            result.of[0] = {0, degrees_[i], std::max({fanout.in, fanout.out, fanout.both}), {}};
        } else {
            result.of[0] = {0, outgoing_[i], fanout.out, {}};
            result.of[1] = {outgoing_[i], degrees_[i] - outgoing_[i], fanout.in, {}};
        }
        if (excluded.empty()) return result;
        const auto all = excluded.of(ids[i]);
        const auto cut = std::partition_point(
            all.begin(), all.end(), [&](const auto& at) { return outgoing_.empty() || at.second < outgoing_[i]; });
        result.of[0].excluded = {all.begin(), cut};
        result.of[1].excluded = {cut, all.end()};
        for (list& l : result.of) l.size -= static_cast<std::uint32_t>(l.excluded.size());
        return result;
    }

    [[nodiscard]] static std::uint32_t count_of(const list& l, bool replace) noexcept {
        return drawn_edges(l.size, l.fanout, replace);
    }
    [[nodiscard]] static std::uint32_t count_of(const lists& of, const neighbor_options& options) {
        const std::uint64_t count =
            std::uint64_t{count_of(of.of[0], options.replace)} + count_of(of.of[1], options.replace);
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, too_many_edges));
    }

    static void scan(std::vector<std::uint32_t>& offsets) {
        std::uint64_t sum = 0;
        for (std::uint32_t& offset : offsets) {
            sum += offset;
            if (sum >= too_many_edges) throw error(errc::out_of_range, "a hop of a sample has 2^31 edges or more");
            offset = static_cast<std::uint32_t>(sum);
        }
    }

    static void draw_of(const lists& of, random_key key, const neighbor_options& options, std::span<std::uint32_t> out,
        std::vector<std::uint32_t>& scratch) {
        std::uint64_t word = 0;
        for (const list& l : of.of) {
            const auto mine = out.first(count_of(l, options.replace));
            out = out.subspan(mine.size());
            if (l.fanout == all_neighbors || (!options.replace && mine.size() == l.size))
                std::iota(mine.begin(), mine.end(), 0U);
            else if (options.replace)
                draw_repeating(key, word, l.size, mine);
            else
                draw_distinct(key, word, l.size, mine, scratch);
            for (std::uint32_t& position : mine) position = place(l, position);
            word += words_of_a_list;
        }
    }

    /// Position of the k-th edge of a list that is not excluded.
    [[nodiscard]] static std::uint32_t place(const list& l, std::uint32_t k) noexcept {
        k += l.first;
        for (const auto& [node, position] : l.excluded) k += position <= k;
        return k;
    }

    /// Edges of consecutive nodes with their weights, node by node and list by list.
    struct weighed_edges {
        std::vector<std::uint32_t> offsets;   // [nodes + 1]
        std::vector<std::uint32_t> positions; // [edges] in the list of their node
        std::vector<NodeId> neighbors;        // [edges] unused
        std::vector<edge_index> edge_ids;     // [edges]
        std::vector<float> weights;           // [edges]
    };

    /// Weighs the edges of nodes from `first` on: those of one node at least, and of further ones below `end` while
    /// there are fewer than `weighed_at_once`. Returns the node after the last.
    template <neighbor_source G, class Weight>
    [[nodiscard]] std::size_t weigh(const G& graph, std::span<const NodeId> ids, std::size_t first, std::size_t end,
        const hop_fanout& fanout, const excluded_positions<NodeId>& excluded, const Weight& weight,
        weighed_edges& to) const {
        to.offsets.assign(1, 0);
        to.positions.clear();
        std::size_t last = first;
        for (; last < end && to.positions.size() < weighed_at_once; ++last) {
            for (const list& l : node(last, ids, fanout, excluded).of)
                for (std::uint32_t k = 0; k < l.size; ++k) to.positions.push_back(place(l, k));
            to.offsets.push_back(static_cast<std::uint32_t>(to.positions.size()));
        }
        to.neighbors.resize(to.positions.size());
        to.edge_ids.resize(to.positions.size());
        to.weights.resize(to.positions.size());
        graph.neighbors_at({ids.subspan(first, last - first), fanout.direction(), to.offsets, to.positions},
            {to.neighbors, {}, to.edge_ids});
        for (std::size_t k = 0; k < to.weights.size(); ++k) to.weights[k] = static_cast<float>(weight(to.edge_ids[k]));
        return last;
    }
    /// Draws from the lists of a node by the weights of its edges, which begin at `at` of `from`. Returns the number of
    /// positions written: edges of weight 0 are never drawn.
    [[nodiscard]] static std::uint32_t draw_weighed(const lists& of, random_key key, const neighbor_options& options,
        const weighed_edges& from, std::size_t at, std::span<std::uint32_t> out) {
        std::size_t written = 0;
        std::uint64_t word = 0;
        for (const list& l : of.of) {
            const auto mine = out.subspan(written, count_of(l, options.replace));
            const std::size_t drawn = draw_weighted(key, word, std::span<const float>(from.weights).subspan(at, l.size),
                options.replace && l.fanout != all_neighbors, mine);
            for (std::uint32_t& position : mine.first(drawn)) position = from.positions[at + position];
            written += drawn;
            at += l.size;
            word += words_of_a_list;
        }
        return static_cast<std::uint32_t>(written);
    }

    /// Draws within the bounds of uniform draws, then closes the gaps left by edges of weight 0. Memory: 20 bytes per
    /// edge that a task weighs at once, `weighed_at_once` and those of a node.
    template <neighbor_source G, executor E, class Weight>
    void draw_by_weight(const G& graph, std::span<const NodeId> ids, const hop_fanout& fanout, random_key key,
        const neighbor_options& options, const excluded_positions<NodeId>& excluded, const Weight& weight,
        const E& executor, hop_edges<NodeId>& to) {
        counts_.resize(ids.size());
        parallel_for(
            executor, ids.size(), std::min(G::neighbor_batch, draw_grain), [&](std::size_t begin, std::size_t end) {
                weighed_edges some;
                for (std::size_t first = begin, last = begin; first < end; first = last) {
                    last = weigh(graph, ids, first, end, fanout, excluded, weight, some);
                    for (std::size_t i = first; i < last; ++i) {
                        const auto out =
                            std::span(positions_).subspan(to.offsets[i], to.offsets[i + 1] - to.offsets[i]);
                        counts_[i] = draw_weighed(node(i, ids, fanout, excluded), key.with(graph.id_of(ids[i])),
                            options, some, some.offsets[i - first], out);
                    }
                }
            });
        std::uint32_t kept = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const std::uint32_t from = to.offsets[i];
            to.offsets[i] = kept;
            for (std::uint32_t k = 0; k < counts_[i]; ++k) positions_[kept++] = positions_[from + k];
        }
        to.offsets[ids.size()] = kept;
    }

    std::vector<std::uint32_t> degrees_, outgoing_, positions_, counts_;
};

} // namespace detail
} // namespace gneiss
