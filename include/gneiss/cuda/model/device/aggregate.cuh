// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/reduce_lists.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// Gathering and reducing neighbors' rows, one read per edge: the aggregation of GraphSAGE and GCN. All kernels are
// asynchronous, allocate nothing and give bit-identical results for any thread order.
namespace gneiss::cuda {

/// Weight of an edge's row.
enum class edge_weight : std::uint8_t {
    one,
    mean,     ///< 1 / edges of its target
    symmetric ///< 1 / √(edges of its target · edges of its source)
};

namespace detail {

/// Σ weight · row; the weight is a factor of the list times one of the row.
template <storage T, table_value In, unsigned Lanes, bool Aligned>
class sum_reducer : public column_sums<row_slice<T, Lanes, Aligned>> {
    using slice_type = row_slice<T, Lanes, Aligned>;
    using sums = column_sums<slice_type>;
    using sums::slice_, sums::sum_;

public:
    static constexpr unsigned lanes = Lanes, flight = Aligned && Lanes == warp_lanes ? 8 : 4;
    using payload = float;
    using fetched = typename slice_type::packet;

    __device__ sum_reducer(const edge_lists& lists, edge_weight weight, rows_view<const In> in, rows_view<T> out)
        : sums(in.columns),
          lists_(lists),
          weight_(weight),
          in_(in),
          out_(out) {}

    __device__ void begin(std::uint32_t, const edge_lists::list&) { sums::clear(); }
    __device__ float look(const edge_lists::edge& edge, bool there) const {
        if (!there) return 0;
        if (weight_ == edge_weight::one || (weight_ == edge_weight::mean && !lists_.outgoing)) return 1;
        const auto edges = static_cast<float>(lists_.other_size(edge.row));
        return weight_ == edge_weight::mean ? 1 / edges : 1 / sqrtf(edges);
    }
    __device__ fetched fetch(std::uint32_t row, bool there) const { return slice_.load(in_[row], there); }
    __device__ void take(const fetched& row, float by, unsigned, bool there) { sums::add_scaled(row, there ? by : 0); }
    __device__ void finish(std::uint32_t row, const edge_lists::list& of) const {
        const float by = list_weight(of);
        float result[slice_type::size];
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) result[k] = by * sum_[k];
        if (threadIdx.x % warp_lanes < Lanes) slice_.store(out_[row], result);
    }

private:
    [[nodiscard]] __device__ float list_weight(const edge_lists::list& of) const {
        if (weight_ == edge_weight::one || (weight_ == edge_weight::mean && lists_.outgoing) || of.size() == 0)
            return 1;
        const auto edges = static_cast<float>(of.size());
        return weight_ == edge_weight::mean ? 1 / edges : 1 / sqrtf(edges);
    }

    const edge_lists& lists_;
    edge_weight weight_;
    rows_view<const In> in_;
    rows_view<T> out_;
};

/// Maximum of each column, the first of equals, and its edge.
template <storage T, table_value In, unsigned Lanes, bool Aligned>
class max_reducer {
    using slice_type = row_slice<T, Lanes, Aligned>;

public:
    static constexpr unsigned lanes = Lanes, flight = 4;
    using payload = std::uint32_t;
    using fetched = typename slice_type::packet;
    struct saved {
        float best[slice_type::columns];
        std::uint32_t winner[slice_type::columns];
    };

    __device__ max_reducer(rows_view<const In> in, rows_view<T> out, rows_view<std::uint32_t> winners)
        : in_(in),
          out_(out),
          winners_(winners),
          slice_(blockIdx.y, threadIdx.x % Lanes, in.columns) {}

    __device__ void begin(std::uint32_t, const edge_lists::list&) {
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) {
            best_[k] = 0;
            winner_[k] = edge_lists::no_row;
        }
    }
    __device__ std::uint32_t look(const edge_lists::edge& edge, bool) const { return edge.number; }
    __device__ fetched fetch(std::uint32_t row, bool there) const { return slice_.load(in_[row], there); }
    __device__ void take(const fetched& row, std::uint32_t edge, unsigned, bool there) {
        if (!there) return;
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) compete(k, row[k], edge);
    }
    __device__ void merge_groups() {
        GNEISS_UNROLL
        for (int apart = warp_lanes / 2; apart >= static_cast<int>(Lanes); apart /= 2) GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) {
            const float value = __shfl_xor_sync(whole_warp, best_[k], apart);
            const std::uint32_t edge = __shfl_xor_sync(whole_warp, winner_[k], apart);
            if (edge != edge_lists::no_row) compete(k, value, edge);
        }
    }
    __device__ void save(saved& to) const {
        slice_.keep(to.best, best_);
        slice_.keep(to.winner, winner_);
    }
    __device__ void add(const saved& from) {
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k)
            if (from.winner[slice_.place(k)] != edge_lists::no_row)
                compete(k, from.best[slice_.place(k)], from.winner[slice_.place(k)]);
    }
    __device__ void finish(std::uint32_t row, const edge_lists::list&) const {
        if (threadIdx.x % warp_lanes >= Lanes) return;
        slice_.store(out_[row], best_);
        slice_.store_numbers(winners_[row], winner_);
    }

private:
    __device__ void compete(unsigned k, float value, std::uint32_t edge) {
        const bool wins =
            winner_[k] == edge_lists::no_row || value > best_[k] || (value == best_[k] && edge < winner_[k]);
        best_[k] = wins ? value : best_[k];
        winner_[k] = wins ? edge : winner_[k];
    }

    rows_view<const In> in_;
    rows_view<T> out_;
    rows_view<std::uint32_t> winners_;
    slice_type slice_;
    float best_[slice_type::size];
    std::uint32_t winner_[slice_type::size];
};

/// Σ of the columns of targets' gradients in which the source's edges are the maximum.
template <storage T, unsigned Lanes, bool Aligned>
class won_reducer : public column_sums<row_slice<T, Lanes, Aligned>> {
    using slice_type = row_slice<T, Lanes, Aligned>;
    using sums = column_sums<slice_type>;
    using sums::slice_, sums::sum_;

public:
    static constexpr unsigned lanes = Lanes, flight = 2;
    using payload = std::uint32_t;
    struct fetched {
        typename slice_type::packet gradient;
        std::uint32_t winner[slice_type::size];
    };

    __device__ won_reducer(rows_view<const T> gradient, rows_view<const std::uint32_t> winners, rows_view<T> out)
        : sums(gradient.columns),
          gradient_(gradient),
          winners_(winners),
          out_(out) {}

    __device__ void begin(std::uint32_t, const edge_lists::list&) { sums::clear(); }
    __device__ std::uint32_t look(const edge_lists::edge& edge, bool) const { return edge.number; }
    __device__ fetched fetch(std::uint32_t row, bool there) const {
        fetched in{slice_.load(gradient_[row], there), {}};
        slice_.load_numbers(winners_[row], in.winner, there);
        return in;
    }
    __device__ void take(const fetched& in, std::uint32_t edge, unsigned, bool there) {
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) sum_[k] += there && in.winner[k] == edge ? in.gradient[k] : 0;
    }
    __device__ void finish(std::uint32_t row, const edge_lists::list&) const {
        if (threadIdx.x % warp_lanes < Lanes) slice_.store(out_[row], sum_);
    }

private:
    rows_view<const T> gradient_;
    rows_view<const std::uint32_t> winners_;
    rows_view<T> out_;
};

template <storage T, table_value In, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(list_blocks::threads, 2)
    aggregate(edge_lists lists, edge_weight weight, rows_view<const In> in, rows_view<T> out) {
    sum_reducer<T, In, Lanes, Aligned> reduce(lists, weight, in, out);
    reduce_lists(lists, reduce);
}
template <storage T, table_value In, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(list_blocks::threads, 2)
    aggregate_max(edge_lists lists, rows_view<const In> in, rows_view<T> out, rows_view<std::uint32_t> winners) {
    max_reducer<T, In, Lanes, Aligned> reduce(in, out, winners);
    reduce_lists(lists, reduce);
}
template <storage T, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(list_blocks::threads, 2) aggregate_max_backward(
    edge_lists lists, rows_view<const T> gradient, rows_view<const std::uint32_t> winners, rows_view<T> out) {
    won_reducer<T, Lanes, Aligned> reduce(gradient, winners, out);
    reduce_lists(lists, reduce);
}

} // namespace detail

/// out[i] = Σ weight · in[row] over the edges of list i: the forward pass for `incoming` lists, its gradient for
/// `outgoing` ones, and rows of a table for `gathered` ones. A list without edges gives 0.
///
/// in [rows at the other end, columns], out [lists, columns]; launches lists.capacity rows, writes lists.size().
/// `symmetric`, and `mean` of outgoing lists, need both directions. A table of halves gives the bits of its floats.
/// Cost: one row read per edge, 16 bytes per lane if
/// both are `aligned()`, and 4 to 16 bytes per edge of lists; a warp has 8 to 16 rows in flight.
template <storage T, table_value In = T>
void aggregate(cudaStream_t stream, const edge_lists& lists, edge_weight weight,
    std::type_identity_t<rows_view<const In>> in, rows_view<T> out) {
    detail::with_slices<T>(in.columns, in.aligned() && out.aligned(), [&]<class Slice>(Slice) {
        launch(stream, detail::aggregate<T, In, Slice::lanes, Slice::aligned>,
            detail::list_blocks::grid(lists.capacity, Slice::chunks(in.columns)), detail::list_blocks::threads, 0,
            lists, weight, in, out);
    });
}

/// out[i, c] = max in[row, c] over the edges of list i, the first of equals, and winners[i, c] = the edge's number; a
/// list without edges gives 0 and no winner. The result for NaN is unspecified. Without own edges.
///
/// Shapes as of `aggregate`, winners [lists, columns]. Cost: that of `aggregate` and the winners written.
template <storage T, table_value In = T>
void aggregate_max(cudaStream_t stream, const edge_lists& lists, std::type_identity_t<rows_view<const In>> in,
    rows_view<T> out, rows_view<std::uint32_t> winners) {
    GNEISS_ASSERT(!lists.loops);
    detail::with_slices<T>(in.columns, in.aligned() && out.aligned() && winners.aligned(), [&]<class Slice>(Slice) {
        launch(stream, detail::aggregate_max<T, In, Slice::lanes, Slice::aligned>,
            detail::list_blocks::grid(lists.capacity, Slice::chunks(in.columns)), detail::list_blocks::threads, 0,
            lists, in, out, winners);
    });
}

/// The gradient of `aggregate_max`: out[s, c] = Σ gradient[t, c] over the edges of `outgoing` list s that won there.
///
/// gradient and winners [targets, columns], out [sources, columns]. Cost: reads one row of each per edge.
template <storage T>
void aggregate_max_backward(cudaStream_t stream, const edge_lists& lists, rows_view<const T> gradient,
    rows_view<const std::uint32_t> winners, rows_view<T> out) {
    GNEISS_ASSERT(lists.outgoing && !lists.loops);
    detail::with_slices<T>(
        gradient.columns, gradient.aligned() && out.aligned() && winners.aligned(), [&]<class Slice>(Slice) {
            launch(stream, detail::aggregate_max_backward<T, Slice::lanes, Slice::aligned>,
                detail::list_blocks::grid(lists.capacity, Slice::chunks(gradient.columns)),
                detail::list_blocks::threads, 0, lists, gradient, winners, out);
        });
}

} // namespace gneiss::cuda
