// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/model/regularizer.hpp>

namespace gneiss::cuda {

namespace detail {

/// Adds scale · ∂penalty to the gradient of a row, and computes the row's penalty, one warp per row. N3 uses moduli for
/// complex rows.
template <storage T>
__global__ void __launch_bounds__(256)
    penalize(const std::uint32_t* count, norm_penalty penalty, double weight, bool complex_rows, const float* factors,
        rows_view<const T> rows, const std::uint32_t* ids, rows_view<float> gradient, float* penalties) {
    const std::uint32_t i = grid_warp();
    if (i >= __ldg(count)) return;
    const auto scale = static_cast<float>(static_cast<double>(read(factors + i)) * weight);
    const T* const x = rows[ids == nullptr ? i : __ldg(ids + i)];
    float* const to = gradient[i];
    const bool pairs = complex_rows && penalty == norm_penalty::n3;
    const std::uint32_t terms = pairs ? rows.columns / 2 : rows.columns;
    float sum = 0;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < terms; c += warp_lanes) {
        const float value = widen(read(x + c)), other = pairs ? widen(read(x + terms + c)) : 0;
        const float square = value * value + other * other, modulus = sqrtf(square);
        const float by = penalty == norm_penalty::l2 ? 2 * scale : 3 * scale * modulus;
        sum += penalty == norm_penalty::l2 ? square : square * modulus;
        write(to + c, reread(to + c) + by * value);
        if (pairs) write(to + terms + c, reread(to + terms + c) + by * other);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % warp_lanes == 0) write(penalties + i, scale * sum);
}
/// Sums the penalties; one block.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    add_penalties(const std::uint32_t* count, const float* penalties, double* total) {
    double sum = 0;
    for (std::uint32_t i = threadIdx.x; i < __ldg(count); i += Threads) sum += static_cast<double>(read(penalties + i));
    sum = block_sum(sum);
    if (threadIdx.x == 0) *total += sum;
}

} // namespace detail

/// Applies `regularizer::add_gradient` to each row: adds factors[i] · λ · ∂penalty(row i) to row i of `gradient`, and
/// all penalties to *total. Row i is ids[i] of `rows` if there are ids.
///
/// rows and gradient [*count, dim], at most `capacity` rows, factors [*count]; penalties [capacity] is scratch. Cost:
/// one read of the rows, a read and a write of the gradient. Does nothing if the penalty is not active.
template <storage T>
void add_penalty(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const regularizer& by,
    bool complex_rows, const float* factors, rows_view<const T> rows, rows_view<float> gradient, float* penalties,
    double* total, const std::uint32_t* ids = nullptr) {
    if (!by.active()) return;
    launch(stream, detail::penalize<T>, detail::warp_grid(capacity), 256, 0, count, by.penalty, by.weight, complex_rows,
        factors, rows, ids, gradient, penalties);
    launch(stream, detail::add_penalties<256>, 1, 256, 0, count, penalties, total);
}

} // namespace gneiss::cuda
