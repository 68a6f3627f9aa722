// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/product.cuh>
#include <gneiss/cuda/model/block/reduce_lists.cuh>
#include <gneiss/cuda/model/device/dropout.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// Products of sparse rows, such as bags of words. Such a matrix is a layer whose edges carry values: edges lead from
// its rows, the targets, to its columns, the sources, with lists in both directions. So products walk lists like sums
// over neighbors, without atomics; the dropout of entries is recomputed at every read.
namespace gneiss::cuda {

/// `gneiss::sparse_rows` for kernels: entry e has the value values[e], at row edge_target[e] and column neighbors[e].
struct sparse_rows {
    std::uint32_t columns = 0;     ///< 0: none
    layer_view entries{};          ///< targets are rows, sources columns; source_capacity ≥ columns
    const float* values = nullptr; ///< [edges]; null: all 1
    dropout_mask dropout{};        ///< dropout of entries, by row and column

    /// True if the entries are the same; a pass sets their dropout.
    friend bool operator==(const sparse_rows& a, const sparse_rows& b) {
        return a.columns == b.columns && a.entries == b.entries && a.values == b.values;
    }
};

/// Rows of a sparse matrix in a product: counts->targets of them, at most `capacity`, from row *first on.
struct sparse_range {
    const layer_counts* counts = nullptr; ///< counts of the batch
    std::uint32_t capacity = 0;           ///< maximum number of rows
    const std::uint32_t* first = nullptr; ///< null: 0
};

namespace detail {

/// Σ value · row over a list: rows of weights by the entries of a row, or rows of gradients by those of a column.
template <storage T, unsigned Lanes, bool Aligned, class Finish>
class entry_reducer : public column_sums<row_slice<T, Lanes, Aligned>> {
    using slice_type = row_slice<T, Lanes, Aligned>;
    using sums = column_sums<slice_type>;
    using sums::slice_, sums::sum_;

public:
    static constexpr unsigned lanes = Lanes, flight = 4;
    using payload = float;
    using fetched = typename slice_type::packet;

    /// `first` and `count`: the included rows of the sparse matrix.
    __device__ entry_reducer(bool by_column, const sparse_rows& x, std::uint32_t first, std::uint32_t count,
        rows_view<const T> in, const Finish& finish)
        : sums(in.columns),
          by_column_(by_column),
          x_(x),
          first_(first),
          count_(count),
          in_(in),
          finish_(finish) {}

    __device__ void begin(std::uint32_t row, const edge_lists::list&) {
        sums::clear();
        list_ = row;
    }
    /// Returns the value of an entry, or 0 outside the included rows.
    __device__ float look(const edge_lists::edge& edge, bool there) const {
        const std::uint32_t row = by_column_ ? edge.row : list_ + first_, column = by_column_ ? list_ : edge.row;
        if (!there || row - first_ >= count_) return 0;
        const float value = x_.values == nullptr ? 1 : __ldg(x_.values + edge.number);
        return x_.dropout.drops() ? value * x_.dropout.scale_of(x_.dropout.row_key(row), column) : value;
    }
    __device__ fetched fetch(std::uint32_t row, bool there) const {
        const std::uint32_t at = by_column_ ? row - first_ : row; // wraps before the included rows
        return slice_.load(in_[at], there && (!by_column_ || at < count_));
    }
    __device__ void take(const fetched& row, float by, unsigned, bool there) { sums::add_scaled(row, there ? by : 0); }
    __device__ void finish(std::uint32_t row, const edge_lists::list& of) const {
        if (threadIdx.x % warp_lanes >= Lanes) return;
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k)
            if (slice_.column(k) < slice_.all) finish_(row, slice_.column(k), sum_[k], of);
    }

private:
    bool by_column_;
    const sparse_rows& x_;
    std::uint32_t first_, count_;
    rows_view<const T> in_;
    const Finish& finish_;
    std::uint32_t list_ = 0;
};

template <storage T>
struct finish_product {
    rows_view<T> out;
    epilogue then;

    __device__ void operator()(std::uint32_t row, std::uint32_t column, float sum, const edge_lists::list&) const {
        random_key key(0, random_domain::dropout);
        if (then.dropout.drops()) key = then.dropout.row_key(row);
        write_finished(then, out[row] + column, sum, column, key);
    }
};
struct add_to_gradient {
    rows_view<float> out;

    __device__ void operator()(std::uint32_t row, std::uint32_t column, float sum, const edge_lists::list& of) const {
        if (of.size() != 0) write(out[row] + column, reread(out[row] + column) + sum);
    }
};

template <storage T, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(list_blocks::threads, 2) sparse_product(
    edge_lists lists, sparse_rows x, sparse_range range, rows_view<const float> w, finish_product<T> finish) {
    const std::uint32_t first = first_row(range.first);
    lists.counts = range.counts;
    lists.offsets += first;
    entry_reducer<float, Lanes, Aligned, finish_product<T>> reduce(false, x, first, range.counts->targets, w, finish);
    reduce_lists(lists, reduce);
}
template <storage T, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(list_blocks::threads, 2) sparse_product_tn(
    edge_lists lists, sparse_rows x, sparse_range range, rows_view<const T> g, add_to_gradient finish) {
    entry_reducer<T, Lanes, Aligned, add_to_gradient> reduce(
        true, x, first_row(range.first), range.counts->targets, g, finish);
    reduce_lists(lists, reduce);
}

} // namespace detail

/// out = x · w, then the epilogue: as `linear`, with sparse rows. Row i of out belongs to row *range.first + i of x.
///
/// w [x.columns, n], out [rows, n]. Cost: a row of w and 8 bytes per entry.
template <storage T>
void sparse_multiply(cudaStream_t stream, const sparse_rows& x, const sparse_range& range, rows_view<const float> w,
    rows_view<T> out, const epilogue& then = {}) {
    detail::with_slices<float>(w.columns, w.aligned(), [&]<class Slice>(Slice) {
        launch(stream, detail::sparse_product<T, Slice::lanes, Slice::aligned>,
            detail::list_blocks::grid(range.capacity, Slice::chunks(w.columns)), detail::list_blocks::threads, 0,
            incoming(x.entries), x, range, w, detail::finish_product<T>{out, then});
    });
}

/// grad_w += xᵀ · g over those rows, g [rows, n]. Precondition: lists in both directions.
///
/// Cost: a row of g and 12 bytes per entry, and one pass over the rows of grad_w whose columns have entries.
template <storage T>
void sparse_weight_gradient(cudaStream_t stream, const sparse_rows& x, const sparse_range& range, rows_view<const T> g,
    rows_view<float> grad_w) {
    detail::with_slices<T>(g.columns, g.aligned(), [&]<class Slice>(Slice) {
        launch(stream, detail::sparse_product_tn<T, Slice::lanes, Slice::aligned>,
            detail::list_blocks::grid(x.entries.source_capacity, Slice::chunks(g.columns)),
            detail::list_blocks::threads, 0, outgoing(x.entries), x, range, g, detail::add_to_gradient{grad_w});
    });
}

} // namespace gneiss::cuda
