// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/dropout.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/model/activation.hpp>

// Element-wise functions of rows: dropout, sums, activations and biases after sums, their gradients, and rows of a
// table by ids. One pass each, one warp per row; results may overwrite inputs.
namespace gneiss::cuda {

/// A row that enters a cache.
struct cache_entry {
    std::uint32_t row = 0;  ///< its number among the rows that come
    std::uint32_t slot = 0; ///< the slot that it takes
};

namespace detail {

[[nodiscard]] __device__ inline float activated(activation act, float x) {
    switch (act) {
    case activation::relu: return activate<activation::relu>(x);
    case activation::leaky_relu: return activate<activation::leaky_relu>(x);
    case activation::elu: return activate<activation::elu>(x);
    case activation::tanh: return activate<activation::tanh>(x);
    case activation::sigmoid: return activate<activation::sigmoid>(x);
    default: return x;
    }
}
[[nodiscard]] __device__ inline float slope_of(activation act, float y) {
    switch (act) {
    case activation::relu: return activation_slope<activation::relu>(y);
    case activation::leaky_relu: return activation_slope<activation::leaky_relu>(y);
    case activation::elu: return activation_slope<activation::elu>(y);
    case activation::tanh: return activation_slope<activation::tanh>(y);
    case activation::sigmoid: return activation_slope<activation::sigmoid>(y);
    default: return 1;
    }
}

/// Positions of a map's rows in a matrix: row i at *first + i, or at the id stored there.
struct row_places {
    const std::uint32_t *first = nullptr, *ids = nullptr;

    [[nodiscard]] __device__ std::uint32_t operator[](std::uint32_t row) const {
        const std::uint32_t at = first_row(first) + row;
        return ids == nullptr ? at : __ldg(ids + at);
    }
};

/// out[r, c] = f(key of row r, c, a[r, c], b[r, c]), each row at its position; b without data is 0. `f.dropout` names
/// the rows.
template <storage T, table_value A, table_value B, bool Aligned, class F>
__global__ void __launch_bounds__(256) map_rows(const std::uint32_t* count, rows_view<const A> a, row_places a_at,
    rows_view<const B> b, row_places b_at, rows_view<T> out, row_places out_at, F f) {
    using slice_type = row_slice<T, warp_lanes, Aligned>;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count)) return;
    random_key key(0, random_domain::dropout);
    if (f.dropout.drops()) key = f.dropout.row_key(row);
    const A* const left_row = a[a_at[row]];
    const B* const right_row = b.data == nullptr ? nullptr : b[b_at[row]];
    T* const to = out[out_at[row]];
    for (unsigned chunk = 0; chunk * slice_type::columns < a.columns; ++chunk) {
        const slice_type slice(chunk, threadIdx.x % warp_lanes, a.columns);
        const typename slice_type::packet left = slice.reload(left_row),
                                          right = slice.reload(right_row, right_row != nullptr);
        float result[slice_type::size];
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) // a last slice may exceed the row, and so a bias
            result[k] = slice.column(k) < a.columns ? f(key, slice.column(k), left[k], right[k]) : 0;
        slice.store(to, result);
    }
}
template <storage T, table_value A = T, table_value B = T, class F>
void map(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity,
    std::type_identity_t<rows_view<const A>> a, std::type_identity_t<rows_view<const B>> b, rows_view<T> out,
    const F& f, const row_places& a_at = {}, const row_places& b_at = {}, const row_places& out_at = {}) {
    const auto with = [&](auto kernel) {
        launch(stream, kernel, warp_grid(capacity), 256, 0, count, a, a_at, b, b_at, out, out_at, f);
    };
    if (a.aligned() && b.aligned() && out.aligned())
        with(map_rows<T, A, B, true, F>);
    else
        with(map_rows<T, A, B, false, F>);
}

struct drop {
    dropout_mask dropout;
    __device__ float operator()(const random_key& key, std::uint32_t column, float x, float) const {
        return dropout.drops() ? dropout.scale_of(key, column) * x : x;
    }
};
struct add_and_drop {
    dropout_mask dropout;
    __device__ float operator()(const random_key& key, std::uint32_t column, float x, float y) const {
        return dropout.drops() ? dropout.scale_of(key, column) * (x + y) : x + y;
    }
};
struct bias_and_activate {
    const float* bias;
    activation then;
    dropout_mask dropout;
    __device__ float operator()(const random_key& key, std::uint32_t column, float x, float) const {
        if (bias != nullptr) x += read(bias + column);
        x = activated(then, x);
        return dropout.drops() ? dropout.scale_of(key, column) * x : x;
    }
};
/// Gradient through dropout: y is the dropped result too, so kept values are scaled back.
struct activation_back {
    activation then;
    dropout_mask dropout;
    __device__ float operator()(const random_key& key, std::uint32_t column, float g, float y) const {
        if (!dropout.drops()) return g * slope_of(then, y);
        const float scale = dropout.scale_of(key, column);
        return scale == 0 ? 0 : g * scale * slope_of(then, y / scale);
    }
};

/// Slot of a row that is not in the near table.
constexpr std::uint32_t far_row = ~std::uint32_t{0};
/// Marks the place of a row that is not in a cache.
constexpr std::uint32_t brought_row = std::uint32_t{1} << 31;

template <table_value In, bool Aligned>
__global__ void __launch_bounds__(256) gather_from_tiers(const std::uint32_t* count, const std::uint32_t* ids,
    const std::uint32_t* slots, rows_view<const In> near, rows_view<const In> far, rows_view<float> out) {
    using slice_type = row_slice<float, warp_lanes, Aligned>;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count)) return;
    const std::uint32_t id = __ldg(ids + row), slot = __ldg(slots + id);
    const In* const from = slot == far_row ? far[id] : near[slot];
    float* const to = out[row];
    for (unsigned chunk = 0; chunk * slice_type::columns < out.columns; ++chunk) {
        const slice_type slice(chunk, threadIdx.x % warp_lanes, out.columns);
        slice.store(to, slice.load(from));
    }
}

template <table_value In, bool Aligned>
__global__ void __launch_bounds__(256) gather_from_cache(const std::uint32_t* count, const std::uint32_t* places,
    rows_view<const In> cache, rows_view<const In> brought, rows_view<float> out) {
    using slice_type = row_slice<float, warp_lanes, Aligned>;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count)) return;
    const std::uint32_t place = __ldg(places + row), number = place & ~brought_row;
    const In* const from = place == number ? cache[number] : brought[number];
    float* const to = out[row];
    for (unsigned chunk = 0; chunk * slice_type::columns < out.columns; ++chunk) {
        const slice_type slice(chunk, threadIdx.x % warp_lanes, out.columns);
        slice.store(to, slice.load(from));
    }
}
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) keep_in_cache(const std::uint32_t* count, const cache_entry* entries,
    rows_view<const std::uint32_t> brought, rows_view<std::uint32_t> cache) {
    const std::uint32_t i = grid_warp();
    if (i >= __ldg(count)) return;
    const cache_entry of = entries[i];
    const std::uint32_t* const from = brought[of.row];
    std::uint32_t* const to = cache[of.slot];
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < cache.columns; c += warp_lanes) to[c] = from[c];
}

/// One thread per element of the narrow matrix.
template <storage T>
__global__ void __launch_bounds__(256)
    mean_of_heads(const std::uint32_t* count, std::uint32_t heads, rows_view<const T> x, rows_view<T> out) {
    const std::size_t at = std::size_t{blockIdx.x} * 256 + threadIdx.x;
    const auto row = static_cast<std::uint32_t>(at / out.columns),
               column = static_cast<std::uint32_t>(at % out.columns);
    if (row >= __ldg(count)) return;
    float sum = 0;
    for (std::uint32_t h = 0; h < heads; ++h) sum += widen(read(x[row] + h * out.columns + column));
    write(out[row] + column, narrow<T>(sum / static_cast<float>(heads)));
}
template <storage T>
__global__ void __launch_bounds__(256)
    mean_of_heads_back(const std::uint32_t* count, std::uint32_t heads, rows_view<const T> g, rows_view<T> grad_x) {
    const std::size_t at = std::size_t{blockIdx.x} * 256 + threadIdx.x;
    const auto row = static_cast<std::uint32_t>(at / g.columns), column = static_cast<std::uint32_t>(at % g.columns);
    if (row >= __ldg(count)) return;
    const T share = narrow<T>(widen(read(g[row] + column)) / static_cast<float>(heads));
    for (std::uint32_t h = 0; h < heads; ++h) write(grad_x[row] + h * g.columns + column, share);
}
[[nodiscard]] inline dim3 element_grid(std::uint32_t rows, std::uint32_t columns) {
    return {static_cast<unsigned>(ceil_div(std::size_t{rows} * columns, std::size_t{256})), 1, 1};
}

} // namespace detail

/// out = x, scaled, where the mask keeps it; 0 elsewhere. x and out [*count, columns], at most `capacity` rows. The
/// same mask gives the gradient.
template <storage T>
void dropout(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const dropout_mask& mask,
    rows_view<const T> x, rows_view<T> out) {
    detail::map<T>(stream, count, capacity, x, {}, out, detail::drop{mask});
}

/// out[i] = dropped(table[rows.ids[*rows.first + i]]): rows of a table, with names as for the rows of `out`. Without
/// ids: the rows from *rows.first on.
template <storage T, table_value In = T>
void gather_rows(cudaStream_t stream, const row_range& rows, std::type_identity_t<rows_view<const In>> table,
    rows_view<T> out, const dropout_mask& mask = {}) {
    detail::map<T, In>(stream, rows.count, rows.capacity, table, {}, out, detail::drop{mask}, {rows.first, rows.ids});
}

/// out[i] = near[slots[ids[i]]], or far[ids[i]] where the slot is `far_row`: rows of a table in two tiers, of which the
/// near one is in device memory, the far one may be pinned. [*count, columns], at most `capacity` rows.
template <table_value In>
void gather_tiers(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const std::uint32_t* ids,
    const std::uint32_t* slots, rows_view<const In> near, rows_view<const In> far, rows_view<float> out) {
    const bool aligned = near.aligned() && far.aligned() && out.aligned();
    launch(stream, aligned ? detail::gather_from_tiers<In, true> : detail::gather_from_tiers<In, false>,
        detail::warp_grid(capacity), 256, 0, count, ids, slots, near, far, out);
}

/// out[i] = cache[places[i]], or brought[n] where the place is `detail::brought_row` | n. [*count, columns],
/// at most `capacity` rows.
template <table_value In>
void gather_cached(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const std::uint32_t* places,
    rows_view<const In> cache, rows_view<const In> brought, rows_view<float> out) {
    const bool aligned = cache.aligned() && brought.aligned() && out.aligned();
    launch(stream, aligned ? detail::gather_from_cache<In, true> : detail::gather_from_cache<In, false>,
        detail::warp_grid(capacity), 256, 0, count, places, cache, brought, out);
}
/// cache[entries[i].slot] = brought[entries[i].row], for i below *count, at most `capacity`: rows of 4-byte words.
/// Slots are distinct.
inline void keep_cached(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity,
    const cache_entry* entries, rows_view<const std::uint32_t> brought, rows_view<std::uint32_t> cache) {
    launch(stream, detail::keep_in_cache<256>, detail::warp_grid(capacity), 256, 0, count, entries, brought, cache);
}

/// out[i] = dropped(x[i] + y[*rows.first + i]), or with the row of y at the id there: a residual. out may be x.
template <storage T, table_value In = T>
void add_rows(cudaStream_t stream, const row_range& rows, rows_view<const T> x,
    std::type_identity_t<rows_view<const In>> y, rows_view<T> out, const dropout_mask& mask = {}) {
    detail::map<T, T, In>(
        stream, rows.count, rows.capacity, x, y, out, detail::add_and_drop{mask}, {}, {rows.first, rows.ids});
}
/// Gradient with respect to y: out[*rows.first + i] += g[i]. Precondition: no ids.
template <storage T>
void add_rows_backward(cudaStream_t stream, const row_range& rows, rows_view<const T> g, rows_view<T> out) {
    const detail::row_places there{rows.first, nullptr};
    detail::map<T>(stream, rows.count, rows.capacity, g, out, out, detail::add_and_drop{}, {}, there, there);
}

/// out = dropped(then(x + bias)), bias [columns] or null.
template <storage T>
void bias_activate(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const float* bias,
    activation then, rows_view<const T> x, rows_view<T> out, const dropout_mask& mask = {}) {
    detail::map<T>(stream, count, capacity, x, {}, out, detail::bias_and_activate{bias, then, mask});
}

/// out = the gradient of the input of dropped(then(·)), from the gradient g of its result y.
template <storage T>
void activate_backward(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, activation then,
    rows_view<const T> y, rows_view<const T> g, rows_view<T> out, const dropout_mask& mask = {}) {
    detail::map<T>(stream, count, capacity, g, y, out, detail::activation_back{then, mask});
}

/// out [rows, width] = the mean over the heads of x [rows, heads · width].
template <storage T>
void head_mean(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, std::uint32_t heads,
    rows_view<const T> x, rows_view<T> out) {
    launch(stream, detail::mean_of_heads<T>, detail::element_grid(capacity, out.columns), 256, 0, count, heads, x, out);
}
/// Gradient of `head_mean`: every head gets its share of g [rows, width].
template <storage T>
void head_mean_backward(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, std::uint32_t heads,
    rows_view<const T> g, rows_view<T> grad_x) {
    launch(stream, detail::mean_of_heads_back<T>, detail::element_grid(capacity, g.columns), 256, 0, count, heads, g,
        grad_x);
}

} // namespace gneiss::cuda
