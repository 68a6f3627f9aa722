// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss {

/// Laziness of the random walk; the thesis leaves it open.
enum class lazy_walk : std::uint8_t {
    half,     ///< stays with probability ½
    self_loop ///< the node counts as one of its own neighbors
};

/// Options of reverse walks from training nodes.
struct influence_options {
    std::uint32_t steps = 3;          ///< L: layers of the model
    lazy_walk lazy = lazy_walk::half; ///< laziness of the walk
    std::stop_token stop{};           ///< stops the passes with errc::canceled at the next chunk
};

namespace detail {

/// Makes one pass per step: `move(step, node, neighbors without loops, value there, next)` distributes a node's value
/// to others.
template <class T, adjacency_stream Stream, class Move>
[[nodiscard]] std::vector<T> walk(
    Stream& stream, std::span<const node_id> training_nodes, const influence_options& options, T each, Move&& move) {
    std::vector<T> now(static_cast<std::size_t>(stream.nodes())), next(now.size());
    for (const node_id v : training_nodes) {
        if (v >= now.size())
            throw error(errc::out_of_range,
                "training node " + std::to_string(v) + " of a graph of " + std::to_string(now.size()) + " nodes");
        now[v] += each;
    }
    std::vector<node_id> without_loops;
    for (std::uint32_t step = 0; step < options.steps; ++step) {
        std::ranges::fill(next, T{});
        stream.rewind();
        for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
            if (options.stop.stop_requested()) throw error(errc::canceled, "the search for hubs was stopped");
            for (std::size_t i = 0; i < chunk.size(); ++i) {
                const node_id v = chunk.node(i);
                if (now[v] == T{}) continue;
                std::span<const node_id> list = chunk.list(i);
                if (std::ranges::find(list, v) != list.end()) {
                    without_loops.clear();
                    std::ranges::copy_if(list, std::back_inserter(without_loops), [v](node_id u) { return u != v; });
                    list = without_loops;
                }
                if (list.empty())
                    next[v] += now[v];
                else
                    move(step, v, list, now[v], next);
            }
        }
        now.swap(next);
    }
    return now;
}

} // namespace detail

/// Influence of each node on the predictions of an L-layer model for the training nodes: the probability that an L-step
/// reverse lazy random walk from a training node ends in it, summed over all training nodes, [nodes]. The sum is their
/// number.
///
///     symmetric_stream lists(graph); // or an adjacency_file_stream
///     const std::vector<float> score = influence(lists, training_nodes, {.steps = 2});
///
/// One propagation ÃᴸE for all training nodes at once. Scores are linear in them, so this equals the sum of the scores
/// per partition. On undirected graphs a reverse walk is a walk; a neighbor is chosen in proportion to its edges.
///
/// \param training_nodes  below nodes(); a repeated node counts each time
///
/// Cost: L passes of the stream, O(arcs) each with one random access per arc; only nodes that a walk can have reached
/// read their lists. Memory: two `Real` per node.
/// Errors: errc::out_of_range for a training node beyond the graph; errc::canceled; errors of the stream.
/// Source: Hanoi (thesis), equation 4.1 and section 4.3.3.
template <std::floating_point Real = float, adjacency_stream Stream>
[[nodiscard]] std::vector<Real> influence(
    Stream& stream, std::span<const node_id> training_nodes, const influence_options& options = {}) {
    return detail::walk<Real>(stream, training_nodes, options, Real{1},
        [&](std::uint32_t, node_id v, std::span<const node_id> list, Real here, std::vector<Real>& next) {
            const auto degree = static_cast<Real>(list.size());
            const Real moved = options.lazy == lazy_walk::half ? here / (2 * degree) : here / (degree + 1);
            next[v] += options.lazy == lazy_walk::half ? here / 2 : moved;
            for (const node_id u : list) next[u] += moved;
        });
}

/// Estimates `influence` by `walks` walks from each training node: the number of walks that end in each node, [nodes].
/// The score is this number over `walks`; its variance is at most the score over `walks`.
///
/// Walks at the same node are interchangeable, so only their number is kept. All walks take one step per pass, and only
/// nodes with walks read their lists. Step s draws for node v from key (seed, partition, 8, s, v).
///
/// Cost: L passes and O(walks) per step, instead of O(arcs). Memory: 8 bytes per node. Errors: as `influence`;
/// errc::out_of_range for 2³² walks or more in total.
template <adjacency_stream Stream>
[[nodiscard]] std::vector<std::uint32_t> sampled_influence(Stream& stream, std::span<const node_id> training_nodes,
    std::uint32_t walks, std::uint64_t seed, const influence_options& options = {}) {
    if (walks != 0 && training_nodes.size() > ~std::uint32_t{0} / walks)
        throw error(errc::out_of_range,
            std::to_string(walks) + " walks from each of " + std::to_string(training_nodes.size()) +
                " nodes: 2^32 are too many");
    const random_key key = random_key{seed, random_domain::partition}.with(8);
    return detail::walk<std::uint32_t>(stream, training_nodes, options, walks,
        [&](std::uint32_t step, node_id v, std::span<const node_id> list, std::uint32_t here,
            std::vector<std::uint32_t>& next) {
            random_stream draw(key.with(step).with(v));
            const std::uint64_t choices = options.lazy == lazy_walk::half ? 2 * list.size() : list.size() + 1;
            for (std::uint32_t walk = 0; walk < here; ++walk) {
                const auto choice = static_cast<std::size_t>(draw.below(choices));
                ++next[choice < list.size() ? list[choice] : v];
            }
        });
}

/// Returns the `count` nodes with the highest scores, highest first, ties by id; fewer if there are fewer nodes.
/// Cost: O(nodes log count); memory O(count). Throws errc::not_finite for a score that is NaN; errc::out_of_range for
/// more than 2³² scores.
template <class Score>
[[nodiscard]] std::vector<node_id> most_influential(std::span<const Score> scores, std::size_t count) {
    if (scores.size() > std::size_t{1} << 32) throw error(errc::out_of_range, "scores of more than 2^32 nodes");
    const auto better = [&](node_id a, node_id b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
    std::vector<node_id> best; // a heap with the lowest score on top
    best.reserve(std::min(count, scores.size()));
    for (std::size_t v = 0; v < scores.size(); ++v) {
        const auto node = static_cast<node_id>(v);
        if (scores[v] != scores[v]) throw error(errc::not_finite, "the score of node " + std::to_string(v) + " is NaN");
        if (best.size() == count) {
            if (count == 0 || !better(node, best.front())) continue;
            std::ranges::pop_heap(best, better);
            best.pop_back();
        }
        best.push_back(node);
        std::ranges::push_heap(best, better);
    }
    std::ranges::sort_heap(best, better);
    return best;
}

} // namespace gneiss
