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
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/dense_arrays.hpp>
#include <gneiss/sample/detail/hop.hpp>
#include <gneiss/sample/detail/sample_writer.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// DENSE, the delta encoding of neighborhood samples: spans into a mini-batch.
///
/// With k hops there are k + 1 deltas. Δ_k are the seeds; Δ_{i−1} are the nodes that first appear among the neighbors
/// sampled for Δ_i. They are stored newest first, from Δ₀ to the seeds; Δ₀ has no neighbors. The rows of H⁰ follow the
/// order of node_ids. The neighbors of node_ids[v], v ≥ node_id_offsets[1], are nbrs[nbr_offsets[v −
/// node_id_offsets[1]] …]. Both offset lists have one more element than in the paper, their end. Source: MariusGNN,
/// section 4.
template <node_id_type NodeId = node_id>
struct dense_sample {
    batch_key key{};                                ///< batch that the sample belongs to
    std::span<const std::uint32_t> node_id_offsets; ///< [k + 2] start of each delta, then the number of nodes
    std::span<const NodeId> node_ids;               ///< [U] distinct ids
    std::span<const std::uint32_t> nbr_offsets;     ///< [U − |Δ₀| + 1]
    std::span<const NodeId> nbrs;                   ///< [edges] ids
    std::span<const std::uint32_t> repr_map;        ///< [edges] row of each of nbrs in H⁰
    std::span<const relation_id> relations;         ///< [edges], or empty
    std::span<const edge_index> edge_ids;           ///< [edges], or empty

    /// Returns the number of hops.
    [[nodiscard]] std::size_t hops() const noexcept { return node_id_offsets.size() - 2; }
    /// Returns the number of seeds.
    [[nodiscard]] std::size_t seeds() const noexcept { return node_ids.size() - node_id_offsets[hops()]; }
    /// Returns the number of sampled edges.
    [[nodiscard]] std::size_t edges() const noexcept { return nbrs.size(); }

    /// Returns the number of layers, one per hop.
    [[nodiscard]] std::size_t layers() const noexcept { return hops(); }
    /// Input of layer `i`, from 0: the arrays after i advances (Algorithm 2), written to the two buffers if i > 0.
    /// Layer i maps the rows of Δ_i, Δ_{i+1}, … to those of Δ_{i+1}, …. O(layer).
    [[nodiscard]] layer_view layer(
        std::size_t i, std::vector<std::uint32_t>& offsets_buffer, std::vector<std::uint32_t>& neighbors_buffer) const {
        const std::uint32_t gone = node_id_offsets[i];
        const std::size_t first_node = node_id_offsets[i + 1] - node_id_offsets[1];
        const auto offsets = nbr_offsets.subspan(first_node);
        const std::uint32_t gone_edges = offsets.front();
        const auto rows = repr_map.subspan(gone_edges);
        layer_view result{.targets = offsets.size() - 1,
            .sources = node_ids.size() - gone,
            .offsets = offsets,
            .neighbors = rows,
            .first_target = node_id_offsets[i + 1] - gone,
            .relations = relations.empty() ? relations : relations.subspan(gone_edges)};
        if (i == 0) return result;
        const auto lower = [](std::span<const std::uint32_t> from, std::uint32_t by, std::vector<std::uint32_t>& to) {
            resize_discard(to, from.size());
            std::ranges::transform(from, to.begin(), [by](std::uint32_t value) { return value - by; });
            return std::span<const std::uint32_t>(to);
        };
        result.offsets = lower(offsets, gone_edges, offsets_buffer);
        result.neighbors = lower(rows, gone, neighbors_buffer);
        return result;
    }

    /// Throws errc::invalid_argument unless the array sizes are those of a sample. O(hops); `layer_stack::assign`
    /// checks the contents.
    void check() const {
        bool holds = node_id_offsets.size() >= 2 && node_id_offsets.front() == 0 &&
            std::ranges::is_sorted(node_id_offsets) && node_id_offsets.back() == node_ids.size() &&
            nbr_offsets.size() == node_ids.size() - node_id_offsets[1] + std::size_t{1} &&
            repr_map.size() == nbrs.size() && (relations.empty() || relations.size() == nbrs.size()) &&
            (edge_ids.empty() || edge_ids.size() == nbrs.size());
        for (std::size_t i = 0; holds && i < layers(); ++i)
            holds = nbr_offsets[node_id_offsets[i + 1] - node_id_offsets[1]] <= nbrs.size();
        if (!holds)
            throw error(errc::invalid_argument,
                "the arrays of " + to_string(key) + " are not a sample of a DENSE sampler: their sizes differ");
    }

    /// Returns the sample that `dense_sampler`, or another writer of these arrays, wrote into a mini-batch. Valid while
    /// its bytes are. Throws as `check` and `mini_batch::get`.
    [[nodiscard]] static dense_sample of(const mini_batch& batch) {
        const dense_sample result{batch.key(), batch.get<std::uint32_t>("node_id_offsets"),
            batch.get<NodeId>("node_ids"), batch.get<std::uint32_t>("nbr_offsets"), batch.get<NodeId>("nbrs"),
            batch.get<std::uint32_t>("repr_map"), batch.get<relation_id>("edge_relations"),
            batch.get<edge_index>("edge_ids")};
        result.check();
        return result;
    }
};

/// DENSE sampler: samples the neighbors of each node once per batch and reuses them in all layers (Algorithm 1).
///
///     dense_sampler<> sampler({.fanout = parse_fanout("10,10")}, seed);
///     const dense_sample<> sample = sampler.sample(key, graph, seeds, executor, arena);
///
/// A sample is a pure function of (seed, batch key, seeds, graph, options), bit for bit on any executor. A node's
/// neighbors are drawn with the fan-out of the first hop that needs them, each set equally likely, independently of
/// other nodes. Bias: within a batch the neighborhood is less random than in the layered sampler. A node reached at
/// several hops shows the same neighbors at each, so the outputs of its layers are correlated, and fewer distinct nodes
/// are seen. Batches are independent. Cost: O(sampled edges) time, scratch and arena; weighted O(degrees of the visited
/// nodes). Scratch is kept: use one sampler per thread; the executor works inside a batch.
///
/// From examples/29_sample.cpp:
/// \snippet 29_sample.cpp sample
template <node_id_type NodeId = node_id>
class dense_sampler {
public:
    /// Throws `invalid_argument` for a fan-out without hops or an invalid one.
    dense_sampler(neighbor_options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }

    /// Draws and writes a sample into `arena`, alone. Valid until the arena is used again.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    dense_sample<NodeId> sample(const batch_key& batch, const G& graph, std::span<const NodeId> seeds,
        const E& executor, mini_batch_arena& arena, std::span<const excluded_edge<NodeId>> excluded = {},
        const Weight& weight = {}) {
        draw(batch, graph, seeds, executor, excluded, weight);
        mini_batch result = mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes_needed()), batch);
        return write(result, executor);
    }

    /// Draws a sample and keeps it for `write`. Parameters and errors as in `neighbor_sampler::draw`.
    template <neighbor_source G, executor E, class Weight = equal_weights>
    void draw(const batch_key& batch, const G& graph, std::span<const NodeId> seeds, const E& executor,
        std::span<const excluded_edge<NodeId>> excluded = {}, const Weight& weight = {}) {
        sample_.begin(graph, seeds);
        const random_key key = detail::neighbor_key(seed_, batch);
        for (std::size_t hop = 0; hop < options_.fanout.size(); ++hop) {
            const neighbor_direction direction = options_.fanout[hop].direction();
            if (hop == 0 || direction != options_.fanout[hop - 1].direction())
                excluded_.find(graph, excluded, direction);
            sampler_.sample(graph, sample_.first_target(), options_.fanout[hop], key.with(hop), options_, excluded_,
                weight, executor, sample_.numbering(), sample_.next_hop());
            sample_.end_hop();
        }
    }

    /// Number of bytes that `write` adds to a mini-batch. Throws errc::invalid_argument if no sample was drawn.
    [[nodiscard]] std::size_t bytes_needed() const {
        check_drawn();
        return sample_.bytes_needed(options_.relations, options_.edge_ids);
    }

    /// Adds the drawn sample's arrays to a mini-batch, named like the members of `dense_sample`, with relations as
    /// edge_relations. Throws `out_of_range` if they do not fit, errc::invalid_argument if no sample was drawn.
    template <executor E>
    dense_sample<NodeId> write(mini_batch& to, const E& executor) const {
        check_drawn();
        sample_.write(to, options_.relations, options_.edge_ids, executor);
        return dense_sample<NodeId>::of(to);
    }

private:
    /// Throws unless `draw` ended well.
    void check_drawn() const {
        if (sample_.hops() != options_.fanout.size())
            throw error(errc::invalid_argument, "a DENSE sampler writes a sample before it drew one");
    }

    neighbor_options options_;
    std::uint64_t seed_;
    detail::dense_arrays<NodeId> sample_;
    detail::hop_sampler<NodeId> sampler_;
    detail::excluded_positions<NodeId> excluded_;
};

/// Builds a `dense_sample` from the choices of a user-defined sampler, as `neighbor_sample_writer` does a
/// `neighbor_sample`; but nodes() are those that appeared last, at first the seeds: each node lists its neighbors once.
template <node_id_type NodeId = node_id>
class dense_sample_writer : public detail::sample_writer<NodeId, detail::dense_arrays<NodeId>, dense_sample<NodeId>> {};

} // namespace gneiss
