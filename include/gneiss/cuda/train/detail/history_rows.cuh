// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gneiss/core/float16.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/train/staleness.hpp>

// Kernels of histories on a device.
namespace gneiss::cuda::detail {

/// Counts of histories in device memory: see `history_counts`.
struct history_tally {
    static constexpr unsigned bins = staleness_histogram::bins; ///< counts of ages

    unsigned long long absent = 0, pushed = 0, read_bytes = 0, push_bytes = 0;
    unsigned long long ages[bins] = {}; ///< rows read, by their age in macro-batches; a last bin for all more
};

/// A batch, whose nodes may be outside of its macro-batch: its halo.
struct history_batch {
    const node_id* names = nullptr;       ///< [nodes] ids
    const std::uint16_t* parts = nullptr; ///< [all nodes] partition of each
    const std::uint32_t* place = nullptr; ///< number of the macro-batch, from 1, then a bit of each partition: inside
    const std::uint32_t* slots = nullptr; ///< [all nodes] place of each in tables; null: its id

    [[nodiscard]] __device__ bool outside(std::uint32_t v) const {
        const std::uint32_t p = __ldg(parts + __ldg(names + v));
        return ((__ldg(place + 1 + p / 32) >> (p % 32)) & 1U) == 0;
    }
    /// Returns the place of a node of the batch in tables.
    [[nodiscard]] __device__ std::uint32_t slot(std::uint32_t v) const {
        const node_id id = __ldg(names + v);
        return slots == nullptr ? id : __ldg(slots + id);
    }
};

// Marks of a layer's sources: nodes inside of the macro-batch, and its halo. Edges from rows of odd marks are removed.
inline constexpr std::uint8_t marked_inside = 0, marked_read = 2, marked_absent = 3;

/// Marks the sources of a layer, and counts the rows of the halo.
/// \param pushed  [slots] macro-batch of the last push of the layer's input; null: all are absent
/// \param tally   null: nothing is counted
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) mark_halo(history_batch of, const layer_counts* counts,
    const std::uint32_t* pushed, std::uint32_t most_age, history_tally* tally, std::uint8_t* marks) {
    __shared__ unsigned rows[history_tally::bins]; // by age; 0: absent
    for (unsigned i = threadIdx.x; i < history_tally::bins; i += Threads) rows[i] = 0;
    __syncthreads();
    const std::uint32_t sources = __ldg(&counts->sources), now = __ldg(of.place);
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; i < sources;
        i += std::uint64_t{gridDim.x} * Threads) {
        const auto v = static_cast<std::uint32_t>(i);
        std::uint8_t mark = marked_inside;
        if (of.outside(v)) {
            const std::uint32_t last = pushed == nullptr ? 0 : __ldg(pushed + of.slot(v));
            const std::uint32_t old = last == 0 ? 0 : now - last;
            const std::uint32_t age = old <= most_age ? old : 0;
            mark = age == 0 ? marked_absent : marked_read;
            if (tally != nullptr) atomicAdd(rows + (age < history_tally::bins ? age : history_tally::bins - 1), 1U);
        }
        __stwb(marks + v, mark);
    }
    __syncthreads();
    if (tally == nullptr) return;
    for (unsigned i = threadIdx.x; i < history_tally::bins; i += Threads)
        if (rows[i] != 0)
            atomicAdd(i == 0 ? &tally->absent : tally->ages + i, static_cast<unsigned long long>(rows[i]));
}

/// Counts the rows of the halo that edges read, and no batch of the macro-batch did before.
/// \param counts     of the layer, without edges from absent rows
/// \param read       [slots] macro-batch that read a row last
/// \param row_bytes  of a row
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    count_reads(history_batch of, const layer_counts* counts, const std::uint32_t* neighbors, const std::uint8_t* marks,
        std::uint32_t* read, std::uint64_t row_bytes, history_tally* tally) {
    __shared__ unsigned rows;
    if (threadIdx.x == 0) rows = 0;
    __syncthreads();
    const std::uint32_t edges = __ldg(&counts->edges), now = __ldg(of.place);
    unsigned mine = 0;
    for (std::uint64_t e = std::uint64_t{blockIdx.x} * Threads + threadIdx.x; e < edges;
        e += std::uint64_t{gridDim.x} * Threads) {
        const std::uint32_t v = __ldg(neighbors + e);
        if (__ldg(marks + v) == marked_inside) continue;
        std::uint32_t* const last = read + of.slot(v);
        if (__ldcg(last) != now && atomicExch(last, now) != now) ++mine;
    }
    if (mine != 0) atomicAdd(&rows, mine);
    __syncthreads();
    if (threadIdx.x == 0 && rows != 0) atomicAdd(&tally->read_bytes, static_cast<unsigned long long>(rows * row_bytes));
}

/// Rows of a batch's nodes between two layers.
struct history_rows {
    const std::uint32_t* count = nullptr; ///< their number
    const std::uint8_t* marks = nullptr;  ///< of each
    rows_view<float> rows{};
};

/// Kept rows of a layer.
template <class Stored>
struct history_table {
    Stored* rows = nullptr; ///< [slots, stride]; null: nothing is kept
    std::uint64_t stride = 0;
    std::uint32_t* pushed = nullptr; ///< [slots] macro-batch of the last push
    std::uint64_t bytes = 0;         ///< of a row
};

__device__ inline void write(float16* at, float16 x) {
    __stwb(reinterpret_cast<unsigned short*>(at), static_cast<unsigned short>(x));
}
[[nodiscard]] __device__ inline float stored_as(float x, float) { return x; }
[[nodiscard]] __device__ inline float16 stored_as(float x, float16) { return to_float16(x); }
[[nodiscard]] __device__ inline bool is_kept(float) { return true; }
[[nodiscard]] __device__ inline bool is_kept(float16 x) { return (static_cast<unsigned>(x) & 0x7c00U) != 0x7c00U; }

/// Keeps the rows of nodes inside, and writes those of the halo: the kept ones, or zeros for absent ones, which no edge
/// reads. A row with a value beyond f16 becomes absent. A warp a row.
template <class Stored, unsigned Threads>
__global__ void __launch_bounds__(Threads)
    exchange_rows(history_batch of, history_rows batch, history_table<Stored> to, history_tally* tally) {
    __shared__ unsigned pushed, fresh;
    if (threadIdx.x == 0) pushed = fresh = 0;
    __syncthreads();
    const std::uint32_t count = __ldg(batch.count), now = __ldg(of.place);
    const unsigned lane = threadIdx.x % warp_lanes;
    for (std::uint64_t v = (std::uint64_t{blockIdx.x} * Threads + threadIdx.x) / warp_lanes; v < count;
        v += std::uint64_t{gridDim.x} * Threads / warp_lanes) {
        const std::uint8_t mark = __ldg(batch.marks + v);
        float* const row = batch.rows[v];
        if (mark == marked_absent) {
            for (unsigned c = lane; c < batch.rows.columns; c += warp_lanes) write(row + c, 0.0F);
            continue;
        }
        if (to.rows == nullptr) continue;
        const std::uint32_t slot = of.slot(static_cast<std::uint32_t>(v));
        Stored* const kept = to.rows + slot * to.stride;
        if (mark == marked_read) {
            for (unsigned c = lane; c < batch.rows.columns; c += warp_lanes) write(row + c, widen(reread(kept + c)));
            continue;
        }
        bool fits = true;
        for (unsigned c = lane; c < batch.rows.columns; c += warp_lanes) {
            const Stored x = stored_as(reread(row + c), Stored{});
            fits = fits && is_kept(x);
            write(kept + c, x);
        }
        fits = __all_sync(whole_warp, fits ? 1 : 0) != 0;
        if (lane != 0) continue;
        const std::uint32_t before = __ldcg(to.pushed + slot);
        __stwb(to.pushed + slot, fits ? now : 0U);
        atomicAdd(&pushed, 1U);
        if (before != now) atomicAdd(&fresh, 1U);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (pushed != 0) atomicAdd(&tally->pushed, static_cast<unsigned long long>(pushed));
    if (fresh != 0) atomicAdd(&tally->push_bytes, static_cast<unsigned long long>(fresh * to.bytes));
}

/// Sets slots[ids[i]] = places[i].
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    set_slots(const node_id* ids, const std::uint32_t* places, std::uint32_t count, std::uint32_t* slots) {
    for (std::uint32_t i = blockIdx.x * Threads + threadIdx.x; i < count; i += gridDim.x * Threads)
        __stwb(slots + __ldg(ids + i), __ldg(places + i));
}

/// Sets the rows of the halo to 0. A warp a row.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) clear_halo(history_rows of) {
    const std::uint32_t count = __ldg(of.count);
    const unsigned lane = threadIdx.x % warp_lanes;
    for (std::uint64_t v = (std::uint64_t{blockIdx.x} * Threads + threadIdx.x) / warp_lanes; v < count;
        v += std::uint64_t{gridDim.x} * Threads / warp_lanes) {
        if (__ldg(of.marks + v) == marked_inside) continue;
        float* const row = of.rows[v];
        for (unsigned c = lane; c < of.rows.columns; c += warp_lanes) write(row + c, 0.0F);
    }
}

} // namespace gneiss::cuda::detail
