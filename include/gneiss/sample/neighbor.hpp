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
#include <gneiss/sample/detail/node_numbering.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// A layered neighbor sample: spans into a mini-batch.
///
/// Nodes are numbered once for all hops, the seeds first and then as they appear. Hop h leads from the first
/// node_counts[h] nodes, its targets, to nodes among the first node_counts[h + 1]. Its offsets begin at
/// Σ_{g<h} (node_counts[g] + 1), from 0; its edges at edge_counts[h].
template <node_id_type NodeId = node_id>
struct neighbor_sample {
    batch_key key{};
    std::span<const NodeId> nodes;              ///< [U] distinct ids
    std::span<const std::uint32_t> node_counts; ///< [hops + 1], from the number of seeds to U
    std::span<const std::uint32_t> edge_counts; ///< [hops + 1] sums, from 0
    std::span<const std::uint32_t> offsets;     ///< [Σ (targets + 1)]
    std::span<const std::uint32_t> neighbors;  ///< [edges] numbers of nodes
    std::span<const relation_id> relations;     ///< [edges], or empty
    std::span<const edge_index> edge_ids;       ///< [edges], or empty

    [[nodiscard]] std::size_t hops() const noexcept { return node_counts.size() - 1; }
    [[nodiscard]] std::size_t seeds() const noexcept { return node_counts.front(); }
    [[nodiscard]] std::size_t edges() const noexcept { return neighbors.size(); }

    [[nodiscard]] std::size_t layers() const noexcept { return hops(); }
    /// What layer `i`, from 0, reads: the hop furthest from the seeds comes first. Views of the sample, O(hops).
    [[nodiscard]] layer_view layer(
        std::size_t i, std::vector<std::uint32_t>& /*offsets*/, std::vector<std::uint32_t>& /*neighbors*/) const noexcept {
        const std::size_t hop = hops() - 1 - i, first = edge_counts[hop], count = edge_counts[hop + 1] - first;
        std::size_t begin = 0;
        for (std::size_t h = 0; h < hop; ++h) begin += node_counts[h] + std::size_t{1};
        return {.targets = node_counts[hop],
            .sources = node_counts[hop + 1],
            .offsets = offsets.subspan(begin, node_counts[hop] + std::size_t{1}),
            .neighbors = neighbors.subspan(first, count),
            .relations = relations.empty() ? relations : relations.subspan(first, count)};
    }

    /// Throws errc::invalid_argument unless the arrays have the sizes of a sample. O(hops): `layer_stack::assign` looks at the rest.
    void check() const {
        bool holds = !node_counts.empty() && edge_counts.size() == node_counts.size() && std::ranges::is_sorted(node_counts) &&
                     node_counts.back() == nodes.size() && std::ranges::is_sorted(edge_counts) && edge_counts.front() == 0 &&
                     edge_counts.back() == neighbors.size() && (relations.empty() || relations.size() == neighbors.size()) &&
                     (edge_ids.empty() || edge_ids.size() == neighbors.size());
        std::size_t sum = 0;
        for (std::size_t h = 0; holds && h < hops(); ++h) sum += node_counts[h] + std::size_t{1};
        holds = holds && offsets.size() == sum;
        if (!holds) throw error(errc::invalid_argument, "the arrays of " + to_string(key) + " are no sample of a neighbor sampler: their sizes differ");
    }

    /// The sample that `neighbor_sampler`, or who writes such arrays, wrote into a mini-batch. Valid while its bytes are. Throws
    /// as `check`, and what `mini_batch::get` throws.
    [[nodiscard]] static neighbor_sample of(const mini_batch& batch) {
        const neighbor_sample result{batch.key(), batch.get<NodeId>("sample_nodes"), batch.get<std::uint32_t>("node_counts"),
            batch.get<std::uint32_t>("edge_counts"), batch.get<std::uint32_t>("offsets"),
            batch.get<std::uint32_t>("neighbours"), batch.get<relation_id>("edge_relations"),
            batch.get<edge_index>("edge_ids")};
        result.check();
        return result;
    }
};

/// Samples neighbors hop by hop; at each hop every node known so far draws again (the semantics of DGL and GraphBolt,
/// as GraphSAGE describes it).
///
/// A sample is a pure function of (seed, batch key, seeds, graph, options): executors do not change a bit of it. Every
/// set of `fanout` of a node's edges is equally likely, independently of all other nodes and hops; nodes with no more
/// edges than the fan-out give all. Repeated edges count separately.
/// Cost: O(sampled edges) time, scratch and arena; weighted O(degrees of the nodes on the way). Scratch is kept: one
/// sampler per thread; the executor works inside a batch.
/// Source: Hamilton, Ying, Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017, Algorithm 2.
template <node_id_type NodeId = node_id>
class neighbor_sampler {
public:
    /// Throws `invalid_argument` for a fan-out without hops or that cannot be used.
    neighbor_sampler(neighbor_options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
        hops_.resize(options_.fanout.size());
        numbers_.resize(options_.fanout.size());
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }

    /// Makes the sample in `arena`, alone. Valid until the arena is used again.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    neighbor_sample<NodeId> sample(const batch_key& batch, const G& graph, std::span<const NodeId> seeds, const E& executor,
        mini_batch_arena& arena, std::span<const excluded_edge<NodeId>> excluded = {}, const Weight& weight = {}) {
        draw(batch, graph, seeds, executor, excluded, weight);
        mini_batch result = mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes_needed()), batch);
        return write(result);
    }

    /// Draws a sample and keeps it for `write`.
    /// \param seeds   distinct nodes, in any order; may be empty
    /// \param hidden  edges that are not walked; the graph must tell edge ids
    /// \param weight  weight(edge id), at least 0 and finite, draws in proportion to it; needs edge ids
    ///
    /// Throws `invalid_argument` for a seed that is given twice, `out_of_range` for one beyond the graph, or for a hop of 2³¹
    /// edges.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    void draw(const batch_key& batch, const G& graph, std::span<const NodeId> seeds, const E& executor,
        std::span<const excluded_edge<NodeId>> excluded = {}, const Weight& weight = {}) {
        detail::number_seeds(numbering_, graph, seeds);
        node_counts_.assign(1, static_cast<std::uint32_t>(seeds.size()));
        const random_key key = detail::neighbor_key(seed_, batch);
        for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
            detail::hop_edges<NodeId>& edges = hops_[hop];
            const neighbor_direction direction = options_.fanout[hop].direction();
            if (hop == 0 || direction != options_.fanout[hop - 1].direction()) excluded_.find(graph, excluded, direction);
            sampler_.sample(graph, numbering_.nodes(), options_.fanout[hop], key.with(hop), options_, excluded_, weight, executor, edges);
            numbers_[hop].resize(edges.neighbors.size());
            numbering_.number(std::span<const NodeId>(edges.neighbors), std::span(numbers_[hop]), executor);
            node_counts_.push_back(static_cast<std::uint32_t>(numbering_.nodes().size()));
        }
    }

    /// What `write` adds to a mini-batch [bytes].
    [[nodiscard]] std::size_t bytes_needed() const noexcept {
        std::size_t offsets = 0, edges = 0;
        for (const auto& hop : hops_) {
            offsets += hop.offsets.size();
            edges += hop.neighbors.size();
        }
        const auto bytes = [](std::size_t count, std::size_t width) { return mini_batch::array_bytes(count, width); };
        return bytes(numbering_.nodes().size(), sizeof(NodeId)) + 2 * bytes(node_counts_.size(), 4) + bytes(offsets, 4) +
               bytes(edges, 4) + bytes(options_.relations ? edges : 0, sizeof(relation_id)) +
               bytes(options_.edge_ids ? edges : 0, sizeof(edge_index));
    }

    /// Adds the drawn sample's arrays to a mini-batch: sample_nodes, node_counts, edge_counts, offsets, neighbors,
    /// edge_relations, edge_ids. Throws `out_of_range` where they do not fit.
    neighbor_sample<NodeId> write(mini_batch& to) const {
        std::vector<std::uint32_t> edge_counts{0};
        std::size_t offsets = 0, edges = 0;
        for (const auto& hop : hops_) {
            offsets += hop.offsets.size();
            edges += hop.neighbors.size();
            if (edges >> 32 != 0) throw error(errc::out_of_range, "a sample has 2^32 edges or more");
            edge_counts.push_back(static_cast<std::uint32_t>(edges));
        }
        std::ranges::copy(numbering_.nodes(), to.add<NodeId>("sample_nodes", numbering_.nodes().size()).begin());
        std::ranges::copy(node_counts_, to.add<std::uint32_t>("node_counts", node_counts_.size()).begin());
        std::ranges::copy(edge_counts, to.add<std::uint32_t>("edge_counts", edge_counts.size()).begin());
        auto offsets_at = to.add<std::uint32_t>("offsets", offsets).begin();
        auto neighbors_at = to.add<std::uint32_t>("neighbours", edges).begin();
        auto relations_at = to.add<relation_id>("edge_relations", options_.relations ? edges : 0).begin();
        auto ids_at = to.add<edge_index>("edge_ids", options_.edge_ids ? edges : 0).begin();
        for (std::size_t h = 0; h < hops_.size(); ++h) {
            offsets_at = std::ranges::copy(hops_[h].offsets, offsets_at).out;
            neighbors_at = std::ranges::copy(numbers_[h], neighbors_at).out;
            relations_at = std::ranges::copy(hops_[h].relations, relations_at).out;
            ids_at = std::ranges::copy(hops_[h].edge_ids, ids_at).out;
        }
        return neighbor_sample<NodeId>::of(to);
    }

private:
    neighbor_options options_;
    std::uint64_t seed_;
    detail::node_numbering<NodeId> numbering_;
    detail::hop_sampler<NodeId> sampler_;
    detail::excluded_positions<NodeId> excluded_;
    std::vector<detail::hop_edges<NodeId>> hops_;
    std::vector<std::vector<std::uint32_t>> numbers_; // of each hop's neighbors
    std::vector<std::uint32_t> node_counts_;
};

} // namespace gneiss
