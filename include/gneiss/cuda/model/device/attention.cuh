// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/reduce_lists.cuh>
#include <gneiss/cuda/model/device/dropout.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// The forward pass of graph attention over the edges of a layer; attention_backward.cuh has the backward pass.
namespace gneiss::cuda {

/// Options of attention. A row consists of `heads` slices of equal width.
struct attention_options {
    std::uint32_t heads = 1; ///< slices of a row
    float slope = 0.2F;      ///< slope of LeakyReLU below 0
    dropout_mask dropout{};  ///< dropout of attentions: row = target, column = place in its list · heads + head
};

/// Terms of the scores of a layer's targets, and data for the backward pass: [targets, 3 · heads] floats, [terms |
/// log-sum-exps
/// | dots of gradients and sums], so that those of an edge are adjacent.
using target_terms = rows_view<float>;

namespace detail {

/// Positions of head slices among a lane's values: one head for all of them, or one each.
template <class Slice, bool PerValue>
struct slice_heads {
    static constexpr unsigned count = PerValue ? Slice::size : 1;

    const Slice& slice;
    std::uint32_t width; ///< columns of a head

    [[nodiscard]] __device__ bool there(unsigned s) const noexcept { return slice.column(s) < slice.all; }
    [[nodiscard]] __device__ std::uint32_t operator[](unsigned s) const noexcept { return slice.column(s) / width; }
    /// True if this lane holds the first value of that head.
    [[nodiscard]] __device__ bool first(unsigned s) const noexcept { return there(s) && slice.column(s) % width == 0; }
    [[nodiscard]] __device__ static unsigned of_value(unsigned k) noexcept { return PerValue ? k : 0; }
};

[[nodiscard]] __device__ inline float leaky(float x, float slope) noexcept { return x > 0 ? x : slope * x; }

/// Σ softmax(scores) · row in one pass: weights are relative to the largest score so far, and a larger score rescales
/// the sums.
template <storage T, unsigned Lanes, bool Aligned, bool PerValue>
class attend_reducer {
    using slice_type = row_slice<T, Lanes, Aligned>;
    using heads_type = slice_heads<slice_type, PerValue>;
    static constexpr unsigned states = heads_type::count;
    static constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

public:
    static constexpr unsigned lanes = Lanes, flight = PerValue ? 2 : 4;
    using payload = std::uint32_t;
    struct fetched {
        typename slice_type::packet row;
        float term[states];
    };
    struct saved {
        float sum[slice_type::columns], top[states * Lanes], total[states * Lanes];
    };

    __device__ attend_reducer(const attention_options& options, rows_view<const T> z,
        rows_view<const float> source_terms, target_terms of_targets, rows_view<T> sums)
        : options_(options),
          z_(z),
          source_terms_(source_terms),
          of_targets_(of_targets),
          sums_(sums),
          slice_(blockIdx.y, threadIdx.x % Lanes, z.columns),
          width_(z.columns / options.heads) {}

    __device__ void begin(std::uint32_t row, const edge_lists::list& of) {
        const heads_type heads{slice_, width_};
        GNEISS_UNROLL
        for (float& sum : sum_) sum = 0;
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            term_[s] = heads.there(s) ? read(of_targets_[row] + heads[s]) : 0;
            top_[s] = minus_infinity;
            total_[s] = 0;
        }
        list_ = of;
        if (options_.dropout.drops()) key_ = options_.dropout.row_key(row);
    }
    /// Returns the place in the list.
    __device__ std::uint32_t look(const edge_lists::edge& edge, bool) const {
        return (edge.number == edge_lists::no_row ? list_.end - 1 : edge.number) - list_.begin;
    }
    __device__ fetched fetch(std::uint32_t row, bool there) const {
        const heads_type heads{slice_, width_};
        fetched in{slice_.load(z_[row], there), {}};
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s)
            if (there && heads.there(s)) in.term[s] = read(source_terms_[row] + heads[s]);
        return in;
    }
    __device__ void take(const fetched& in, std::uint32_t place, unsigned, bool there) {
        if (!there) return;
        const heads_type heads{slice_, width_};
        float weight[states];
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            const float score = leaky(term_[s] + in.term[s], options_.slope);
            if (score > top_[s]) {
                const float less = __expf(top_[s] - score); // 0 the first time
                total_[s] *= less;
                GNEISS_UNROLL
                for (unsigned k = 0; k < slice_type::size; ++k)
                    if (heads_type::of_value(k) == s) sum_[k] *= less;
                top_[s] = score;
            }
            weight[s] = __expf(score - top_[s]);
            total_[s] += weight[s];
            if (options_.dropout.drops())
                weight[s] *= options_.dropout.scale_of(key_, place * options_.heads + heads[s]);
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) sum_[k] += weight[heads_type::of_value(k)] * in.row[k];
    }
    __device__ void merge_groups() {
        GNEISS_UNROLL
        for (int apart = warp_lanes / 2; apart >= static_cast<int>(Lanes); apart /= 2) {
            float top[states], total[states], sum[slice_type::size];
            GNEISS_UNROLL
            for (unsigned s = 0; s < states; ++s) {
                top[s] = __shfl_xor_sync(whole_warp, top_[s], apart);
                total[s] = __shfl_xor_sync(whole_warp, total_[s], apart);
            }
            GNEISS_UNROLL
            for (unsigned k = 0; k < slice_type::size; ++k) sum[k] = __shfl_xor_sync(whole_warp, sum_[k], apart);
            merge(top, total, sum);
        }
    }
    __device__ void save(saved& to) const {
        slice_.keep(to.sum, sum_);
        if (threadIdx.x % warp_lanes >= Lanes) return;
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            to.top[slice_.place(s)] = top_[s];
            to.total[slice_.place(s)] = total_[s];
        }
    }
    __device__ void add(const saved& from) {
        float top[states], total[states], sum[slice_type::size];
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            top[s] = from.top[slice_.place(s)];
            total[s] = from.total[slice_.place(s)];
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) sum[k] = from.sum[slice_.place(k)];
        merge(top, total, sum);
    }
    __device__ void finish(std::uint32_t row, const edge_lists::list&) const {
        if (threadIdx.x % warp_lanes >= Lanes) return;
        const heads_type heads{slice_, width_};
        float mean[slice_type::size];
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) {
            const unsigned s = heads_type::of_value(k);
            mean[k] = total_[s] == 0 ? 0 : sum_[k] / total_[s];
        }
        slice_.store(sums_[row], mean);
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s)
            if (heads.first(s)) write(of_targets_[row] + options_.heads + heads[s], top_[s] + logf(total_[s]));
    }

private:
    __device__ void merge(
        const float (&top)[states], const float (&total)[states], const float (&sum)[slice_type::size]) {
        float mine[states], other[states];
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            const float highest = fmaxf(top_[s], top[s]);
            mine[s] = total_[s] == 0 ? 0 : __expf(top_[s] - highest);
            other[s] = total[s] == 0 ? 0 : __expf(top[s] - highest);
            total_[s] = total_[s] * mine[s] + total[s] * other[s];
            top_[s] = highest;
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k)
            sum_[k] = sum_[k] * mine[heads_type::of_value(k)] + sum[k] * other[heads_type::of_value(k)];
    }

    const attention_options& options_;
    rows_view<const T> z_;
    rows_view<const float> source_terms_;
    target_terms of_targets_;
    rows_view<T> sums_;
    slice_type slice_;
    std::uint32_t width_;
    edge_lists::list list_{};
    random_key key_{0, random_domain::dropout};
    float sum_[slice_type::size], term_[states], top_[states], total_[states];
};

template <storage T, unsigned Lanes, bool Aligned, bool PerValue>
__global__ void __launch_bounds__(list_blocks::threads, 2) attend(edge_lists lists, attention_options options,
    rows_view<const T> z, rows_view<const float> source_terms, target_terms of_targets, rows_view<T> sums) {
    attend_reducer<T, Lanes, Aligned, PerValue> reduce(options, z, source_terms, of_targets, sums);
    reduce_lists(lists, reduce);
}

/// out[row, first_column + h] = ⟨x[row, h], with[row, h]⟩ for a warp's row of the targets or sources, `with` [1 or
/// rows, heads · width]; `shifted`: the row of x is that of the target among the sources.
template <storage T, storage U>
__global__ void __launch_bounds__(256)
    head_dots(const layer_counts* counts, bool of_targets, bool shifted, std::uint32_t heads, rows_view<const T> x,
        rows_view<const U> with, bool one_row, rows_view<float> out, std::uint32_t first_column) {
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t row = grid_warp();
    if (row >= (of_targets ? counts->targets : counts->sources)) return;
    const T* const a = x[shifted ? row + counts->first_target : row];
    const U* const b = with[one_row ? 0 : row];
    const std::uint32_t width = x.columns / heads;
    for (std::uint32_t h = 0; h < heads; ++h) {
        float sum = 0;
        for (std::uint32_t c = lane; c < width; c += warp_lanes)
            sum += widen(read(a + h * width + c)) * widen(read(b + h * width + c));
        sum = warp_sum(sum);
        if (lane == 0) write(out[row] + first_column + h, sum);
    }
}

/// Calls f(slice, per_value) for rows of `heads` slices; per_value: a lane's values may belong to several heads.
template <storage T, class F>
void with_head_slices(std::size_t columns, std::size_t heads, bool aligned, F&& f) {
    with_slices<T>(columns, aligned, [&]<class Slice>(Slice slice) {
        if (Slice::aligned && columns / heads % Slice::size == 0)
            f(slice, std::false_type{});
        else
            f(slice, std::true_type{});
    });
}

} // namespace detail

/// Computes the score terms of one end of edges: out[row, h] = ⟨z[row, h], a[h]⟩, for sources, or for targets, whose
/// rows are shifted by `first_target`.
///
/// z [sources, heads · width], a [heads · width] floats; out [sources, heads], or the first columns of `target_terms`.
/// Cost: one read of those rows.
template <storage T>
void attention_terms(cudaStream_t stream, const layer_view& layer, bool of_targets, std::uint32_t heads,
    rows_view<const T> z, const float* a, rows_view<float> out) {
    launch(stream, detail::head_dots<T, float>,
        detail::warp_grid(of_targets ? layer.target_capacity : layer.source_capacity), 256, 0, layer.counts, of_targets,
        of_targets, heads, z, rows_view<const float>(a, z.columns, z.columns), true, out, 0);
}

/// sums[t, h] = Σ α · z[s, h] over the edges of `incoming` list t, with α = softmax over them of LeakyReLU(term of t +
/// term of s), subject to options.dropout; and of_targets[t, heads + h] = log Σ e^score. Without edges: 0.
///
/// z [sources, heads · width], source_terms [sources, heads], of_targets [targets, 3 · heads] with its first columns
/// given, sums like z but [targets]. Cost: reads of one row and one term per head, per edge. Exponentials are the
/// device's fast ones: the relative error of α is below 10⁻⁵ for scores within 30 of each other.
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
template <storage T>
void attend(cudaStream_t stream, const edge_lists& lists, const attention_options& options, rows_view<const T> z,
    rows_view<const float> source_terms, target_terms of_targets, rows_view<T> sums) {
    GNEISS_ASSERT(!lists.outgoing && z.columns % options.heads == 0);
    detail::with_head_slices<T>(z.columns, options.heads, z.aligned() && sums.aligned(),
        [&]<class Slice, bool PerValue>(Slice, std::bool_constant<PerValue>) {
            launch(stream, detail::attend<T, Slice::lanes, Slice::aligned, PerValue>,
                detail::list_blocks::grid(lists.capacity, Slice::chunks(z.columns)), detail::list_blocks::threads, 0,
                lists, options, z, source_terms, of_targets, sums);
        });
}

} // namespace gneiss::cuda
