// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/hops.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/cuda/sample/transpose.cuh>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss::cuda {

/// `gneiss::neighbor_sampler` on a device: the same sample, bit for bit, for the same seed, batch key, seed nodes,
/// graph and options, in device memory as the layers of a model. Of a graph with weights it is the same up to the last
/// bit of the device's logarithm, which can exchange two draws of nearly equal times.
///
///     device_graph<> graph(budget, host_graph, stream);
///     node_numbers numbers(budget, graph.view().nodes);
///     neighbor_sampler<> sampler(budget, numbers, graph.view(), options, seed, {.seeds = 1024});
///     for (…) {
///         sampler.sample(stream, key, seeds);                  // the host does not wait
///         const auto edges = gathered(incoming(sampler.layer(0)), sampler.nodes());
///         aggregate<float>(stream, edges, edge_weight::mean, features, rows);
///     }
///     const sample_sizes sizes = sampler.synchronize(stream);         // or throws what went wrong
///
/// A recorded graph contains set-up kernels, drawing, numbering and layers, and takes its key and seeds from device
/// memory:
///
///     const graph step = graph::record(stream, [&] { sampler.run(stream); … });
///     for (…) { sampler.set(stream, key, seeds); step.launch(stream); }
///
/// All arrays have room for the worst case that fan-outs, graph and `sample_capacity` allow; their counts are in device
/// memory. A batch that does not fit, or with invalid seeds, yields empty layers and is reported by the next
/// synchronize(). If the graph has weights, neighbors are drawn in proportion to them, as by `weighted`; without
/// replacement only. One sampler serves one stream. Nothing is allocated after the constructor.
/// Memory: 8 bytes per edge of room, 4 or 8 more for its relation and its id, 8 for
/// lists by source; for the largest hop another 4, or with lists by source 21. Kernels: 6, 2 for excluded edges, 8 or 9
/// per hop, and 6 to 16 per layer for lists by source; time: see `detail::hop_kernels` and `layer_transposer`.
template <node_id_type NodeId = node_id>
class neighbor_sampler {
public:
    /// \param wanted  layers that get lists by source
    ///
    /// Copies no graph: it and `numbers` must outlive the sampler. Throws `over_budget`, `device_error`;
    /// `invalid_argument` for invalid fan-outs, for data that the graph or `numbers` do not have, or for weights with
    /// replacement; `out_of_range` for a hop that may draw 2³¹ edges.
    neighbor_sampler(memory_budget& budget, node_numbers& numbers, const graph_view<NodeId>& graph,
        neighbor_options options, std::uint64_t seed, const sample_capacity& capacity,
        source_lists wanted = source_lists::all)
        : neighbor_sampler(
              budget, numbers, graph, std::move(options), seed, capacity, wanted, detail::draws::every_hop) {}

    [[nodiscard]] const neighbor_options& options() const noexcept { return hops_.options(); }
    /// Draws the next samples from another graph of the same nodes, with at most as many edges: that of another state.
    /// Throws `invalid_argument` for one that does not fit.
    void use(const graph_view<NodeId>& graph) { hops_.use(graph); }

    /// Calls set() and run().
    void sample(stream& in, const batch_key& batch, std::span<const NodeId> seeds,
        std::span<const excluded_edge<NodeId>> excluded = {}) {
        set(in, batch, seeds, excluded);
        run(in);
    }
    /// Sets the batch of the next run(), and its excluded edges, which need room in `sample_capacity` and edge ids in
    /// the graph. Copies seeds and edges before it returns; waits while those of the last batch are in transit to the
    /// device.
    void set(stream& in, const batch_key& batch, std::span<const NodeId> seeds,
        std::span<const excluded_edge<NodeId>> excluded = {}) {
        hops_.set(in, batch, seeds, excluded);
    }

    /// Samples. Can be recorded.
    void run(cudaStream_t in) {
        hops_.draw(in);
        hops_.count(in, counts_.data());
        for (std::size_t h = 0; h < by_source_.size(); ++h)
            (*transpose_)(in, layer(hops_.hops() - 1 - h), by_source_[h].offsets.data(), by_source_[h].edges.data());
    }

    /// Waits for the stream and returns the sizes of the last batch. Throws `sample_error` for the first batch that
    /// failed since the last call.
    [[nodiscard]] sample_sizes synchronize(stream& in) { return hops_.synchronize(in); }

    /// Returns sizes of all layers, in device memory.
    [[nodiscard]] const layer_counts* counts() const noexcept { return counts_.data(); }
    /// Returns the first failure since the last synchronize(), in device memory: for a host that reads it later.
    [[nodiscard]] const detail::failed_batch* failure() const noexcept { return hops_.failure(); }
    /// Throws `sample_error` for such a failure.
    void check(const detail::failed_batch& failed) const { hops_.check(failed); }
    /// Precondition: the host has waited for work that came after the last batch.
    void passed() noexcept { hops_.passed(); }

    /// Returns the number of layers.
    [[nodiscard]] std::size_t layers() const noexcept { return hops_.hops(); }
    /// Returns the input of layer `i`, from 0: the hop farthest from the seeds comes first.
    [[nodiscard]] layer_view layer(std::size_t i) const noexcept {
        const std::size_t h = hops_.hops() - 1 - i;
        const auto& lists = hops_.lists(h);
        layer_view view{counts_.data() + i, hops_.room()[h].targets, hops_.room()[h + 1].known, hops_.room()[h].edges,
            lists.offsets.data(), lists.numbers.data()};
        if (h >= by_source_.size()) return view;
        view.by_source_offsets = by_source_[h].offsets.data();
        view.by_source_edges = by_source_[h].edges.data();
        view.edge_target = lists.targets.data();
        return view;
    }
    /// Returns [edges] of the layer, null unless requested.
    [[nodiscard]] const relation_id* relations(std::size_t i) const noexcept {
        return hops_.lists(hops_.hops() - 1 - i).relations.data();
    }
    /// Returns [edges] of the layer, null unless requested.
    [[nodiscard]] const edge_index* edge_ids(std::size_t i) const noexcept {
        return hops_.lists(hops_.hops() - 1 - i).edge_ids.data();
    }

    /// Returns ids of the sample's nodes by number, seeds first: the rows that layer 0 reads. *node_count() of at most
    /// node_capacity().
    [[nodiscard]] const NodeId* nodes() const noexcept { return hops_.nodes(); }
    /// Returns the address of the number of nodes, in device memory.
    [[nodiscard]] const std::uint32_t* node_count() const noexcept { return &counts_.data()->sources; }
    /// Returns the maximum number of nodes.
    [[nodiscard]] std::uint32_t node_capacity() const noexcept { return hops_.room().back().known; }

protected:
    neighbor_sampler(memory_budget& budget, node_numbers& numbers, const graph_view<NodeId>& graph,
        neighbor_options options, std::uint64_t seed, const sample_capacity& capacity, source_lists wanted,
        detail::draws settings)
        : hops_(budget, numbers, graph, std::move(options), seed, capacity, settings, wanted != source_lists::none),
          counts_(budget, "counts of layers", hops_.hops()) {
        const std::size_t listed = wanted == source_lists::none ? 0 : hops_.hops() - (wanted == source_lists::between);
        if (listed == 0) return;
        std::uint32_t most = 0;
        for (std::size_t h = 0; h < listed; ++h) { // the last hop's layer is the first
            most = std::max(most, hops_.room()[h].edges);
            by_source_.push_back({{budget, "offsets by source", hops_.room()[h + 1].known + std::size_t{1}},
                {budget, "edges by source", hops_.room()[h].edges}});
        }
        transpose_.emplace(budget, most);
    }

private:
    struct lists_by_source {
        device_buffer<std::uint32_t> offsets, edges;
    };

    detail::hop_kernels<NodeId> hops_;
    device_buffer<layer_counts> counts_;     ///< [layers]
    std::vector<lists_by_source> by_source_; ///< of the first hops
    std::optional<layer_transposer> transpose_;
};

} // namespace gneiss::cuda
