// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>

// Sums over all rows of a matrix, in two passes: over slices of rows in parallel, then over the slices in order.
namespace gneiss::cuda {

/// Rows of a matrix: `count` of them, at most `capacity`, from row *first on; or those of a table at the ids stored
/// from there on. In device memory except the capacity.
struct row_range {
    const std::uint32_t* count = nullptr; ///< number of rows, in device memory
    std::uint32_t capacity = 0;           ///< maximum number of rows
    const std::uint32_t* first = nullptr; ///< null: 0
    const std::uint32_t* ids = nullptr;   ///< positions of rows in the table; null: in order
};

/// Partition of rows for sums. Kernels divide the rows that there are, so that sums have the same parts, and the same
/// bits, for any capacity; grids and scratch have the slices of the capacity, which are at least as many.
struct partial_slices {
    /// Least rows of a slice, most slices, and the unit of rows.
    static constexpr std::uint32_t least_rows = 512, most = 256, unit = 32;

    std::uint32_t slices, slice_rows; ///< number of slices, and rows of each

    /// Divides `rows` rows.
    GNEISS_HD constexpr explicit partial_slices(std::uint32_t rows)
        : slices(rows <= least_rows          ? 1
                  : rows > least_rows * most ? most
                                             : ceil_div(rows, least_rows)),
          slice_rows(rows == 0 ? unit : round_up(ceil_div(rows, slices), unit)) {}
    /// Returns the floats of scratch for `sums` sums.
    [[nodiscard]] std::size_t floats(std::size_t sums) const noexcept { return slices * sums; }
};

namespace detail {

[[nodiscard]] __device__ inline std::uint32_t first_row(const std::uint32_t* first) {
    return first == nullptr ? 0 : __ldg(first);
}

/// Returns Σ of the threads' values, in a fixed order, by a block of 256; thread 0 holds it.
template <class V>
__device__ inline V block_sum(V mine) {
    __shared__ V sums[256];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned width = 128; width > 0; width /= 2) {
        if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
        __syncthreads();
    }
    const V sum = sums[0];
    __syncthreads(); // before the next sum reuses the memory
    return sum;
}

/// to[i] += Σ partial[slice, i], over the slices of *rows rows.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) add_partials(
    const std::uint32_t* rows, const float* partial, std::uint32_t columns, std::size_t size, rows_view<float> to) {
    const std::size_t i = std::size_t{blockIdx.x} * Threads + threadIdx.x;
    if (i >= size) return;
    const std::uint32_t slices = partial_slices(__ldg(rows)).slices;
    float sum = 0;
    for (std::uint32_t slice = 0; slice < slices; ++slice) sum += read(partial + slice * size + i);
    float* const at = to[i / columns] + i % columns;
    write(at, reread(at) + sum);
}

/// Adds slices of `size` sums each, over *rows rows, to the rows of `to`.
inline void add_partial_sums(
    cudaStream_t stream, const std::uint32_t* rows, std::size_t size, const float* partial, rows_view<float> to) {
    launch(stream, add_partials<256>, dim3(static_cast<unsigned>(ceil_div(size, std::size_t{256}))), 256, 0, rows,
        partial, to.columns, size, to);
}

/// partial[slice, c] = Σ term(row, c) over the slice's rows, for 32 columns: each warp processes every eighth row.
template <class Term>
__global__ void __launch_bounds__(256)
    sum_columns(const std::uint32_t* count, std::uint32_t columns, Term term, float* partial) {
    __shared__ float sums[8][warp_lanes];
    const unsigned lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
    const std::uint32_t column = blockIdx.x * warp_lanes + lane, rows = __ldg(count);
    const partial_slices cut(rows);
    if (blockIdx.y >= cut.slices) return;
    const std::uint32_t begin = min(blockIdx.y * cut.slice_rows, rows), end = min(begin + cut.slice_rows, rows);
    float sum = 0;
    if (column < columns)
        for (std::uint32_t row = begin + warp; row < end; row += 8) sum += term(row, column);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= columns) return;
    for (unsigned w = 1; w < 8; ++w) sum += sums[w][lane];
    write(partial + std::size_t{blockIdx.y} * columns + column, sum);
}

/// out[c] += Σ term(row, c); term is a function object for devices; scratch holds
/// partial_slices(capacity).floats(columns).
template <class Term>
void add_columns(
    cudaStream_t stream, const row_range& rows, std::uint32_t columns, const Term& term, float* scratch, float* out) {
    const dim3 grid(ceil_div(columns, warp_lanes), partial_slices(rows.capacity).slices);
    launch(stream, sum_columns<Term>, grid, 256, 0, rows.count, columns, term, scratch);
    add_partial_sums(stream, rows.count, columns, scratch, rows_view<float>(out, columns, columns));
}

template <storage T>
struct column_term {
    rows_view<const T> x;
    const std::uint32_t* first;
    rows_view<const float> weights; ///< null: 1
    std::uint32_t width;            ///< columns per weight

    __device__ float operator()(std::uint32_t row, std::uint32_t column) const {
        const float value = widen(read(x[row + first_row(first)] + column));
        return weights.data == nullptr ? value : value * read(weights[row] + column / width);
    }
};

} // namespace detail

/// out[c] += Σ x[*rows.first + r, c]: the gradient of a bias. Or each term times weights[r, c / width], width = columns
/// / weights' columns: the gradient of vectors that heads are multiplied by.
///
/// x [·, columns], weights [rows, heads], out [columns]; scratch holds partial_slices(rows.capacity).floats(columns)
/// floats.
/// Cost: one read of x.
template <storage T>
void add_column_sums(cudaStream_t stream, const row_range& rows, rows_view<const T> x, float* scratch, float* out,
    rows_view<const float> weights = {}) {
    const std::uint32_t width = weights.data == nullptr ? x.columns : x.columns / weights.columns;
    detail::add_columns(stream, rows, x.columns, detail::column_term<T>{x, rows.first, weights, width}, scratch, out);
}

} // namespace gneiss::cuda
