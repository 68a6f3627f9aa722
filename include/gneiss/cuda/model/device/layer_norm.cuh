// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>

namespace gneiss::cuda {

namespace detail {

/// Walks a warp's row by lanes: f(slice, packet of x, packet of y); y, which f may write, is 0 without data.
template <storage T, bool Aligned, class F>
__device__ inline void walk_row(rows_view<const T> x, rows_view<const T> y, std::uint32_t row, F&& f) {
    using slice_type = row_slice<T, warp_lanes, Aligned>;
    for (unsigned chunk = 0; chunk * slice_type::columns < x.columns; ++chunk) {
        const slice_type slice(chunk, threadIdx.x % warp_lanes, x.columns);
        f(slice, slice.load(x[row]), slice.reload(y[row], y.data != nullptr));
    }
}

template <storage T, bool Aligned>
__global__ void __launch_bounds__(256) normalize(const std::uint32_t* count, rows_view<const T> x, const float* gain,
    const float* bias, float epsilon, rows_view<T> out, rows_view<float> moments) {
    constexpr unsigned size = row_slice<T, warp_lanes, Aligned>::size;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count)) return;
    float sum = 0;
    walk_row<T, Aligned>(x, {}, row, [&sum](const auto& slice, const auto& value, const auto&) {
        for (unsigned k = 0; k < size; ++k) sum += slice.column(k) < slice.all ? value[k] : 0;
    });
    const auto columns = static_cast<float>(x.columns);
    const float mean = warp_sum(sum) / columns;
    sum = 0;
    walk_row<T, Aligned>(x, {}, row, [&sum, mean](const auto& slice, const auto& value, const auto&) {
        for (unsigned k = 0; k < size; ++k)
            sum += slice.column(k) < slice.all ? (value[k] - mean) * (value[k] - mean) : 0;
    });
    const float inverse = 1 / sqrtf(warp_sum(sum) / columns + epsilon);
    if (threadIdx.x % warp_lanes == 0) {
        write(moments[row], mean);
        write(moments[row] + 1, inverse);
    }
    walk_row<T, Aligned>(x, {}, row, [=](const auto& slice, const auto& value, const auto&) {
        float result[size];
        for (unsigned k = 0; k < size; ++k) {
            const unsigned column = slice.column(k);
            result[k] =
                column < slice.all ? (value[k] - mean) * inverse * read(gain + column) + read(bias + column) : 0;
        }
        slice.store(out[row], result);
    });
}

template <storage T, bool Aligned> // without the 4, ptxas spills 12 bytes for sm_80
__global__ void __launch_bounds__(256, 4) normalize_back(const std::uint32_t* count, rows_view<const T> x,
    rows_view<const float> moments, const float* gain, rows_view<T> g) {
    constexpr unsigned size = row_slice<T, warp_lanes, Aligned>::size;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count)) return;
    const float mean = read(moments[row]), inverse = read(moments[row] + 1);
    float sum = 0, along = 0;
    walk_row<T, Aligned>(x, g, row, [&](const auto& slice, const auto& value, const auto& gradient) {
        for (unsigned k = 0; k < size; ++k) {
            if (slice.column(k) >= slice.all) continue;
            const float scaled = gradient[k] * read(gain + slice.column(k));
            sum += scaled;
            along += scaled * (value[k] - mean) * inverse;
        }
    });
    const auto columns = static_cast<float>(x.columns);
    sum = warp_sum(sum) / columns;
    along = warp_sum(along) / columns;
    walk_row<T, Aligned>(x, g, row, [&](const auto& slice, const auto& value, const auto& gradient) {
        float result[size];
        for (unsigned k = 0; k < size; ++k)
            result[k] = slice.column(k) < slice.all
                ? inverse * (gradient[k] * read(gain + slice.column(k)) - sum - (value[k] - mean) * inverse * along)
                : 0;
        slice.store(g[row], result);
    });
}

template <storage T>
struct gain_term {
    rows_view<const T> x, g;
    rows_view<const float> moments;
    __device__ float operator()(std::uint32_t row, std::uint32_t column) const {
        return widen(read(g[row] + column)) * (widen(read(x[row] + column)) - read(moments[row])) *
            read(moments[row] + 1);
    }
};

} // namespace detail

/// out = rows of x with mean 0 and variance 1, times gain, plus bias; moments [rows, 2] = mean and 1 / √(variance +
/// epsilon).
///
/// x and out [*count, columns], at most `capacity` rows; gain and bias [columns]. Cost: x is read three times, twice
/// from cache.
/// Source: Ba, Kiros and Hinton, 2016.
template <storage T>
void layer_norm(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, rows_view<const T> x,
    const float* gain, const float* bias, float epsilon, rows_view<T> out, rows_view<float> moments) {
    const auto with = [&](auto kernel) {
        launch(stream, kernel, detail::warp_grid(capacity), 256, 0, count, x, gain, bias, epsilon, out, moments);
    };
    if (x.aligned() && out.aligned())
        with(detail::normalize<T, true>);
    else
        with(detail::normalize<T, false>);
}

/// Gradient of `layer_norm`: adds to grad_gain and grad_bias [columns], then replaces g by the gradient of x.
///
/// scratch holds partial_slices(capacity).floats(columns) floats. Cost: x is read three times, g twice from memory.
template <storage T>
void layer_norm_backward(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, rows_view<const T> x,
    rows_view<const float> moments, const float* gain, rows_view<T> g, float* grad_gain, float* grad_bias,
    float* scratch) {
    const row_range rows{count, capacity};
    detail::add_columns(stream, rows, x.columns, detail::gain_term<T>{x, g, moments}, scratch, grad_gain);
    add_column_sums<T>(stream, rows, g, scratch, grad_bias);
    const auto with = [&](auto kernel) {
        launch(stream, kernel, detail::warp_grid(capacity), 256, 0, count, x, moments, gain, g);
    };
    if (x.aligned() && g.aligned())
        with(detail::normalize_back<T, true>);
    else
        with(detail::normalize_back<T, false>);
}

} // namespace gneiss::cuda
