// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/sample/detail/excluded_positions.hpp>

namespace gneiss::cuda::detail {

/// The self loops of an incoming list, which lists of both directions leave out: places [first, first + count).
struct self_loop_places {
    std::uint32_t first = 0, count = 0;
};

/// Positions of excluded edges in the lists of their ends: the counterpart of `gneiss::detail::excluded_positions`. The
/// positions of a list form an unordered chain; a hash table holds the chains' heads. In device memory.
struct excluded_chains {
    static constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();
    static constexpr unsigned long long free = std::numeric_limits<unsigned long long>::max();

    unsigned long long* lists = nullptr;  ///< [slots] owner of the chain; null: nothing is ever excluded
    std::uint32_t* heads = nullptr;       ///< [slots]
    unsigned long long* places = nullptr; ///< [slots] a set: the places already in a chain
    std::uint32_t* positions = nullptr;   ///< [2 · edges] an edge may be in a list of either end
    std::uint32_t* next = nullptr;        ///< [2 · edges]
    std::uint32_t slots = 0;              ///< a power of two

    [[nodiscard]] __device__ static unsigned long long key(std::uint64_t of, bool incoming) {
        return 2 * of + (incoming ? 1 : 0);
    }
    [[nodiscard]] __device__ std::uint32_t home(unsigned long long one) const {
        return static_cast<std::uint32_t>(mix64(one)) & (slots - 1);
    }

    /// Returns the head of a list's chain.
    [[nodiscard]] __device__ std::uint32_t chain(std::uint64_t node, bool incoming) const {
        const unsigned long long list = key(node, incoming);
        for (std::uint32_t slot = home(list);; slot = (slot + 1) & (slots - 1)) {
            const unsigned long long there = __ldg(lists + slot);
            if (there == list) return __ldg(heads + slot);
            if (there == free) return nothing;
        }
    }
    /// Counts the elements of a chain at `shift` + position in [first, last], in a list without `loops`.
    [[nodiscard]] __device__ std::uint32_t count(std::uint32_t chain, std::uint32_t shift, std::uint32_t first,
        std::uint32_t last, self_loop_places loops = {}) const {
        std::uint32_t found = 0;
        for (; chain != nothing; chain = __ldg(next + chain)) {
            const std::uint32_t place = __ldg(positions + chain);
            if (place - loops.first < loops.count) continue;
            const std::uint32_t at = shift + place - (place < loops.first ? 0 : loops.count);
            found += at >= first && at <= last ? 1 : 0;
        }
        return found;
    }
    /// Returns the slot of `one` in a table, inserted if missing; `fresh` if it was missing.
    [[nodiscard]] __device__ std::uint32_t insert(
        unsigned long long* table, unsigned long long one, bool& fresh) const {
        for (std::uint32_t slot = home(one);; slot = (slot + 1) & (slots - 1)) {
            const unsigned long long there = atomicCAS(table + slot, free, one);
            fresh = there == free;
            if (fresh || there == one) return slot;
        }
    }
};

template <unsigned Threads>
__global__ void __launch_bounds__(Threads) clear_chains(excluded_chains chains) {
    for (std::uint32_t slot = blockIdx.x * Threads + threadIdx.x; slot < chains.slots; slot += gridDim.x * Threads) {
        __stwb(chains.lists + slot, excluded_chains::free);
        __stwb(chains.places + slot, excluded_chains::free);
        __stwb(chains.heads + slot, excluded_chains::nothing);
    }
}

/// Adds each edge that the graph has to the chains of its lists.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads) exclude_edges(const sample_request* request, const batch_state* state,
    graph_view<NodeId> graph, const excluded_edge<NodeId>* edges, excluded_chains chains) {
    const std::uint32_t count = state->hopeless != 0 ? 0 : request->excluded;
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < 2 * count; i += gridDim.x * Threads) {
        const excluded_edge<NodeId> edge = edges[i / 2];
        const bool incoming = i % 2 == 1;
        const adjacency_view<NodeId> lists = incoming ? graph.in : graph.out;
        const NodeId owner = incoming ? edge.destination : edge.source,
                     other = incoming ? edge.source : edge.destination;
        if (lists.offsets == nullptr || owner >= graph.nodes) continue;
        const edge_index begin = __ldg(lists.offsets + owner), end = __ldg(lists.offsets + owner + 1);
        edge_index at = begin;
        for (edge_index high = end; at < high;) { // the first edge to `other`
            const edge_index middle = at + (high - at) / 2;
            if (__ldg(lists.neighbors + middle) < other)
                at = middle + 1;
            else
                high = middle;
        }
        while (at < end && __ldg(lists.neighbors + at) == other && __ldg(lists.edge_ids + at) != edge.id) ++at;
        if (at == end || __ldg(lists.neighbors + at) != other) continue;
        bool fresh = false;
        static_cast<void>(chains.insert(chains.places, excluded_chains::key(at, incoming), fresh));
        if (!fresh) continue; // excluded twice
        __stwb(chains.positions + i, static_cast<std::uint32_t>(at - begin));
        const std::uint32_t slot = chains.insert(chains.lists, excluded_chains::key(owner, incoming), fresh);
        __stwb(chains.next + i, atomicExch(chains.heads + slot, i));
    }
}

/// Owns the chains of a batch's excluded edges. Memory: 16 bytes per edge of room, and 80 to 160 of tables.
template <node_id_type NodeId>
class excluded_edges {
public:
    excluded_edges() = default;
    /// Throws `over_budget`, `device_error`; `errc::invalid_argument` for a graph without edge ids.
    excluded_edges(memory_budget& budget, const graph_view<NodeId>& graph, std::uint32_t room)
        : graph_(graph),
          room_(room) {
        if (room == 0) return;
        const adjacency_view<NodeId> all[] = {graph.in, graph.out};
        for (const adjacency_view<NodeId>& lists : all)
            if (graph.edges != 0 && lists.offsets != nullptr && lists.edge_ids == nullptr)
                throw error(errc::invalid_argument, "excluding edges needs a graph with edge ids");
        const std::uint64_t slots = std::bit_ceil(4 * std::uint64_t{room});
        if (slots > excluded_chains::nothing) throw error(errc::out_of_range, std::to_string(room) + " excluded edges");
        lists_ = {budget, "lists with excluded edges", slots};
        places_ = {budget, "places of excluded edges", slots};
        heads_ = {budget, "chains of excluded edges", slots};
        positions_ = {budget, "positions of excluded edges", 2 * std::size_t{room}};
        next_ = {budget, "chains of excluded edges", 2 * std::size_t{room}};
    }

    /// Finds edges in another graph from now on.
    void use(const graph_view<NodeId>& graph) noexcept { graph_ = graph; }
    [[nodiscard]] std::uint32_t room() const noexcept { return room_; }
    [[nodiscard]] excluded_chains chains() noexcept {
        return {lists_.data(), heads_.data(), places_.data(), positions_.data(), next_.data(),
            static_cast<std::uint32_t>(lists_.size())};
    }

    /// Finds the positions of the batch's excluded edges. O(room) for the tables; a binary search in two lists per
    /// edge.
    void find(
        cudaStream_t in, const sample_request* request, const batch_state* state, const excluded_edge<NodeId>* edges) {
        constexpr unsigned threads = 256;
        launch(in, clear_chains<threads>, strided_grid(lists_.size(), threads), threads, 0, chains());
        launch(in, exclude_edges<threads, NodeId>, strided_grid(2 * std::size_t{room_}, threads), threads, 0, request,
            state, graph_, edges, chains());
    }

private:
    graph_view<NodeId> graph_{};
    std::uint32_t room_ = 0;
    device_buffer<unsigned long long> lists_, places_;
    device_buffer<std::uint32_t> heads_, positions_, next_;
};

} // namespace gneiss::cuda::detail
