// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>

// Prefix sums of a number of integers that only the device knows: sums of tiles, their prefix sums by one block, then
// those within each tile. No block waits for another, and results do not depend on any order. CUB's scans, sorts and
// selections take their counts from the host, so a recorded step cannot use them, and the emulator cannot run them: the
// device's own (here and in sample/transpose.cuh) are for counts on the device, Thrust's for counts on the host
// (cache/belady.cuh). gneiss-gpu-bench times both.
namespace gneiss::cuda {

/// Number of items, in device memory: each · ⌈*of / per⌉.
struct item_count {
    const std::uint32_t* of = nullptr; ///< count in device memory
    std::uint32_t per = 1, each = 1;   ///< divisor and factor

    /// Reads the count and returns the number of items.
    [[nodiscard]] __device__ std::uint32_t operator()() const { return each * ceil_div(__ldcg(of), per); }
};

/// Tiling of prefix sums.
struct prefix_tiles {
    static constexpr unsigned threads = 256, rounds = 4;     ///< threads of a block, and items of a thread
    static constexpr std::uint32_t items = threads * rounds; ///< items of a tile

    /// Returns the words of scratch for at most `capacity` items.
    [[nodiscard]] static constexpr std::size_t scratch(std::size_t capacity) noexcept {
        return std::max<std::size_t>(ceil_div(capacity, std::size_t{items}), 1);
    }
};

namespace detail {

/// Returns a grid for `items`, `of_a_block` per block; very large grids are capped, and their blocks loop.
[[nodiscard]] inline dim3 strided_grid(std::size_t items, std::size_t of_a_block, std::size_t most = 4096) {
    return {static_cast<unsigned>(std::min(ceil_div(items, of_a_block), most)), 1, 1};
}

/// Returns this thread's item of a tile in a round: a warp's items are adjacent.
[[nodiscard]] __device__ inline std::uint32_t tile_place(unsigned round) {
    return (threadIdx.x / warp_lanes * prefix_tiles::rounds + round) * warp_lanes + threadIdx.x % warp_lanes;
}

/// Replaces each item by the sum of those before it in the tile, and returns the total.
template <class V>
__device__ inline V scan_tile(V (&item)[prefix_tiles::rounds]) {
    constexpr unsigned warps = prefix_tiles::threads / warp_lanes;
    __shared__ V of_warp[warps];
    const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
    V carry = 0;
    GNEISS_UNROLL
    for (V& mine : item) {
        V sum = mine;
        GNEISS_UNROLL
        for (unsigned by = 1; by < warp_lanes; by *= 2) {
            const V other = __shfl_up_sync(whole_warp, sum, by);
            if (lane >= by) sum += other;
        }
        mine = carry + sum - mine;
        carry += __shfl_sync(whole_warp, sum, static_cast<int>(warp_lanes - 1));
    }
    if (lane == 0) of_warp[warp] = carry;
    __syncthreads();
    V before = 0, all = 0;
    GNEISS_UNROLL
    for (unsigned w = 0; w < warps; ++w) {
        if (w < warp) before += of_warp[w];
        all += of_warp[w];
    }
    __syncthreads(); // before the next tile reuses the memory
    GNEISS_UNROLL
    for (V& mine : item) mine += before;
    return all;
}

/// values[i] = value(i), and the sum of each tile. At most 42 registers: with 32, the compiler spills long values.
template <class Value>
__global__ void __launch_bounds__(prefix_tiles::threads, 6)
    sum_tiles(item_count count, Value value, std::uint32_t* values, std::uint64_t* sums) {
    constexpr unsigned warps = prefix_tiles::threads / warp_lanes;
    __shared__ std::uint64_t of_warp[warps];
    const std::uint32_t items = count();
    for (std::uint64_t first = std::uint64_t{blockIdx.x} * prefix_tiles::items; first < items;
        first += std::uint64_t{gridDim.x} * prefix_tiles::items) {
        std::uint64_t sum = 0;
        GNEISS_UNROLL
        for (unsigned round = 0; round < prefix_tiles::rounds; ++round) {
            const std::uint64_t i = first + tile_place(round);
            if (i >= items) continue;
            const std::uint32_t one = value(static_cast<std::uint32_t>(i));
            __stwb(values + i, one);
            sum += one;
        }
        for (int apart = warp_lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(whole_warp, sum, apart);
        if (threadIdx.x % warp_lanes == 0) of_warp[threadIdx.x / warp_lanes] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            sum = 0;
            for (const std::uint64_t one : of_warp) sum += one;
            sums[first / prefix_tiles::items] = sum;
        }
        __syncthreads();
    }
}

/// Replaces sums of tiles by those of the preceding tiles; one block; one thread calls then(total).
template <class Then>
__global__ void __launch_bounds__(prefix_tiles::threads)
    scan_sums(item_count count, std::uint64_t* sums, std::uint32_t* values, Then then) {
    const std::uint32_t items = count(), tiles = ceil_div(items, prefix_tiles::items);
    std::uint64_t before = 0;
    for (std::uint32_t first = 0; first < tiles; first += prefix_tiles::items) {
        std::uint64_t mine[prefix_tiles::rounds];
        GNEISS_UNROLL
        for (unsigned round = 0; round < prefix_tiles::rounds; ++round) {
            const std::uint32_t tile = first + tile_place(round);
            mine[round] = tile < tiles ? sums[tile] : 0;
        }
        const std::uint64_t all = scan_tile(mine);
        GNEISS_UNROLL
        for (unsigned round = 0; round < prefix_tiles::rounds; ++round) {
            const std::uint32_t tile = first + tile_place(round);
            if (tile < tiles) sums[tile] = before + mine[round];
        }
        before += all;
    }
    __syncthreads(); // all have read the count
    if (threadIdx.x != 0) return;
    values[items] = static_cast<std::uint32_t>(before);
    then(before);
}

template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    scan_values(item_count count, const std::uint64_t* sums, std::uint32_t* values) {
    const std::uint32_t items = count();
    for (std::uint64_t first = std::uint64_t{blockIdx.x} * prefix_tiles::items; first < items;
        first += std::uint64_t{gridDim.x} * prefix_tiles::items) {
        std::uint32_t mine[prefix_tiles::rounds];
        GNEISS_UNROLL
        for (unsigned round = 0; round < prefix_tiles::rounds; ++round) {
            const std::uint64_t i = first + tile_place(round);
            mine[round] = i < items ? __ldcg(values + i) : 0;
        }
        static_cast<void>(scan_tile(mine));
        const auto before = static_cast<std::uint32_t>(__ldg(sums + first / prefix_tiles::items));
        GNEISS_UNROLL
        for (unsigned round = 0; round < prefix_tiles::rounds; ++round) {
            const std::uint64_t i = first + tile_place(round);
            if (i < items) __stwb(values + i, before + mine[round]);
        }
    }
}

/// The items of an array.
struct listed_values {
    const std::uint32_t* values;
    __device__ std::uint32_t operator()(std::uint32_t i) const { return __ldcg(values + i); }
};
struct then_nothing {
    __device__ void operator()(std::uint64_t) const {}
};

} // namespace detail

/// sums[i] = Σ value(j), j < i, for i ≤ count(): devices call the function object value once for each i < count(), then
/// one thread calls then(total) once, before any other of the sums is written: if it reduces count(), the rest is not
/// written.
///
/// sums [capacity + 1], scratch [prefix_tiles::scratch(capacity)]; count() ≤ capacity. then() gets the exact total even
/// if it is 2³² or more; the sums wrap. Cost: three launches; one call of value, two writes and a read of 4 bytes per
/// item.
template <class Value, class Then = detail::then_nothing>
void prefix_sums(cudaStream_t stream, const item_count& count, std::uint32_t capacity, const Value& value,
    std::uint32_t* sums, std::uint64_t* scratch, const Then& then = {}) {
    const dim3 grid = detail::strided_grid(capacity, prefix_tiles::items);
    launch(stream, detail::sum_tiles<Value>, grid, prefix_tiles::threads, 0, count, value, sums, scratch);
    launch(stream, detail::scan_sums<Then>, 1, prefix_tiles::threads, 0, count, scratch, sums, then);
    launch(stream, detail::scan_values<prefix_tiles::threads>, grid, prefix_tiles::threads, 0, count, scratch, sums);
}

/// Computes prefix sums in place.
inline void prefix_sums(
    cudaStream_t stream, const item_count& count, std::uint32_t capacity, std::uint32_t* sums, std::uint64_t* scratch) {
    prefix_sums(stream, count, capacity, detail::listed_values{sums}, sums, scratch);
}

} // namespace gneiss::cuda
