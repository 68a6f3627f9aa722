// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

namespace gneiss::cuda {

namespace detail {

/// Tiles of a pass of a stable sort by eight bits of keys: one tile per block.
struct digit_tiles {
    static constexpr unsigned bits = 8, threads = 256, rounds = 8;
    static constexpr std::uint32_t digits = 1U << bits, items = threads * rounds;
    static constexpr unsigned warps = threads / warp_lanes;

    [[nodiscard]] __device__ static std::uint32_t digit(std::uint32_t key, unsigned shift) {
        return (key >> shift) & (digits - 1);
    }
    /// Returns this thread's item of a tile in a round: warps have consecutive runs.
    [[nodiscard]] __device__ static std::uint32_t place(unsigned round) {
        return (threadIdx.x / warp_lanes * rounds + round) * warp_lanes + threadIdx.x % warp_lanes;
    }
};

/// counts[digit, tile]: the number of a tile's keys with each digit, for all tiles.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    count_digits(item_count count, const std::uint32_t* keys, unsigned shift, std::uint32_t* counts) {
    static_assert(Threads == digit_tiles::digits);
    __shared__ std::uint32_t of_digit[digit_tiles::digits];
    const std::uint32_t items = count(), tiles = ceil_div(items, digit_tiles::items);
    for (std::uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        of_digit[threadIdx.x] = 0;
        __syncthreads();
        for (unsigned round = 0; round < digit_tiles::rounds; ++round) {
            const std::uint32_t i = tile * digit_tiles::items + digit_tiles::place(round);
            if (i < items) atomicAdd(of_digit + digit_tiles::digit(__ldg(keys + i), shift), 1U);
        }
        __syncthreads();
        __stwb(counts + std::size_t{threadIdx.x} * tiles + tile, of_digit[threadIdx.x]);
        __syncthreads();
    }
}

/// Reorders keys and values (null: their places) by digit, stably. `starts` has the destination of each tile's keys of
/// each digit.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    move_by_digit(item_count count, const std::uint32_t* keys, const std::uint32_t* values, unsigned shift,
        const std::uint32_t* starts, std::uint32_t* to_keys, std::uint32_t* to_values) {
    constexpr std::uint32_t nothing = digit_tiles::digits;
    __shared__ std::uint32_t next[digit_tiles::warps]
                                 [digit_tiles::digits]; // destination of a warp's next key with a digit
    const std::uint32_t items = count(), tiles = ceil_div(items, digit_tiles::items);
    const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes, before_me = (1U << lane) - 1;
    for (std::uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const std::uint32_t first = tile * digit_tiles::items;
        for (unsigned w = 0; w < digit_tiles::warps; ++w) next[w][threadIdx.x] = 0;
        __syncthreads();
        std::uint32_t key[digit_tiles::rounds], digit[digit_tiles::rounds],
            rank[digit_tiles::rounds]; // within the warp
        GNEISS_UNROLL
        for (unsigned round = 0; round < digit_tiles::rounds; ++round) {
            const std::uint32_t i = first + digit_tiles::place(round);
            key[round] = i < items ? __ldg(keys + i) : 0;
            digit[round] = i < items ? digit_tiles::digit(key[round], shift) : nothing;
            const unsigned same = __match_any_sync(whole_warp, digit[round]);
            const unsigned leader = static_cast<unsigned>(__ffs(static_cast<int>(same)) - 1);
            std::uint32_t begin = 0;
            if (lane == leader && digit[round] != nothing) {
                begin = next[warp][digit[round]];
                next[warp][digit[round]] = begin + static_cast<std::uint32_t>(__popc(same));
            }
            rank[round] = __shfl_sync(whole_warp, begin, static_cast<int>(leader)) +
                static_cast<std::uint32_t>(__popc(same & before_me));
            __syncwarp(); // another lane may lead next
        }
        __syncthreads();
        std::uint32_t start = __ldg(starts + std::size_t{threadIdx.x} * tiles + tile);
        for (unsigned w = 0; w < digit_tiles::warps; ++w) {
            const std::uint32_t mine = next[w][threadIdx.x];
            next[w][threadIdx.x] = start;
            start += mine;
        }
        __syncthreads();
        GNEISS_UNROLL
        for (unsigned round = 0; round < digit_tiles::rounds; ++round) {
            if (digit[round] == nothing) continue;
            const std::uint32_t i = first + digit_tiles::place(round), to = next[warp][digit[round]] + rank[round];
            __stwb(to_keys + to, key[round]);
            __stwb(to_values + to, values == nullptr ? i : __ldg(values + i));
        }
        __syncthreads();
    }
}

/// offsets[s] = number of sorted keys below s, for s ≤ the layer's sources.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    begin_of_keys(const layer_counts* counts, const std::uint32_t* keys, std::uint32_t* offsets) {
    const std::uint32_t sources = __ldg(&counts->sources), edges = __ldg(&counts->edges);
    for (std::uint32_t s = blockIdx.x * Threads + threadIdx.x; s <= sources; s += gridDim.x * Threads) {
        std::uint32_t low = 0, high = edges;
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (__ldg(keys + middle) < s)
                low = middle + 1;
            else
                high = middle;
        }
        __stwb(offsets + s, low);
    }
}

} // namespace detail

/// Makes the lists of a layer by source, as `layer_stack` does on the host: each source's edges, ascending. A stable
/// sort of the edges by their sources, eight bits at a time. Owns scratch for layers of `most_edges` edges.
///
/// Cost: a pass reads sources twice, and reads and writes 16 bytes per edge; 1 pass for up to 2⁸ sources, 2 for 2¹⁶, 3
/// for 2²⁴. Then a binary search per source. Memory: 17 bytes per edge.
class layer_transposer {
public:
    /// Allocates scratch for layers of at most `most_edges` edges. Throws `over_budget`.
    layer_transposer(memory_budget& budget, std::uint32_t most_edges)
        : keys_{buffer(budget, "sources of edges, sorted", most_edges),
              buffer(budget, "sources of edges, sorted", most_edges)},
          edges_{buffer(budget, "edges by source", most_edges), buffer(budget, "edges by source", most_edges)},
          starts_(buffer(budget, "digits of sources", most_starts(most_edges) + std::size_t{1})),
          sums_(budget, "sums of tiles", prefix_tiles::scratch(most_starts(most_edges))) {}

    /// Makes by_source_offsets [sources + 1] and by_source_edges [edges] of a layer with given counts and neighbors.
    void operator()(
        cudaStream_t in, const layer_view& layer, std::uint32_t* by_source_offsets, std::uint32_t* by_source_edges) {
        using tiles = detail::digit_tiles;
        constexpr unsigned threads = tiles::threads;
        const item_count edges{&layer.counts->edges}, digits{&layer.counts->edges, tiles::items, tiles::digits};
        const unsigned bits =
            std::max(static_cast<unsigned>(std::bit_width(std::max(layer.source_capacity, 1U) - 1)), 1U);
        const unsigned passes = ceil_div(bits, tiles::bits);
        const dim3 grid = detail::strided_grid(layer.edge_capacity, tiles::items);
        const std::uint32_t *keys = layer.neighbors, *values = nullptr;
        for (unsigned pass = 0; pass < passes; ++pass) {
            const unsigned shift = pass * tiles::bits;
            std::uint32_t* const to_keys = keys_[pass % 2].data();
            std::uint32_t* const to = pass + 1 == passes ? by_source_edges : edges_[pass % 2].data();
            launch(in, detail::count_digits<threads>, grid, threads, 0, edges, keys, shift, starts_.data());
            prefix_sums(in, digits, most_starts(layer.edge_capacity), starts_.data(), sums_.data());
            launch(in, detail::move_by_digit<threads>, grid, threads, 0, edges, keys, values, shift, starts_.data(),
                to_keys, to);
            keys = to_keys;
            values = to;
        }
        launch(in, detail::begin_of_keys<threads>,
            detail::strided_grid(layer.source_capacity + std::size_t{1}, threads), threads, 0, layer.counts, keys,
            by_source_offsets);
    }

private:
    using buffer = device_buffer<std::uint32_t>;

    [[nodiscard]] static std::uint32_t most_starts(std::uint32_t edges) noexcept {
        return ceil_div(edges, detail::digit_tiles::items) * detail::digit_tiles::digits;
    }

    buffer keys_[2], edges_[2];
    buffer starts_;
    device_buffer<std::uint64_t> sums_;
};

} // namespace gneiss::cuda
