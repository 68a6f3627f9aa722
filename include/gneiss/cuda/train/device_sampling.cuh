// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/dense.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/adjacency/resident_graph.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/device_setup.hpp>

namespace gneiss::cuda {

/// Samples of the batches in flight, each drawn into its slot on the device: bit-identical to the CPU's samples. The
/// host gets the node ids, whose rows it may have to gather.
///
/// Memory: the graph and 8 bytes per node of it once; per batch in flight a sampler with room for what fan-outs allow.
/// Thread-safety: different slots may be drawn by different threads.
class device_sampling {
public:
    /// Throws as the samplers do.
    device_sampling(memory_budget& budget, const device_sampling_setup& with)
        : budget_(budget),
          neighbors_(with.neighbors),
          dense_(with.dense),
          seed_(with.seed),
          seeds_(static_cast<std::uint32_t>(std::min<std::uint64_t>(with.seeds, with.graph.nodes()))),
          lists_(with.lists_of_inputs ? source_lists::all : source_lists::between),
          graph_(budget, with.graph, copies_),
          numbers_(budget, graph_.view().nodes) {
        copies_.synchronize();
    }

    /// Sets the number of batches in flight.
    void resize(std::size_t count) {
        while (slots_.size() > count) slots_.pop_back();
        while (slots_.size() < count) slots_.push_back(std::make_unique<slot>(*this));
    }

    /// Samples a batch into slot `number` and waits for it. Throws `sample_error`. The graph is the one copied before,
    /// of all nodes, whose lists those of `graph` are.
    [[nodiscard]] drawn_sample sample(
        const batch_key& key, std::size_t number, const resident_graph& /*graph*/, std::span<const node_id> seeds) {
        slot& s = *slots_.at(number);
        return std::visit(
            [&](auto& sampler) {
                {
                    const std::scoped_lock alone(numbering_);
                    s.in.wait(numbered_);
                    sampler.sample(s.in, key, seeds);
                    numbered_.record(s.in);
                }
                const sample_sizes sizes = sampler.synchronize(s.in);
                const std::size_t hops = sizes.edges.size(), count = sizes.nodes.back();
                std::uint64_t edges = 0;
                for (const std::uint32_t of_hop : sizes.edges) edges += of_hop;
                s.views.clear();
                for (std::size_t i = 0; i < hops; ++i) { // the batch's own capacities
                    const std::size_t hop = hops - 1 - i;
                    layer_view view = sampler.layer(i);
                    view.target_capacity = sizes.nodes[hop];
                    view.source_capacity = sizes.nodes[hop + 1];
                    view.edge_capacity = sizes.edges[hop];
                    if (dense_)
                        for (std::size_t h = 0; h < hop; ++h) view.edge_capacity += sizes.edges[h];
                    s.views.push_back(view);
                }
                if constexpr (requires { sampler.view(); })
                    s.names = sampler.view().node_ids;
                else
                    s.names = sampler.nodes();
                if (s.ids.size() < count) {
                    s.ids = {};
                    s.ids =
                        pinned_buffer<node_id>(budget_, "nodes of a sample", static_cast<std::size_t>(grown(count)));
                }
                copy_async(s.ids.span(), std::span(s.names, count), s.in);
                s.in.synchronize();
                return drawn_sample{.nodes = s.ids.span().first(count), .edges = edges};
            },
            s.sampler);
    }

    /// Returns the last sample in a slot: the layers in order of computation, and ids of the first one's sources.
    [[nodiscard]] std::span<const layer_view> views(std::size_t number) const { return slots_.at(number)->views; }
    /// Returns the ids of a slot's nodes, in device memory.
    [[nodiscard]] const node_id* names(std::size_t number) const { return slots_.at(number)->names; }

private:
    using any_sampler = std::variant<dense_sampler<>, neighbor_sampler<>>;
    struct slot {
        explicit slot(device_sampling& of) : sampler(of.make()) {}

        stream in;
        any_sampler sampler;
        std::vector<layer_view> views;
        const node_id* names = nullptr;
        pinned_buffer<node_id> ids;
    };
    [[nodiscard]] any_sampler make() {
        const sample_capacity most{.seeds = seeds_};
        if (dense_)
            return any_sampler(
                std::in_place_type<dense_sampler<>>, budget_, numbers_, graph_.view(), neighbors_, seed_, most, lists_);
        return any_sampler(
            std::in_place_type<neighbor_sampler<>>, budget_, numbers_, graph_.view(), neighbors_, seed_, most, lists_);
    }

    memory_budget& budget_;
    neighbor_options neighbors_;
    bool dense_;
    std::uint64_t seed_;
    std::uint32_t seeds_;
    source_lists lists_;
    stream copies_;
    device_graph<> graph_;
    node_numbers numbers_;
    event numbered_; ///< the last batch has done with them
    std::mutex numbering_;
    std::vector<std::unique_ptr<slot>> slots_;
};
static_assert(device_sampler_of<device_sampling, resident_graph>);

} // namespace gneiss::cuda
