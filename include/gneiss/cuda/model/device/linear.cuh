// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/product.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>

// Rows times weights, and the gradients. Weights are floats; bfloat16 rows are multiplied with weights rounded to it;
// sums are floats.
namespace gneiss::cuda {

namespace detail {

/// Writes a block's tile of a product.
template <storage T>
struct write_tile {
    rows_view<T> out;
    const epilogue& then;
    std::uint32_t row, column, rows, shift;

    __device__ void operator()(unsigned r, unsigned c, float left, float right) const {
        if (row + r >= rows) return;
        random_key key(0, random_domain::dropout);
        if (then.dropout.drops()) key = then.dropout.row_key(row + r);
        one(row + r, column + c, left, key);
        one(row + r, column + c + 1, right, key);
    }

private:
    __device__ void one(std::uint32_t r, std::uint32_t c, float sum, const random_key& key) const {
        if (c < out.columns) write_finished(then, out[r + shift] + c, sum, c, key);
    }
};

/// out = a · w, or a · wᵀ.
template <storage T, table_value In, bool Transposed, bool ById>
__global__ void __launch_bounds__(product_blocks::threads, 2)
    multiply(row_range a_rows, rows_view<const In> a, bool a_aligned, rows_view<const float> w, bool w_aligned,
        rows_view<T> out, const std::uint32_t* out_first, epilogue then) {
    const std::uint32_t rows = __ldg(a_rows.count), row = blockIdx.x * product_blocks::rows,
                        column = blockIdx.y * product_blocks::columns;
    if (row >= rows) return;
    const auto places = places_of<ById>(a_rows);
    const operand<In, false, std::remove_const_t<decltype(places)>> left{a, rows, a.columns, places, a_aligned};
    const operand<float, !Transposed> right{w, out.columns, a.columns, {}, w_aligned};
    const product_tile<T> tile(left, right, row, column, 0, a.columns);
    tile.for_each_pair(write_tile<T>{out, then, row, column, rows, first_row(out_first)});
}

/// Writes the sums of one slice of rows.
struct write_partial {
    float* out;
    std::uint32_t row, column, rows, columns;

    __device__ void operator()(unsigned r, unsigned c, float left, float right) const {
        if (row + r >= rows) return;
        float* const to = out + std::size_t{row + r} * columns + column + c;
        if (column + c < columns) write(to, left);
        if (column + c + 1 < columns) write(to + 1, right);
    }
};

/// partial[slice] [a.columns, g.columns] = aᵀ · g over the slice's rows.
template <storage T, table_value In, bool ById>
__global__ void __launch_bounds__(product_blocks::threads, 2) multiply_tn(
    row_range a_rows, rows_view<const In> a, bool a_aligned, rows_view<const T> g, bool g_aligned, float* partial) {
    const std::uint32_t count = __ldg(a_rows.count), row = blockIdx.x * product_blocks::rows,
                        column = blockIdx.y * product_blocks::columns;
    const partial_slices cut(count);
    if (blockIdx.z >= cut.slices) return;
    const std::uint32_t begin = min(blockIdx.z * cut.slice_rows, count), end = min(begin + cut.slice_rows, count);
    const auto places = places_of<ById>(a_rows);
    const operand<In, true, std::remove_const_t<decltype(places)>> left{a, a.columns, end, places, a_aligned};
    const operand<T, true> right{g, g.columns, end, {}, g_aligned};
    const product_tile<T> tile(left, right, row, column, begin, end);
    tile.for_each_pair(
        write_partial{partial + std::size_t{blockIdx.z} * a.columns * g.columns, row, column, a.columns, g.columns});
}

/// Calls f(std::bool_constant<by id>). Rows of a table of another type are always read by id.
template <storage T, table_value In, class F>
void with_places(const row_range& rows, F&& f) {
    if constexpr (std::is_same_v<T, In>)
        if (rows.ids == nullptr) return f(std::false_type{});
    GNEISS_ASSERT(rows.ids != nullptr);
    f(std::true_type{});
}

} // namespace detail

/// out = dropped(then(x · w + bias)), or first added to the existing values.
///
/// x [rows, k], or a table [·, k] if `rows` has ids; w [k, n], out [rows, n]; row i of out belongs to row *rows.first +
/// i of x, or to the row of its id there, and to row i of dropout's names. Rows of a table may be of half the size.
/// Cost: 2 · rows · k · n operations; x is read n / 64 times. Error: that of float sums, plus 2⁻²¹ of each product.
template <storage T, table_value In = T>
void linear(cudaStream_t stream, const row_range& rows, std::type_identity_t<rows_view<const In>> x,
    rows_view<const float> w, rows_view<T> out, const epilogue& then = {}) {
    using blocks = detail::product_blocks;
    detail::with_places<T, In>(rows, [&]<bool ById>(std::bool_constant<ById>) {
        launch(stream, detail::multiply<T, In, false, ById>,
            dim3(ceil_div(rows.capacity, blocks::rows), ceil_div(out.columns, blocks::columns)), blocks::threads, 0,
            rows, x, x.aligned(), w, w.aligned(), out, nullptr, then);
    });
}

/// grad_x (+)= g · wᵀ: the gradient of `linear` with respect to x; g [rows, n] is that of the input of `then`.
///
/// w [k, n], grad_x [·, k]: row *rows.first + i belongs to row i of g. Cost: as `linear`. Precondition: no ids.
template <storage T>
void linear_input_gradient(cudaStream_t stream, const row_range& rows, rows_view<const T> g, rows_view<const float> w,
    rows_view<T> grad_x, bool accumulate = false) {
    using blocks = detail::product_blocks;
    launch(stream, detail::multiply<T, T, true, false>,
        dim3(ceil_div(rows.capacity, blocks::rows), ceil_div(grad_x.columns, blocks::columns)), blocks::threads, 0,
        row_range{rows.count, rows.capacity}, g, g.aligned(), w, w.aligned(), grad_x, rows.first,
        epilogue{.accumulate = accumulate});
}

/// grad_w += xᵀ · g: the gradient of `linear` with respect to w, in two passes: products of slices of rows, then their
/// sum.
///
/// x [·, k] with rows from *rows.first on, or at the ids there, g [rows, n], grad_w [k, n]; scratch holds
/// partial_slices(rows.capacity).floats(k · n) floats. Cost: 2 · rows · k · n operations and twice the scratch.
template <storage T, table_value In = T>
void linear_weight_gradient(cudaStream_t stream, const row_range& rows, std::type_identity_t<rows_view<const In>> x,
    rows_view<const T> g, rows_view<float> grad_w, float* scratch) {
    using blocks = detail::product_blocks;
    const std::uint32_t slices = partial_slices(rows.capacity).slices;
    detail::with_places<T, In>(rows, [&]<bool ById>(std::bool_constant<ById>) {
        launch(stream, detail::multiply_tn<T, In, ById>,
            dim3(ceil_div(x.columns, blocks::rows), ceil_div(g.columns, blocks::columns), slices), blocks::threads, 0,
            rows, x, x.aligned(), g, g.aligned(), scratch);
    });
    detail::add_partial_sums(stream, rows.count, std::size_t{x.columns} * g.columns, scratch, grad_w);
}

} // namespace gneiss::cuda
