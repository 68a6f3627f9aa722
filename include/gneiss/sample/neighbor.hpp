// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/hop.hpp>
#include <gneiss/sample/detail/layered_arrays.hpp>
#include <gneiss/sample/detail/sample_writer.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Layered neighbor sample: spans into a mini-batch.
///
/// Nodes are numbered once for all hops, the seeds first, then in order of appearance. Hop h leads from the first
/// node_counts[h] nodes, its targets, to nodes among the first node_counts[h + 1]. Its offsets begin at Σ_{g<h}
/// (node_counts[g] + 1), from 0; its edges at edge_counts[h].
template <node_id_type NodeId = node_id>
struct neighbor_sample {
    batch_key key{};                            ///< batch that the sample belongs to
    std::span<const NodeId> nodes;              ///< [U] distinct ids
    std::span<const std::uint32_t> node_counts; ///< [hops + 1], from the number of seeds to U
    std::span<const std::uint32_t> edge_counts; ///< [hops + 1] prefix sums, from 0
    std::span<const std::uint32_t> offsets;     ///< [Σ (targets + 1)]
    std::span<const std::uint32_t> neighbors;   ///< [edges] node numbers
    std::span<const relation_id> relations;     ///< [edges], or empty
    std::span<const edge_index> edge_ids;       ///< [edges], or empty

    /// Returns the number of hops.
    [[nodiscard]] std::size_t hops() const noexcept { return node_counts.size() - 1; }
    /// Returns the number of seeds.
    [[nodiscard]] std::size_t seeds() const noexcept { return node_counts.front(); }
    /// Returns the number of sampled edges.
    [[nodiscard]] std::size_t edges() const noexcept { return neighbors.size(); }

    /// Returns the number of layers, one per hop.
    [[nodiscard]] std::size_t layers() const noexcept { return hops(); }
    /// Input of layer `i`, from 0: the hop furthest from the seeds comes first. Views of the sample, O(hops).
    [[nodiscard]] layer_view layer(std::size_t i, std::vector<std::uint32_t>& /*offsets*/,
        std::vector<std::uint32_t>& /*neighbors*/) const noexcept {
        const std::size_t hop = hops() - 1 - i, first = edge_counts[hop], count = edge_counts[hop + 1] - first;
        std::size_t begin = 0;
        for (std::size_t h = 0; h < hop; ++h) begin += node_counts[h] + std::size_t{1};
        return {.targets = node_counts[hop],
            .sources = node_counts[hop + 1],
            .offsets = offsets.subspan(begin, node_counts[hop] + std::size_t{1}),
            .neighbors = neighbors.subspan(first, count),
            .relations = relations.empty() ? relations : relations.subspan(first, count)};
    }

    /// Throws errc::invalid_argument unless the array sizes are those of a sample. O(hops); `layer_stack::assign`
    /// checks the contents.
    void check() const {
        bool holds = !node_counts.empty() && edge_counts.size() == node_counts.size() &&
            std::ranges::is_sorted(node_counts) && node_counts.back() == nodes.size() &&
            std::ranges::is_sorted(edge_counts) && edge_counts.front() == 0 && edge_counts.back() == neighbors.size() &&
            (relations.empty() || relations.size() == neighbors.size()) &&
            (edge_ids.empty() || edge_ids.size() == neighbors.size());
        std::size_t sum = 0;
        for (std::size_t h = 0; holds && h < hops(); ++h) sum += node_counts[h] + std::size_t{1};
        holds = holds && offsets.size() == sum;
        if (!holds)
            throw error(errc::invalid_argument,
                "the arrays of " + to_string(key) + " are not a sample of a neighbor sampler: their sizes differ");
    }

    /// Returns the sample that `neighbor_sampler` or a `neighbor_sample_writer` wrote into a mini-batch. Valid while
    /// its bytes are. Throws as `check` and `mini_batch::get`.
    [[nodiscard]] static neighbor_sample of(const mini_batch& batch) {
        const neighbor_sample result{batch.key(), batch.get<NodeId>("sample_nodes"),
            batch.get<std::uint32_t>("node_counts"), batch.get<std::uint32_t>("edge_counts"),
            batch.get<std::uint32_t>("offsets"), batch.get<std::uint32_t>("neighbors"),
            batch.get<relation_id>("edge_relations"), batch.get<edge_index>("edge_ids")};
        result.check();
        return result;
    }
};

/// Builds a `neighbor_sample` from the choices of a user-defined sampler: numbers nodes, lays out the arrays, checks
/// shapes.
///
///     writer.begin(graph.nodes(), seeds);
///     for (std::size_t hop = 0; hop < 2; ++hop) {
///         …                                  // choose neighbors for each of writer.nodes(): all nodes so far
///         writer.add_hop(offsets, neighbors); // those of node i are neighbors[offsets[i] …)
///     }
///     return writer.write(key, arena);
///
/// Cost: O(edges) time. Memory is kept: use one writer per thread.
template <node_id_type NodeId = node_id>
class neighbor_sample_writer
    : public detail::sample_writer<NodeId, detail::layered_arrays<NodeId>, neighbor_sample<NodeId>> {};

/// Samples neighbors hop by hop; at each hop every node known so far draws again (the semantics of DGL and GraphBolt,
/// following GraphSAGE).
///
///     neighbor_sampler<> sampler({.fanout = parse_fanout("10,10")}, seed);
///     const neighbor_sample<> sample = sampler.sample(key, graph, seeds, executor, arena);
///
/// A sample is a pure function of (seed, batch key, seeds, graph, options), bit for bit on any executor. Every set of
/// `fanout` of a node's edges is equally likely, independently of all other nodes and hops; nodes with at most that
/// many edges contribute all of them. Repeated edges count separately.
/// Cost: O(sampled edges) time, scratch and arena; weighted O(degrees of the visited nodes). Scratch is kept: use one
/// sampler per thread; the executor works inside a batch.
/// Source: Hamilton, Ying, Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017, Algorithm 2.
///
/// From examples/29_sample.cpp:
/// \snippet 29_sample.cpp sample
template <node_id_type NodeId = node_id>
class neighbor_sampler {
public:
    /// Throws `invalid_argument` for a fan-out without hops or an invalid one.
    neighbor_sampler(neighbor_options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }

    /// Draws and writes a sample into `arena`, alone. Valid until the arena is used again.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    neighbor_sample<NodeId> sample(const batch_key& batch, const G& graph, std::span<const NodeId> seeds,
        const E& executor, mini_batch_arena& arena, std::span<const excluded_edge<NodeId>> excluded = {},
        const Weight& weight = {}) {
        draw(batch, graph, seeds, executor, excluded, weight);
        mini_batch result = mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes_needed()), batch);
        return write(result);
    }

    /// Draws a sample and keeps it for `write`.
    /// \param seeds     distinct nodes, in any order; may be empty
    /// \param excluded  edges that are not sampled; the graph must store edge ids
    /// \param weight    weight(edge id), at least 0 and finite; draws are proportional to it; needs edge ids
    ///
    /// Throws `invalid_argument` for a repeated seed, `out_of_range` for one beyond the graph or for a hop of 2³¹
    /// edges.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    void draw(const batch_key& batch, const G& graph, std::span<const NodeId> seeds, const E& executor,
        std::span<const excluded_edge<NodeId>> excluded = {}, const Weight& weight = {}) {
        sample_.begin(graph, seeds);
        const random_key key = detail::neighbor_key(seed_, batch);
        for (std::size_t hop = 0; hop < options_.fanout.size(); ++hop) {
            const neighbor_direction direction = options_.fanout[hop].direction();
            if (hop == 0 || direction != options_.fanout[hop - 1].direction())
                excluded_.find(graph, excluded, direction);
            sampler_.sample(graph, 0, options_.fanout[hop], key.with(hop), options_, excluded_, weight, executor,
                sample_.numbering(), sample_.next_hop());
            sample_.end_hop();
        }
    }

    /// Number of nodes of the drawn sample.
    [[nodiscard]] std::size_t nodes() const noexcept { return sample_.nodes().size(); }
    /// Number of bytes that `write` adds to a mini-batch.
    [[nodiscard]] std::size_t bytes_needed() const noexcept {
        return sample_.bytes_needed(options_.relations, options_.edge_ids);
    }

    /// Adds the drawn sample's arrays to a mini-batch. Throws `out_of_range` if they do not fit.
    neighbor_sample<NodeId> write(mini_batch& to) const {
        sample_.write(to, options_.relations, options_.edge_ids);
        return neighbor_sample<NodeId>::of(to);
    }

private:
    neighbor_options options_;
    std::uint64_t seed_;
    detail::layered_arrays<NodeId> sample_;
    detail::hop_sampler<NodeId> sampler_;
    detail::excluded_positions<NodeId> excluded_;
};

} // namespace gneiss
