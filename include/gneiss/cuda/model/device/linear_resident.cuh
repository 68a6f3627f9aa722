// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/linear.cuh>
#include <gneiss/cuda/model/warp/wgmma_tile.cuh>

// `linear` of bfloat16 rows with resident weights in shared memory: each block reads the weights once and its rows
// once, and multiplies by whole warpgroups.
namespace gneiss::cuda {

/// Implementation of `linear`.
enum class linear_path : std::uint8_t {
    tiles,   ///< tiles of both operands, by warps: any shape and type
    resident ///< weights stay in shared memory, by warpgroups: bfloat16, up to 256 columns
};

namespace detail {

/// out = a · w by blocks that process 64 rows at a time, w [·, up to Columns].
template <unsigned Columns>
__global__ void __launch_bounds__(wgmma_tile::threads) multiply_resident(row_range a_rows, rows_view<const bfloat16> a,
    bool aligned, rows_view<const float> w, rows_view<bfloat16> out, epilogue then) {
    using tile = wgmma_tile;
    const unsigned depth = round_up(a.columns, tile::depth), lane = threadIdx.x % warp_lanes,
                   warp = threadIdx.x / warp_lanes;
    const std::uint32_t rows = __ldg(a_rows.count), shift = first_row(a_rows.first);
    if (blockIdx.x * tile::rows >= rows) return;
    bfloat16* const weights = dynamic_shared<bfloat16>();
    bfloat16* const mine = weights + std::size_t{depth} * Columns;
    for (unsigned i = threadIdx.x; i < depth * Columns; i += tile::threads) {
        const unsigned k = i / Columns, n = i % Columns;
        weights[brick_place(Columns, n, k)] = narrow<bfloat16>(k < a.columns && n < out.columns ? read(w[k] + n) : 0);
    }
    for (std::uint32_t row = blockIdx.x * tile::rows; row < rows; row += gridDim.x * tile::rows) {
        __syncthreads(); // the previous rows are no longer used
        // 8 rows × 4 packets of 16 bytes per warp: whole sectors of memory, and all banks
        for (unsigned i = warp; i < tile::rows / 8 * ceil_div(depth, 32U); i += tile::threads / warp_lanes) {
            const unsigned r = i % (tile::rows / 8) * 8 + lane % 8, k = i / (tile::rows / 8) * 32 + lane / 8 * 8;
            if (k >= depth) continue;
            struct alignas(16) packet {
                bfloat16 value[8];
            } in{};
            if (row + r < rows && k < a.columns) {
                const bfloat16* const from = a[row + r + shift] + k;
                if (aligned) in = __builtin_bit_cast(packet, __ldg(reinterpret_cast<const uint4*>(from)));
                GNEISS_UNROLL
                for (unsigned e = 0; e < 8; ++e)
                    if (k + e >= a.columns)
                        in.value[e] = bfloat16{};
                    else if (!aligned)
                        in.value[e] = read(from + e);
            }
            *reinterpret_cast<uint4*>(mine + brick_place(tile::rows, r, k)) = __builtin_bit_cast(uint4, in);
        }
        tile::publish();
        __syncthreads();
        tile::sums sums[Columns / tile::columns];
        GNEISS_UNROLL
        for (auto& of_columns : sums) GNEISS_UNROLL
        for (float& sum : of_columns) sum = 0;
        tile::begin(sums);
        GNEISS_NO_UNROLL
        for (unsigned k = 0; k < depth; k += tile::depth) GNEISS_UNROLL
        for (unsigned j = 0; j < Columns / tile::columns; ++j)
            tile::multiply_add(sums[j], mine + brick_place(tile::rows, 0, k), tile::rows,
                weights + brick_place(Columns, j * tile::columns, k), Columns);
        tile::finish(sums);
        const write_tile<bfloat16> put{out, then, row, 0, rows, 0};
        GNEISS_UNROLL
        for (unsigned j = 0; j < Columns / tile::columns; ++j) GNEISS_UNROLL
        for (unsigned i = 0; i < 32; i += 2)
            put(tile::row(i / 2 % 2), j * tile::columns + tile::column(i / 4), sums[j][i], sums[j][i + 1]);
    }
}

/// Returns the bytes of shared memory for weights [k, n] and 64 rows; n as in the kernel.
[[nodiscard]] constexpr std::size_t resident_bytes(std::size_t k, std::size_t n) noexcept {
    return round_up(k, std::size_t{wgmma_tile::depth}) * (n + wgmma_tile::rows) * sizeof(bfloat16);
}
[[nodiscard]] constexpr std::uint32_t resident_columns(std::uint32_t n) noexcept {
    return n <= 64 ? 64 : n <= 128 ? 128 : 256;
}

} // namespace detail

/// Returns the path for x [·, k] · w [k, n] of rows of T on a device with this compute capability and shared memory per
/// block [bytes]: resident if the weights fit and warpgroups can multiply, which only compute capability 9.0 supports.
template <storage T>
[[nodiscard]] linear_path linear_path_of(
    std::uint32_t k, std::uint32_t n, int capability_major, std::uint64_t shared_memory) {
    const bool fits =
        sizeof(T) == 2 && n <= 256 && detail::resident_bytes(k, detail::resident_columns(n)) <= shared_memory;
    return fits && capability_major == 9 ? linear_path::resident : linear_path::tiles;
}

/// `linear` of bfloat16 rows with resident weights: results differ from the other path's only in the order of sums.
///
/// Shapes as there, n up to 256 and weights that fit. `multiprocessors` of the device: four blocks are started for
/// each. Kernels must be compiled for sm_90a to use its instructions; otherwise results are the same, but slow. Cost: 2
/// · rows · k · n operations; x is read once, w once per block.
inline void linear_resident(cudaStream_t stream, const row_range& rows, rows_view<const bfloat16> x,
    rows_view<const float> w, rows_view<bfloat16> out, std::uint32_t multiprocessors, const epilogue& then = {}) {
    const auto with = [&](auto kernel, std::uint32_t columns) {
        launch(stream, kernel, std::min(ceil_div(rows.capacity, detail::wgmma_tile::rows), 4 * multiprocessors),
            detail::wgmma_tile::threads, detail::resident_bytes(x.columns, columns), rows, x, x.aligned(), w, out,
            then);
    };
    if (out.columns <= 64)
        with(detail::multiply_resident<64>, 64);
    else if (out.columns <= 128)
        with(detail::multiply_resident<128>, 128);
    else
        with(detail::multiply_resident<256>, 256);
}

} // namespace gneiss::cuda
