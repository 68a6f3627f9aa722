// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/detail/draw.cuh>
#include <gneiss/cuda/sample/detail/number.cuh>

// A hop of layer-wise sampling: from the lists of all targets to the edges from the neighbors that are drawn together.
namespace gneiss::cuda::detail {

/// Place of a node among the neighbors of a hop, as on the host: its draw, of 53 bits, then its id.
struct node_rank {
    std::uint64_t draw = 0, id = 0;
};
template <class NodeId>
[[nodiscard]] __device__ node_rank rank_of(random_key key, NodeId node) {
    return {key.with(node)[0] >> 11, node};
}

/// A digit of ranks: bits from `shift` on, of the draw or of the id.
struct rank_digit {
    static constexpr unsigned bits = 11; ///< of a digit
    unsigned shift = 0;
    bool of_id = false;
    bool first_of_id = false; ///< the highest

    [[nodiscard]] __device__ std::uint32_t operator()(const node_rank& rank) const {
        return static_cast<std::uint32_t>((of_id ? rank.id : rank.draw) >> shift) & ((1U << bits) - 1);
    }
    /// True if all higher digits are equal.
    [[nodiscard]] __device__ bool follows(const node_rank& rank, const node_rank& chosen) const {
        if (!of_id) return rank.draw >> (shift + bits) == chosen.draw >> (shift + bits);
        return rank.draw == chosen.draw && (first_of_id || rank.id >> (shift + bits) == chosen.id >> (shift + bits));
    }
};

/// A selection in progress, in device memory.
struct selection {
    static constexpr std::uint32_t values = 1U << rank_digit::bits; ///< of a digit

    std::uint32_t listed = 0;       ///< edges of all lists
    std::uint32_t candidates = 0;   ///< distinct nodes among the neighbors
    std::uint32_t left = 0;         ///< nodes to draw among those with the digits of `last` so far
    std::uint32_t all = 0;          ///< true if all candidates are drawn
    node_rank last{};               ///< rank of the last node drawn
    std::uint32_t counts[values]{}; ///< candidates by the digit
};

inline constexpr std::uint32_t never = ~std::uint32_t{0}; ///< the first edge of a node without any; no number

/// Begins with the edges that the hop has listed; forgets the known nodes that an earlier hop has seen.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) begin_selection(const hop_state* hop, selection* of, std::uint32_t* seen) {
    const std::uint32_t known = __ldg(&hop->known);
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < known; i += gridDim.x * Threads)
        __stwb(seen + i, never);
    if (blockIdx.x != 0) return;
    for (std::uint32_t i = threadIdx.x; i < selection::values; i += Threads) of->counts[i] = 0;
    if (threadIdx.x != 0) return;
    of->listed = hop->edges;
    of->last = {};
}

/// Notes the first edge from each known node.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    see_known(const NodeId* ids, number_table table, const hop_state* hop, const selection* of, std::uint32_t* seen) {
    const std::uint32_t listed = __ldg(&of->listed), known = __ldg(&hop->known);
    for (std::uint32_t e = blockIdx.x * Threads + threadIdx.x; e < listed; e += gridDim.x * Threads)
        if (const std::uint32_t number = table[__ldg(ids + e)]; number < known) atomicMin(seen + number, e);
}

/// True if an edge is the first from its node, among all lists of the hop.
template <class NodeId>
struct first_listed {
    const NodeId* ids;
    number_table table;
    const hop_state* hop;
    const std::uint32_t* seen;

    [[nodiscard]] __device__ std::uint32_t operator()(std::uint32_t e) const {
        const std::uint32_t number = table[__ldg(ids + e)], known = __ldg(&hop->known);
        return (number < known ? __ldcg(seen + number) == e : number == known + e) ? 1 : 0;
    }
};
/// Records the number of candidates.
struct then_candidates {
    selection* of;
    std::uint32_t fanout;

    __device__ void operator()(std::uint64_t total) const {
        of->candidates = static_cast<std::uint32_t>(total);
        of->left = fanout;
        of->all = total <= fanout ? 1 : 0;
    }
};
/// Lists each candidate once. `place` counts the first edges before each edge.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    list_candidates(const NodeId* ids, const selection* of, const std::uint32_t* place, NodeId* candidates) {
    const std::uint32_t listed = __ldg(&of->listed);
    for (std::uint32_t e = blockIdx.x * Threads + threadIdx.x; e < listed; e += gridDim.x * Threads)
        if (const std::uint32_t to = __ldg(place + e); __ldg(place + e + 1) != to)
            __stwb(candidates + to, __ldg(ids + e));
}

/// Counts the candidates with the digits so far by their next one.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    count_ranks(const NodeId* candidates, const hop_state* hop, selection* of, rank_digit digit) {
    __shared__ std::uint32_t counts[selection::values];
    if (__ldg(&of->all) != 0) return;
    const random_key key = hop->key;
    const node_rank last = of->last;
    const std::uint32_t count = __ldg(&of->candidates);
    for (std::uint32_t i = threadIdx.x; i < selection::values; i += Threads) counts[i] = 0;
    __syncthreads();
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < count; i += gridDim.x * Threads) {
        const node_rank rank = rank_of(key, __ldg(candidates + i));
        if (digit.follows(rank, last)) atomicAdd(counts + digit(rank), 1U);
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < selection::values; i += Threads)
        if (counts[i] != 0) atomicAdd(of->counts + i, counts[i]);
}
/// Chooses the digit of the last node drawn, and clears the counts; one warp.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) choose_digit(selection* of, rank_digit digit) {
    static_assert(Threads == warp_lanes);
    if (__ldcg(&of->all) != 0) return;
    const std::uint32_t wanted = __ldcg(&of->left);
    std::uint32_t before = 0; // nodes of smaller digits
    bool found = false;
    for (std::uint32_t first = 0; first < selection::values; first += warp_lanes) {
        const std::uint32_t mine = of->counts[first + threadIdx.x];
        of->counts[first + threadIdx.x] = 0;
        std::uint32_t sum = mine;
        GNEISS_UNROLL
        for (unsigned by = 1; by < warp_lanes; by *= 2) {
            const std::uint32_t other = __shfl_up_sync(whole_warp, sum, by);
            if (threadIdx.x >= by) sum += other;
        }
        const std::uint32_t behind = before + sum;
        if (!found && behind >= wanted && behind - mine < wanted) {
            std::uint64_t& to = digit.of_id ? of->last.id : of->last.draw;
            to |= std::uint64_t{first + threadIdx.x} << digit.shift;
            of->left = wanted - (behind - mine);
        }
        before = __shfl_sync(whole_warp, behind, static_cast<int>(warp_lanes - 1));
        found = before >= wanted;
    }
}

/// True if an edge is from a node that is drawn.
template <class NodeId>
struct from_drawn {
    const NodeId* ids;
    const hop_state* hop;
    const selection* of;

    [[nodiscard]] __device__ std::uint32_t operator()(std::uint32_t e) const {
        if (__ldg(&of->all) != 0) return 1;
        const node_rank rank = rank_of(hop->key, __ldg(ids + e));
        const std::uint64_t draw = __ldg(&of->last.draw);
        return rank.draw < draw || (rank.draw == draw && rank.id <= __ldg(&of->last.id)) ? 1 : 0;
    }
};

/// Computes the offsets of the targets' drawn edges: `place` counts those before each listed edge. Of a hop that lists
/// none, or too many, listed offsets are not those of edges.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) place_lists(const hop_state* hop, const selection* of,
    const std::uint32_t* listed_offsets, const std::uint32_t* place, std::uint32_t* offsets) {
    const std::uint32_t targets = __ldg(&hop->targets), listed = __ldg(&of->listed);
    for (std::uint32_t t = blockIdx.x * Threads + threadIdx.x; t <= targets; t += gridDim.x * Threads)
        __stwb(offsets + t, listed == 0 ? 0 : __ldg(place + __ldg(listed_offsets + t)));
}
/// Writes the edges from drawn nodes to their places, and forgets the numbers of nodes that are not drawn.
template <class NodeId>
__global__ void __launch_bounds__(draw_threads) copy_drawn(hop_task<NodeId> hop, const selection* of, const NodeId* ids,
    const std::uint32_t* listed_offsets, const std::uint32_t* place) {
    const std::uint32_t known = __ldg(&hop.state->known), stamp = hop.table.stamp();
    visit_lists(listed_offsets, __ldg(&hop.state->targets), __ldg(&of->listed),
        [&](std::uint32_t e, std::uint32_t target, std::uint32_t k) {
            const std::uint32_t to = __ldg(place + e);
            const NodeId node = __ldg(ids + e);
            if (__ldg(place + e + 1) != to)
                hop.take(to, target, hop.lists[hop.node(target)], 0, k, stamp, known);
            else if (hop.table[node] >= known)
                hop.table.set(node, stamp, never);
        });
}

/// Selects the nodes of layer-wise hops, as `gneiss::layerwise_sampler` does: of the distinct neighbors of all targets,
/// those of the least ranks. The least are found by digits, from the highest on. Owns the scratch of all hops.
///
/// Kernels: 31 a hop, 37 with ids of 64 bits. Cost of an edge of the lists: two random reads of 8 bytes in the table of
/// numbers, an atomic minimum, and some 40 bytes of sequential reads and writes; of a distinct neighbor: 8 or 11 reads.
/// Memory: an id for each listed edge and for each distinct neighbor, 8 bytes for each node known.
template <node_id_type NodeId>
class node_selection {
public:
    /// \param edges  most edges of the lists of a hop
    /// \param nodes  most distinct neighbors of a hop
    /// \param known  most nodes before a hop
    node_selection(memory_budget& budget, std::uint32_t edges, std::uint32_t nodes, std::uint32_t known)
        : edges_(edges),
          known_(known),
          ids_(budget, "neighbors to select from", edges),
          candidates_(budget, "distinct neighbors", nodes),
          offsets_(budget, "offsets of whole lists", known + std::size_t{1}),
          seen_(budget, "known nodes that are neighbors", known),
          state_(budget, "selection of nodes", 1) {}

    /// Draws the edges of a hop into the arrays of `task`, whose lists are whole, and their offsets.
    /// \param then      records the number of edges, listed and then drawn
    /// \param places    [edges + 1] scratch
    void operator()(cudaStream_t in, const hop_task<NodeId>& task, hop_state* hop, std::uint32_t fanout,
        std::uint32_t* offsets, std::uint32_t* places, std::uint64_t* sums, const then_edges& then) {
        constexpr unsigned threads = 256;
        selection* const of = state_.data();
        const dim3 edge_grid = strided_grid(edges_, threads), node_grid = strided_grid(known_, threads);
        hop_task<NodeId> whole = task;
        whole.offsets = offsets_.data();
        whole.to = {.ids = ids_.data()};
        prefix_sums(in, {&hop->targets}, known_, drawn_count<NodeId>{whole}, offsets_.data(), sums, then);
        launch(in, copy_lists<NodeId>, edge_grid, draw_threads, 0, whole, 1U);
        launch(in, begin_selection<threads>, node_grid, threads, 0, hop, of, seen_.data());
        launch(in, see_known<threads, NodeId>, edge_grid, threads, 0, ids_.data(), task.table, hop, of, seen_.data());
        const first_listed<NodeId> first{ids_.data(), task.table, hop, seen_.data()};
        const item_count all{&of->listed};
        prefix_sums(in, all, edges_, first, places, sums, then_candidates{of, fanout});
        launch(
            in, list_candidates<threads, NodeId>, edge_grid, threads, 0, ids_.data(), of, places, candidates_.data());
        const auto select = [&](rank_digit digit) {
            launch(in, count_ranks<threads, NodeId>, strided_grid(candidates_.size(), threads * 8), threads, 0,
                candidates_.data(), hop, of, digit);
            launch(in, choose_digit<warp_lanes>, 1, warp_lanes, 0, of, digit);
        };
        constexpr unsigned id_bits = sizeof(NodeId) * 8, id_digits = ceil_div(id_bits, rank_digit::bits);
        for (unsigned i = 5; i-- > 0;) select({i * rank_digit::bits}); // 53 bits
        for (unsigned i = id_digits; i-- > 0;) select({i * rank_digit::bits, true, i + 1 == id_digits});
        prefix_sums(in, all, edges_, from_drawn<NodeId>{ids_.data(), hop, of}, places, sums, then);
        launch(in, place_lists<threads>, strided_grid(known_ + std::size_t{1}, threads), threads, 0, hop, of,
            offsets_.data(), places, offsets);
        launch(in, copy_drawn<NodeId>, edge_grid, draw_threads, 0, task, of, ids_.data(), offsets_.data(), places);
    }

private:
    std::uint32_t edges_, known_;
    device_buffer<NodeId> ids_, candidates_;
    device_buffer<std::uint32_t> offsets_, seen_;
    device_buffer<selection> state_;
};

} // namespace gneiss::cuda::detail
