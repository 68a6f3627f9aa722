// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// From the neighbors of a hop to the numbers of its nodes, and to the targets of the next hop.
namespace gneiss::cuda::detail {

/// Draws of a node: once per batch, at the hop that first reaches it, or at every hop from then on; or those of all
/// nodes together, at every hop.
enum class draws { once, every_hop, together };

/// Records the number of edges that a hop has drawn.
struct then_edges {
    batch_state* state;
    hop_state* hop;
    const sample_request* request;
    std::uint32_t room, number;

    __device__ void operator()(std::uint64_t total) const {
        if (total > room) give_up(*state, request->batch, sample_failure::too_many_edges, number, total);
        if (state->hopeless != 0) total = hop->targets = 0;
        hop->edges = static_cast<std::uint32_t>(total);
    }
};
/// Records the number of new nodes of a hop, and initializes the next.
struct then_nodes {
    batch_state* state;
    hop_state* hop; ///< this hop, followed by the next
    const sample_request* request;
    std::uint32_t room, number;
    draws how;

    __device__ void operator()(std::uint64_t fresh) const {
        const std::uint64_t known = hop->known + fresh;
        if (known > room) give_up(*state, request->batch, sample_failure::too_many_nodes, number, known);
        hop_state& next = hop[1];
        if (state->hopeless != 0) {
            hop->edges = 0;
            return;
        }
        next.known = static_cast<std::uint32_t>(known);
        next.first = how == draws::once ? hop->known : 0;
        next.targets = next.known - next.first;
    }
};

/// True if an edge is the first to its node. Stores on the way its node's number, or the least place of the node, after
/// the known ones.
template <class NodeId>
struct first_of_node {
    const NodeId* ids;
    std::uint32_t* numbers;
    number_table table;
    const hop_state* hop;

    __device__ std::uint32_t operator()(std::uint32_t e) const {
        const std::uint32_t number = table[__ldg(ids + e)];
        __stwb(numbers + e, number);
        return number == __ldg(&hop->known) + e ? 1 : 0;
    }
};

/// Numbers new nodes in the order of their first edges: `rank` counts those before each edge. A place becomes the
/// number of the node that is there first.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads) number_nodes(const NodeId* ids, const std::uint32_t* rank,
    number_table table, const hop_state* hop, std::uint32_t* numbers, NodeId* nodes) {
    const std::uint32_t edges = __ldg(&hop->edges), known = __ldg(&hop->known), stamp = table.stamp();
    for (std::uint32_t e = blockIdx.x * Threads + threadIdx.x; e < edges; e += gridDim.x * Threads) {
        const std::uint32_t place = __ldcg(numbers + e);
        if (place < known) continue;
        const std::uint32_t number = known + __ldg(rank + (place - known));
        __stwb(numbers + e, number);
        if (place != known + e) continue;
        const NodeId node = __ldg(ids + e);
        __stwb(nodes + number, node);
        table.set(node, stamp, number);
    }
}

/// Computes the sizes of layers: layer i belongs to hop i + 1 from the last. All are empty for a failed batch.
/// `together`: a layer has the edges of all hops up to its own, and its targets follow its other sources.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) count_layers(
    const batch_state* state, const hop_state* hops, std::uint32_t hop_count, bool together, layer_counts* layers) {
    const std::uint32_t i = threadIdx.x + blockIdx.x * Threads;
    if (i >= hop_count) return;
    layer_counts counts;
    if (state->hopeless == 0) {
        const std::uint32_t hop = hop_count - 1 - i;
        counts.targets = hops[hop].known;
        counts.sources = hops[hop + 1].known;
        for (std::uint32_t h = together ? 0 : hop; h <= hop; ++h) counts.edges += hops[h].edges;
        if (together) counts.first_target = counts.sources - counts.targets;
    }
    layers[i] = counts;
}

} // namespace gneiss::cuda::detail
