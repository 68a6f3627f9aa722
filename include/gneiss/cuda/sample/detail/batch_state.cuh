// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss::cuda::detail {

/// The first batch that failed since the host last checked.
struct failed_batch {
    sample_failure what = sample_failure::none;
    std::uint32_t hop = 0;
    std::uint64_t needed = 0; ///< required amount of what did not fit; or the seed node
    batch_key batch{};
};

/// State of a batch in progress, in device memory.
struct batch_state {
    std::uint32_t hopeless = 0;             ///< true if it has failed
    std::uint32_t beyond = 0, repeated = 0; ///< first invalid and first repeated seed; none: all ones
    failed_batch failed{};
};

/// State of a hop. Counts are 0 from the failed hop on.
struct hop_state {
    random_key key{0, random_domain::neighbor};
    std::uint32_t first = 0;   ///< number of the first node whose neighbors are drawn
    std::uint32_t targets = 0; ///< number of such nodes
    std::uint32_t known = 0;   ///< nodes numbered before the hop
    std::uint32_t edges = 0;   ///< drawn
};
static_assert(std::is_trivially_copyable_v<hop_state>);

/// Numbers of the nodes of a batch: a word per node of the graph, with the batch's stamp in its upper half. Newer
/// stamps are smaller, so one atomic minimum both overrides earlier batches and finds the least number of this one.
struct number_table {
    unsigned long long* words = nullptr;
    std::uint32_t* last_stamp = nullptr; ///< of the batch in progress
    std::uint32_t stamps = 0;            ///< then all words are cleared
    batch_state* state = nullptr;

    [[nodiscard]] __device__ static unsigned long long word(std::uint32_t stamp, std::uint32_t number) {
        return (static_cast<unsigned long long>(~stamp) << 32) | number;
    }
    [[nodiscard]] __device__ std::uint32_t stamp() const { return __ldcg(last_stamp); }
    /// Returns the number of a node of this batch.
    template <class NodeId>
    [[nodiscard]] __device__ std::uint32_t operator[](NodeId node) const {
        return static_cast<std::uint32_t>(__ldcg(words + node));
    }
    /// Sets the number to `number`, unless the batch has given the node a smaller one.
    template <class NodeId>
    __device__ void claim(NodeId node, std::uint32_t stamp, std::uint32_t number) const {
        atomicMin(words + node, word(stamp, number));
    }
    template <class NodeId>
    __device__ void set(NodeId node, std::uint32_t stamp, std::uint32_t number) const {
        __stwb(words + node, word(stamp, number));
    }
};

inline constexpr std::uint32_t no_seed = std::numeric_limits<std::uint32_t>::max();

/// Fails the batch: nothing more is drawn, and the host is notified.
__device__ inline void give_up(
    batch_state& state, const batch_key& batch, sample_failure what, std::uint32_t hop, std::uint64_t needed) {
    state.hopeless = 1;
    if (state.failed.what == sample_failure::none) state.failed = {what, hop, needed, batch};
}

/// Advances to the next stamp of the table, and computes the keys of all hops; one block.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) begin_batch(const sample_request* request, number_table table,
    hop_state* hops, std::uint32_t hop_count, std::uint32_t seed_room, std::uint32_t excluded_room) {
    const sample_request of = *request;
    const bool fits = of.seeds <= seed_room, excludes = of.excluded <= excluded_room;
    for (std::uint32_t hop = threadIdx.x; hop <= hop_count; hop += Threads) {
        hop_state begin;
        begin.key = gneiss::detail::neighbor_key(of.seed, of.batch).with(hop);
        if (hop == 0 && fits && excludes) begin.targets = begin.known = of.seeds;
        hops[hop] = begin;
    }
    if (threadIdx.x != 0) return;
    batch_state& state = *table.state;
    *table.last_stamp = *table.last_stamp >= table.stamps ? 1 : *table.last_stamp + 1;
    state.hopeless = 0;
    state.beyond = state.repeated = no_seed;
    if (!fits)
        give_up(state, of.batch, sample_failure::too_many_seeds, 0, of.seeds);
    else if (!excludes)
        give_up(state, of.batch, sample_failure::too_many_excluded, 0, of.excluded);
}

/// Clears all old stamps once all were used.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) clear_numbers(number_table table, std::uint64_t nodes) {
    if (table.stamp() != 1) return;
    for (std::uint64_t v = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; v < nodes;
        v += std::uint64_t{gridDim.x} * Threads)
        __stwb(table.words + v, ~0ULL);
}

/// Gives seed i the number i.
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    claim_seeds(const NodeId* seeds, const hop_state* hop, number_table table, std::uint64_t nodes, NodeId* numbered) {
    const std::uint32_t count = __ldcg(&hop->targets), stamp = table.stamp();
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < count; i += gridDim.x * Threads) {
        const NodeId seed = __ldg(seeds + i);
        if (seed >= nodes) {
            atomicMin(&table.state->beyond, i);
            continue;
        }
        table.claim(seed, stamp, i);
        __stwb(numbered + i, seed);
    }
}
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    check_seeds(const NodeId* seeds, const hop_state* hop, number_table table, std::uint64_t nodes) {
    const std::uint32_t count = __ldcg(&hop->targets);
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < count; i += gridDim.x * Threads) {
        const NodeId seed = __ldg(seeds + i);
        if (seed < nodes && table[seed] != i) atomicMin(&table.state->repeated, i);
    }
}
template <unsigned Threads, class NodeId>
__global__ void __launch_bounds__(Threads)
    judge_seeds(const sample_request* request, const NodeId* seeds, hop_state* hop, batch_state* state) {
    const bool beyond = state->beyond != no_seed;
    if (!beyond && state->repeated == no_seed) return;
    give_up(*state, request->batch, beyond ? sample_failure::seed_out_of_range : sample_failure::seed_repeated, 0,
        seeds[beyond ? state->beyond : state->repeated]);
    hop->targets = hop->known = 0;
}

} // namespace gneiss::cuda::detail
