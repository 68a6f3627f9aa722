// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/excluded_positions.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/detail/layered_arrays.hpp>
#include <gneiss/sample/excluded_edge.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/sample/neighbor_options.hpp>

namespace gneiss {

/// Samples layer by layer: at each hop some of the neighbors of all nodes known so far, drawn together, with every edge
/// from them to those nodes. A sample grows by at most the fan-out of each hop, however many nodes it has.
///
///     layerwise_sampler<> sampler({.fanout = parse_fanout("512,512")}, seed); // nodes of each hop, the seeds' first
///     const neighbor_sample<> sample = sampler.sample(key, graph, seeds, executor, arena);
///
/// The fan-out of a hop counts nodes of the batch, not neighbors of each node. Every set of that many of the distinct
/// neighbors is equally likely, nodes that the sample has already among them; a node of the sample that is not drawn
/// keeps its own row, but gives none to others at this hop. If there are no more neighbors, all are drawn. With
/// `weight`, of the dataset id of a node, nodes are drawn one after the other in proportion to the weights of those
/// that are left. A mean over drawn neighbors is that over all of them in expectation, up to its ratio, without
/// weights alone.
///
/// A sample is a pure function of (seed, batch key, seeds, graph, options), bit for bit on any executor.
/// Cost: O(degrees of the nodes known so far) time for each hop, as all of their lists are read, some at a time;
/// O(fan-out + sampled edges) scratch, and 90 bytes for each edge read at once: 6 MB, or more for a node of over 65,536
/// neighbors. Scratch is kept: use one sampler per thread; the executor works inside a batch.
/// Source: Zou et al., "Layer-dependent importance sampling for training deep and large graph convolutional networks",
/// NeurIPS 2019, with the choice of nodes left open as in Joestar's collective sampling (thesis, §5.1.2).
template <node_id_type NodeId = node_id>
class layerwise_sampler {
public:
    /// Throws `invalid_argument` for a fan-out without hops or an invalid one, for a hop of incoming and outgoing
    /// neighbors apart, and for `replace`.
    layerwise_sampler(neighbor_options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
        if (options_.replace)
            throw error(errc::invalid_argument, "layer-wise sampling draws the nodes of a hop without replacement");
        for (const hop_fanout& hop : options_.fanout)
            if (hop.in != 0 && hop.out != 0)
                throw error(errc::invalid_argument,
                    "fan-out " + to_string(options_.fanout) +
                        ": layer-wise sampling draws the neighbors of a hop together, not incoming and outgoing apart");
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }

    /// Draws and writes a sample into `arena`, alone. Valid until the arena is used again.
    /// \param seeds     distinct nodes, in any order; may be empty
    /// \param excluded  edges that are not sampled; the graph must store edge ids
    /// \param weight    weight(dataset id of a node), at least 0 and finite; nodes of weight 0 are never drawn
    ///
    /// Throws `invalid_argument` for a repeated seed, `out_of_range` for one beyond the graph or for 2³¹ edges
    /// of a hop or of a node, `not_finite` for a weight that is negative, infinite or NaN.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    neighbor_sample<NodeId> sample(const batch_key& batch, const G& graph, std::span<const NodeId> seeds,
        const E& executor, mini_batch_arena& arena, std::span<const excluded_edge<NodeId>> excluded = {},
        const Weight& weight = {}) {
        sample_.begin(graph, seeds);
        const random_key key = detail::neighbor_key(seed_, batch);
        for (std::size_t hop = 0; hop < options_.fanout.size(); ++hop) {
            const hop_fanout& fanout = options_.fanout[hop];
            if (hop == 0 || fanout.direction() != options_.fanout[hop - 1].direction())
                excluded_.find(graph, excluded, fanout.direction());
            choose(graph, fanout, key.with(hop), weight, executor);
            end_hop(executor);
        }
        mini_batch result = mini_batch::format(
            arena.reserve(mini_batch::header_bytes() + sample_.bytes_needed(options_.relations, options_.edge_ids)),
            batch);
        sample_.write(result, options_.relations, options_.edge_ids);
        return neighbor_sample<NodeId>::of(result);
    }

private:
    static constexpr std::size_t read_at_once = std::size_t{1} << 16; // edges, and those of one node

    /// Place of a node among the neighbors of a hop, which has the first of them: its draw, then its id.
    struct rank {
        double draw;
        std::uint64_t id;

        friend auto operator<=>(const rank&, const rank&) = default;
        friend bool operator==(const rank&, const rank&) = default;
    };
    /// An edge to a target, with the rank of the neighbor.
    struct candidate {
        rank of;
        std::uint32_t target;
        NodeId neighbor;
        relation_id relation;
        edge_index id;
    };

    /// Leaves in `kept_` the edges from the first neighbors in order of their ranks, in the order of the targets.
    template <neighbor_source G, executor E, class Weight>
    void choose(const G& graph, const hop_fanout& fanout, random_key key, const Weight& weight, const E& executor) {
        const std::span<const NodeId> targets = sample_.nodes();
        const auto most = std::size_t{std::max({fanout.in, fanout.out, fanout.both})};
        const auto all = [](std::uint32_t count) { return count == 0 ? 0 : all_neighbors; };
        const hop_fanout lists{all(fanout.in), all(fanout.out), all(fanout.both)};
        degrees_.resize(targets.size());
        graph.degrees(targets, fanout.direction(), degrees_);
        best_.clear();
        kept_.clear();
        last_ = {std::numeric_limits<double>::max(), 0}; // before nodes of weight 0
        std::size_t crowded = 2 * read_at_once;
        for (std::size_t begin = 0, end = 0; begin < targets.size(); begin = end) {
            for (std::uint64_t edges = 0;
                end < targets.size() && (end == begin || edges + degrees_[end] <= read_at_once); ++end)
                edges += degrees_[end];
            drawer_.draw(graph, targets.subspan(begin, end - begin), lists, key, options_, excluded_, equal_weights{},
                executor, read_, [](std::size_t, std::size_t, const auto&) {});
            ranks_.resize(read_.neighbors.size());
            parallel_for(executor, ranks_.size(), 4096, [&](std::size_t first, std::size_t last) {
                for (std::size_t e = first; e < last; ++e)
                    ranks_[e] = rank_of(graph.id_of(read_.neighbors[e]), key, weight);
            });
            if (most != all_neighbors) {
                std::ranges::copy_if(ranks_, std::back_inserter(best_), [&](const rank& r) { return r <= last_; });
                cut_best(most);
            }
            for (std::size_t t = begin; t < end; ++t)
                for (std::size_t e = read_.offsets[t - begin]; e < read_.offsets[t - begin + 1]; ++e)
                    if (ranks_[e] <= last_)
                        kept_.push_back({ranks_[e], static_cast<std::uint32_t>(t), read_.neighbors[e],
                            options_.relations ? read_.relations[e] : relation_id{0},
                            options_.edge_ids ? read_.edge_ids[e] : edge_index{0}});
            if (kept_.size() > crowded) {
                drop_beyond();
                crowded = 2 * (kept_.size() + read_at_once);
            }
        }
        drop_beyond();
    }
    /// Returns the rank of a node. Without weights the draws are equally distributed; else each node waits for an
    /// exponential time with its weight as rate, as in `detail::draw_weighted`.
    template <class Weight>
    [[nodiscard]] static rank rank_of(std::uint64_t id, random_key key, const Weight& weight) {
        const double draw = to_unit(key.with(id)[0]);
        if constexpr (std::same_as<Weight, equal_weights>) {
            return {draw, id};
        } else {
            const auto w = static_cast<double>(weight(id));
            if (!(w >= 0) || std::isinf(w))
                throw error(
                    errc::not_finite, "the weight of node " + std::to_string(id) + " is negative or not finite");
            return {w == 0 ? std::numeric_limits<double>::infinity() : -std::log(draw + 0x1p-54) / w, id};
        }
    }
    /// Keeps the first `most` distinct ranks, and sets the last one that still counts. O(n log n).
    void cut_best(std::size_t most) {
        std::ranges::sort(best_);
        const auto repeated = std::ranges::unique(best_);
        best_.erase(repeated.begin(), repeated.end());
        if (best_.size() < most) return;
        best_.resize(most);
        last_ = best_.back();
    }
    void drop_beyond() {
        std::erase_if(kept_, [&](const candidate& c) { return !(c.of <= last_); });
    }

    /// Writes the edges of the hop, and numbers their neighbors. O(edges).
    template <executor E>
    void end_hop(const E& executor) {
        detail::hop_edges<NodeId>& to = sample_.next_hop();
        to.offsets.assign(sample_.nodes().size() + 1, 0);
        for (const candidate& c : kept_) ++to.offsets[c.target + std::size_t{1}];
        std::partial_sum(to.offsets.begin(), to.offsets.end(), to.offsets.begin());
        to.neighbors.resize(kept_.size());
        to.relations.resize(options_.relations ? kept_.size() : 0);
        to.edge_ids.resize(options_.edge_ids ? kept_.size() : 0);
        to.numbers.resize(kept_.size());
        for (std::size_t e = 0; e < kept_.size(); ++e) {
            to.neighbors[e] = kept_[e].neighbor;
            if (options_.relations) to.relations[e] = kept_[e].relation;
            if (options_.edge_ids) to.edge_ids[e] = kept_[e].id;
        }
        sample_.numbering().number(to.neighbors, std::span(to.numbers), executor);
        sample_.end_hop();
    }

    neighbor_options options_;
    std::uint64_t seed_;
    detail::layered_arrays<NodeId> sample_;
    detail::hop_drawer<NodeId> drawer_;
    detail::hop_edges<NodeId> read_; // lists of some targets
    detail::excluded_positions<NodeId> excluded_;
    std::vector<std::uint32_t> degrees_; // [targets]
    std::vector<rank> ranks_, best_;     // [edges read]; [fan-out]
    std::vector<candidate> kept_;
    rank last_{}; // of the neighbors that the hop has
};

} // namespace gneiss
