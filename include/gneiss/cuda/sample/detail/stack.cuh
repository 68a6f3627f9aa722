// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// From drawn hops, the seeds' first, to DENSE's arrays, with the newest delta first, and to the layers that read them.
namespace gneiss::cuda::detail {

/// A drawn hop. In device memory.
template <class NodeId>
struct drawn_hop {
    const std::uint32_t *offsets = nullptr, *numbers = nullptr, *targets = nullptr;
    const NodeId* ids = nullptr;
    const relation_id* relations = nullptr; ///< or null
    const edge_index* edge_ids = nullptr;   ///< or null
};

/// Input of a layer. In device memory.
struct stacked_layer {
    std::uint32_t *offsets = nullptr, *neighbors = nullptr, *edge_target = nullptr; ///< the last may be null
};

/// DENSE's arrays of edges, except those of layer 0.
template <class NodeId>
struct stacked_sample {
    NodeId* nbrs = nullptr;
    relation_id* relations = nullptr;
    edge_index* edge_ids = nullptr;
};

/// Positions after the deltas are stacked: delta d, the d-th from the seeds, has numbers from start(d) on.
struct stacking {
    const hop_state* hops;
    std::uint32_t count; ///< number of hops

    [[nodiscard]] __device__ std::uint32_t start(std::uint32_t d) const {
        return d == 0 ? 0 : __ldg(&hops[d - 1].known);
    }
    /// Sources of layer i, which belongs to hop i + 1 from the last.
    [[nodiscard]] __device__ std::uint32_t sources(std::uint32_t i) const { return __ldg(&hops[count - i].known); }
    [[nodiscard]] __device__ std::uint32_t targets(std::uint32_t i) const { return __ldg(&hops[count - 1 - i].known); }
    /// Returns the edges of a layer before those of `hop`: those of later hops.
    [[nodiscard]] __device__ std::uint32_t edges_before(std::uint32_t hop, std::uint32_t i) const {
        std::uint32_t edges = 0;
        GNEISS_NO_UNROLL
        for (std::uint32_t h = hop + 1; h + i < count; ++h) edges += __ldg(&hops[h].edges);
        return edges;
    }
    /// Returns the row of node `number` among layer i's sources, given its delta.
    [[nodiscard]] __device__ std::uint32_t row(std::uint32_t number, std::uint32_t d, std::uint32_t i) const {
        return number - start(d) + (sources(i) - start(d + 1));
    }
    [[nodiscard]] __device__ std::uint32_t delta_of(std::uint32_t number) const {
        std::uint32_t d = 0;
        GNEISS_NO_UNROLL
        while (number >= start(d + 1)) ++d;
        return d;
    }
};

/// Computes the starts of deltas, and the ends of layers' offsets.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    begin_deltas(const batch_state* state, stacking of, const stacked_layer* layers, std::uint32_t* node_id_offsets) {
    const bool hopeless = state->hopeless != 0;
    for (std::uint32_t d = threadIdx.x; d <= of.count + 1; d += Threads)
        node_id_offsets[d] = hopeless ? 0 : of.sources(0) - (d <= of.count ? of.start(of.count - d + 1) : 0);
    if (hopeless) return;
    for (std::uint32_t i = threadIdx.x; i < of.count; i += Threads)
        layers[i].offsets[of.targets(i)] = of.edges_before(0, i) + __ldg(&of.hops[0].edges);
}

template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    stack_nodes(const batch_state* state, stacking of, const NodeId* nodes, NodeId* node_ids) {
    if (state->hopeless != 0) return;
    const std::uint32_t count = of.sources(0);
    for (std::uint32_t n = blockIdx.x * Threads + threadIdx.x; n < count; n += gridDim.x * Threads)
        __stwb(node_ids + of.row(n, of.delta_of(n), 0), __ldg(nodes + n));
}

/// Writes offsets of the targets of hop blockIdx.y, in all layers that have it.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    stack_offsets(const batch_state* state, stacking of, const drawn_hop<NodeId>* hops, const stacked_layer* layers) {
    if (state->hopeless != 0) return;
    const std::uint32_t hop = blockIdx.y, targets = __ldg(&of.hops[hop].targets), first = __ldg(&of.hops[hop].first);
    const std::uint32_t* const offsets = hops[hop].offsets;
    for (std::uint32_t i = 0; i + hop < of.count; ++i) {
        const std::uint32_t before = of.edges_before(hop, i),
                            row = of.row(first, hop, i) - (of.sources(i) - of.targets(i));
        for (std::uint32_t t = blockIdx.x * Threads + threadIdx.x; t < targets; t += gridDim.x * Threads)
            __stwb(layers[i].offsets + row + t, before + __ldg(offsets + t));
    }
}

/// Writes edges of hop blockIdx.y, in all layers that have it and in the sample's own arrays.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads) stack_edges(const batch_state* state, stacking of,
    const drawn_hop<NodeId>* hops, const stacked_layer* layers, stacked_sample<NodeId> to) {
    if (state->hopeless != 0) return;
    const std::uint32_t hop = blockIdx.y, edges = __ldg(&of.hops[hop].edges), first = __ldg(&of.hops[hop].first);
    const drawn_hop<NodeId> from = hops[hop];
    GNEISS_NO_UNROLL
    for (std::uint32_t i = 0; i + hop < of.count; ++i) {
        const stacked_layer layer = layers[i];
        const std::uint32_t before = of.edges_before(hop, i),
                            row = of.row(first, hop, i) - (of.sources(i) - of.targets(i));
        GNEISS_NO_UNROLL
        for (std::uint32_t e = blockIdx.x * Threads + threadIdx.x; e < edges; e += gridDim.x * Threads) {
            const std::uint32_t number = __ldg(from.numbers + e);
            __stwb(layer.neighbors + before + e, of.row(number, of.delta_of(number), i));
            if (layer.edge_target != nullptr) __stwb(layer.edge_target + before + e, row + __ldg(from.targets + e));
            if (i != 0) continue;
            __stwb(to.nbrs + before + e, __ldg(from.ids + e));
            if (from.relations != nullptr) __stwb(to.relations + before + e, __ldg(from.relations + e));
            if (from.edge_ids != nullptr) __stwb(to.edge_ids + before + e, __ldg(from.edge_ids + e));
        }
    }
}

} // namespace gneiss::cuda::detail
