// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/hops.cuh>
#include <gneiss/cuda/sample/detail/stack.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/cuda/sample/transpose.cuh>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss::cuda {

/// `gneiss::dense_sample` in device memory: arrays with room for a sampler's capacity. Members without comments are as
/// there.
template <node_id_type NodeId = node_id>
struct dense_view {
    const std::uint32_t* node_id_offsets =
        nullptr;                      ///< [hops + 2], all 0 if the batch failed; the last is the number of nodes
    const NodeId* node_ids = nullptr; ///< as in `gneiss::dense_sample`
    const std::uint32_t* nbr_offsets = nullptr;         ///< as in `gneiss::dense_sample`
    const NodeId* nbrs = nullptr;                       ///< as in `gneiss::dense_sample`
    const std::uint32_t* repr_map = nullptr;            ///< as in `gneiss::dense_sample`
    const relation_id* relations = nullptr;             ///< or null
    const edge_index* edge_ids = nullptr;               ///< or null
    std::uint32_t node_capacity = 0, edge_capacity = 0; ///< maximum nodes and edges of a sample
};

/// `gneiss::dense_sampler` on a device: the same sample, bit for bit, for the same seed, batch key, seed nodes, graph
/// and options, in device memory with the layers that read it. With weights: as `neighbor_sampler`.
///
///     dense_sampler<> sampler(budget, numbers, graph.view(), options, seed, {.seeds = 1024});
///     sampler.sample(stream, key, seeds);                      // the host does not wait
///     const auto edges = gathered(incoming(sampler.layer(0)), sampler.view().node_ids);
///     aggregate<float>(stream, edges, edge_weight::mean, features, rows);
///
/// Used and recorded like `neighbor_sampler`, with its bounds and errors. Memory: 12 bytes
/// per edge of room and 4 for each layer that reads it; for lists by source 21 more, and 8 for each layer.
/// Kernels: 10, 2 for excluded edges, 8 or 9 per hop, and 6 to 16 per layer for lists by source.
/// Source: MariusGNN, section 4, Algorithms 1 and 2.
template <node_id_type NodeId = node_id>
class dense_sampler {
public:
    /// Parameters and errors as of `neighbor_sampler`; all hops together have fewer than 2³¹ edges.
    dense_sampler(memory_budget& budget, node_numbers& numbers, const graph_view<NodeId>& graph,
        neighbor_options options, std::uint64_t seed, const sample_capacity& capacity,
        source_lists wanted = source_lists::all)
        : hops_(budget, numbers, graph, std::move(options), seed, capacity, detail::draws::once,
              wanted != source_lists::none),
          counts_(budget, "counts of layers", hops_.hops()),
          node_id_offsets_(budget, "deltas", hops_.hops() + 2),
          node_ids_(budget, "nodes of a sample", hops_.room().back().known),
          drawn_(budget, "table of hops", hops_.hops()),
          stacked_(budget, "table of layers", hops_.hops()) {
        first_listed_ = wanted == source_lists::none ? layers() : wanted == source_lists::between ? 1 : 0;
        std::vector<detail::drawn_hop<NodeId>> drawn;
        std::vector<detail::stacked_layer> stacked;
        for (std::size_t i = 0; i < layers(); ++i) {
            const auto& lists = hops_.lists(i);
            drawn.push_back({lists.offsets.data(), lists.numbers.data(), lists.targets.data(), lists.ids.data(),
                lists.relations.data(), lists.edge_ids.data()});
            std::uint64_t edges = 0;
            for (std::size_t h = 0; h + i < layers(); ++h) edges += hops_.room()[h].edges;
            if (edges >= gneiss::detail::too_many_edges)
                throw error(errc::out_of_range, "a sample may draw " + std::to_string(edges) + " edges: bound them");
            const layer_room room = room_of(i);
            const bool both = i >= first_listed_;
            lists_.push_back(
                {static_cast<std::uint32_t>(edges), {budget, "offsets of a layer", room.targets + std::size_t{1}},
                    {budget, "neighbors of a layer", edges}, {budget, "targets of edges", both ? edges : 0},
                    {budget, "offsets by source", both ? room.sources + std::size_t{1} : 0},
                    {budget, "edges by source", both ? edges : 0}});
            stacked.push_back({lists_[i].offsets.data(), lists_[i].neighbors.data(), lists_[i].edge_target.data()});
        }
        const std::uint32_t edges = lists_[0].edges;
        nbrs_ = device_buffer<NodeId>(budget, "neighbors of a sample", edges);
        relations_ = device_buffer<relation_id>(budget, "relations of a sample", this->options().relations ? edges : 0);
        edge_ids_ = device_buffer<edge_index>(budget, "edge ids of a sample", this->options().edge_ids ? edges : 0);
        if (first_listed_ < layers()) transpose_.emplace(budget, lists_[first_listed_].edges);
        copy_async(drawn_.span(), std::span<const detail::drawn_hop<NodeId>>(drawn), nullptr);
        copy_async(stacked_.span(), std::span<const detail::stacked_layer>(stacked), nullptr);
        synchronize_device();
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return hops_.options(); }
    /// Draws the next samples from another graph of the same nodes, with at most as many edges: that of another state.
    /// Throws `invalid_argument` for one that does not fit.
    void use(const graph_view<NodeId>& graph) { hops_.use(graph); }

    /// As of `neighbor_sampler`.
    void sample(stream& in, const batch_key& batch, std::span<const NodeId> seeds,
        std::span<const excluded_edge<NodeId>> excluded = {}) {
        set(in, batch, seeds, excluded);
        run(in);
    }
    /// Sets the batch, its seed nodes and excluded edges, in stream order.
    void set(stream& in, const batch_key& batch, std::span<const NodeId> seeds,
        std::span<const excluded_edge<NodeId>> excluded = {}) {
        hops_.set(in, batch, seeds, excluded);
    }
    /// Waits for the stream and returns the sizes of the sample. Throws `sample_error`.
    [[nodiscard]] sample_sizes synchronize(stream& in) { return hops_.synchronize(in); }

    /// Returns sizes of all layers, in device memory.
    [[nodiscard]] const layer_counts* counts() const noexcept { return counts_.data(); }
    /// Returns the first failure since the last synchronize(), in device memory: for a host that reads it later.
    [[nodiscard]] const detail::failed_batch* failure() const noexcept { return hops_.failure(); }
    /// Throws `sample_error` for such a failure.
    void check(const detail::failed_batch& failed) const { hops_.check(failed); }
    /// Precondition: the host has waited for work that came after the last batch.
    void passed() noexcept { hops_.passed(); }

    /// Samples. Can be recorded.
    void run(cudaStream_t in) {
        constexpr unsigned threads = 256;
        const auto count = static_cast<std::uint32_t>(layers());
        const detail::stacking of{hops_.states(), count};
        std::uint32_t most_targets = 0, most_edges = 0;
        for (const detail::hop_room& room : hops_.room()) {
            most_targets = std::max(most_targets, room.targets);
            most_edges = std::max(most_edges, room.edges);
        }
        const auto of_hops = [&](std::size_t items) {
            const dim3 of_one = detail::strided_grid(items, threads);
            return dim3(of_one.x, count, 1);
        };
        hops_.draw(in);
        hops_.count(in, counts_.data());
        launch(in, detail::begin_deltas<threads>, 1, threads, 0, hops_.state(), of, stacked_.data(),
            node_id_offsets_.data());
        launch(in, detail::stack_nodes<threads, NodeId>, detail::strided_grid(node_ids_.size(), threads), threads, 0,
            hops_.state(), of, hops_.nodes(), node_ids_.data());
        launch(in, detail::stack_offsets<threads, NodeId>, of_hops(most_targets), threads, 0, hops_.state(), of,
            drawn_.data(), stacked_.data());
        launch(in, detail::stack_edges<threads, NodeId>, of_hops(most_edges), threads, 0, hops_.state(), of,
            drawn_.data(), stacked_.data(),
            detail::stacked_sample<NodeId>{nbrs_.data(), relations_.data(), edge_ids_.data()});
        for (std::size_t i = first_listed_; i < layers(); ++i)
            (*transpose_)(in, layer(i), lists_[i].by_source_offsets.data(), lists_[i].by_source_edges.data());
    }

    /// Returns the number of layers.
    [[nodiscard]] std::size_t layers() const noexcept { return hops_.hops(); }
    /// Returns the input of layer `i`, from 0: the rows of Δ_i, Δ_{i+1}, …, to those of Δ_{i+1}, ….
    [[nodiscard]] layer_view layer(std::size_t i) const noexcept {
        const layer_lists& of = lists_[i];
        const layer_room room = room_of(i);
        return {counts_.data() + i, room.targets, room.sources, of.edges, of.offsets.data(), of.neighbors.data(),
            of.by_source_offsets.data(), of.by_source_edges.data(), of.edge_target.data()};
    }
    /// Returns the arrays of the sample.
    [[nodiscard]] dense_view<NodeId> view() const noexcept {
        return {node_id_offsets_.data(), node_ids_.data(), lists_[0].offsets.data(), nbrs_.data(),
            lists_[0].neighbors.data(), relations_.data(), edge_ids_.data(), hops_.room().back().known,
            lists_[0].edges};
    }
    /// Returns the number of nodes of the sample, in device memory.
    [[nodiscard]] const std::uint32_t* node_count() const noexcept { return &counts_.data()->sources; }

private:
    struct layer_lists {
        std::uint32_t edges;
        device_buffer<std::uint32_t> offsets, neighbors, edge_target, by_source_offsets, by_source_edges;
    };
    struct layer_room {
        std::uint32_t targets, sources;
    };
    [[nodiscard]] layer_room room_of(std::size_t layer) const noexcept {
        return {hops_.room()[layers() - 1 - layer].known, hops_.room()[layers() - layer].known};
    }

    detail::hop_kernels<NodeId> hops_;
    device_buffer<layer_counts> counts_; ///< [layers]
    device_buffer<std::uint32_t> node_id_offsets_;
    device_buffer<NodeId> node_ids_, nbrs_;
    device_buffer<relation_id> relations_;
    device_buffer<edge_index> edge_ids_;
    std::vector<layer_lists> lists_; ///< per layer
    device_buffer<detail::drawn_hop<NodeId>> drawn_;
    device_buffer<detail::stacked_layer> stacked_;
    std::size_t first_listed_ = 0; ///< layer with lists by source
    std::optional<layer_transposer> transpose_;
};

} // namespace gneiss::cuda
