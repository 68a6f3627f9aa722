// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/reduce_lists.cuh>
#include <gneiss/cuda/model/device/attention.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

// The backward pass of graph attention, by four kernels over lists of edges. None stores attentions: they are
// recomputed from the terms and the log-sum-exps. Per edge it reads its target's gradient twice, and writes and reads
// `heads` floats.
namespace gneiss::cuda {

/// Gradients of scores [edge_capacity + target_capacity, heads]: those of edges by number, then those of the targets'
/// self-loops.
struct edge_gradients {
    float* values = nullptr;         ///< first gradient
    std::uint32_t edge_capacity = 0; ///< maximum number of edges

    /// Returns the gradients of an edge, or of a target's self-loop.
    [[nodiscard]] __device__ float* of(std::uint32_t number, std::uint32_t target, std::uint32_t heads) const noexcept {
        return values + std::size_t{number == edge_lists::no_row ? edge_capacity + target : number} * heads;
    }
};

namespace detail {

/// Attention of an edge from target t to a source with a given term, its value after dropout, and the slope of its
/// score.
struct attention_of_edge {
    float share, kept, slope;

    __device__ attention_of_edge(const attention_options& options, float target_term, float source_term, float log_sum)
        : kept(1),
          slope(target_term + source_term > 0 ? 1 : options.slope) {
        share = __expf(
            leaky(target_term + source_term, options.slope) - log_sum); // nvcc's host compiler parses initializers, too
    }
};
/// Returns the place of an edge in the list of its target, from outgoing lists.
[[nodiscard]] __device__ inline std::uint32_t place_in_target(const edge_lists& lists, const edge_lists::edge& edge) {
    return edge.number == edge_lists::no_row ? lists.other_size(edge.row) - 1
                                             : edge.number - __ldg(lists.other_offsets + edge.row);
}

/// Computes gradients of scores, edge by edge, and their sums by source, for heads on a power of two of lanes that hold
/// no others.
template <storage T, unsigned Lanes>
class score_reducer {
    using slice_type = row_slice<T, Lanes, true>;

public:
    static constexpr unsigned lanes = Lanes, flight = 4;
    using payload = std::uint64_t; ///< edge number, place in the target's list
    struct fetched {
        typename slice_type::packet gradient;
        float term, log_sum, along;
        std::uint32_t target;
    };
    struct saved {
        float sum[Lanes];
    };

    __device__ score_reducer(const edge_lists& lists, const attention_options& options, rows_view<const T> z,
        rows_view<const T> gradient, rows_view<const float> of_targets, rows_view<const float> source_terms,
        edge_gradients out, rows_view<float> sums)
        : lists_(lists),
          options_(options),
          z_(z),
          gradient_(gradient),
          of_targets_(of_targets),
          source_terms_(source_terms),
          out_(out),
          sums_(sums),
          slice_(blockIdx.y, threadIdx.x % Lanes, z.columns),
          width_(z.columns / options.heads),
          head_(slice_.first / width_),
          head_lanes_(static_cast<int>(width_ / slice_type::size)) {}

    __device__ void begin(std::uint32_t row, const edge_lists::list&) {
        own_ = slice_.load(z_[row]);
        term_ = inside() ? read(source_terms_[row] + head_) : 0;
        sum_[0] = 0;
    }
    __device__ std::uint64_t look(const edge_lists::edge& edge, bool there) const {
        const std::uint64_t place = there && options_.dropout.drops() ? place_in_target(lists_, edge) : 0;
        return place << 32 | edge.number;
    }
    __device__ fetched fetch(std::uint32_t row, bool there) const {
        fetched in{slice_.load(gradient_[row], there), 0, 0, 0, row};
        if (there && inside()) {
            const float* const of = of_targets_[row] + head_;
            in.term = read(of);
            in.log_sum = read(of + options_.heads);
            in.along = read(of + 2 * options_.heads);
        }
        return in;
    }
    __device__ void take(const fetched& in, std::uint64_t which, unsigned, bool there) {
        float dot = 0;
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) dot += in.gradient[k] * own_[k];
        for (int apart = head_lanes_ / 2; apart > 0; apart /= 2) dot += __shfl_xor_sync(whole_warp, dot, apart);
        if (!there || !inside()) return;
        if (options_.dropout.drops())
            dot *=
                options_.dropout.scale_of(options_.dropout.row_key(in.target), (which >> 32) * options_.heads + head_);
        const attention_of_edge edge(options_, in.term, term_, in.log_sum);
        const float gradient = edge.share * (dot - in.along) * edge.slope;
        sum_[0] += gradient;
        if (first_of_head())
            write(out_.of(static_cast<std::uint32_t>(which), in.target, options_.heads) + head_, gradient);
    }
    __device__ void merge_groups() { add_groups<Lanes>(sum_); }
    __device__ void save(saved& to) const {
        if (threadIdx.x % warp_lanes < Lanes) to.sum[threadIdx.x % Lanes] = sum_[0];
    }
    __device__ void add(const saved& from) { sum_[0] += from.sum[threadIdx.x % Lanes]; }
    __device__ void finish(std::uint32_t row, const edge_lists::list&) const {
        if (threadIdx.x % warp_lanes < Lanes && inside() && first_of_head()) write(sums_[row] + head_, sum_[0]);
    }

private:
    [[nodiscard]] __device__ bool inside() const noexcept { return slice_.first < slice_.all; }
    [[nodiscard]] __device__ bool first_of_head() const noexcept { return slice_.first % width_ == 0; }

    const edge_lists& lists_;
    const attention_options& options_;
    rows_view<const T> z_, gradient_;
    rows_view<const float> of_targets_, source_terms_;
    edge_gradients out_;
    rows_view<float> sums_;
    slice_type slice_;
    std::uint32_t width_, head_;
    int head_lanes_;
    typename slice_type::packet own_;
    float term_, sum_[1];
};

template <storage T, unsigned Lanes>
__global__ void __launch_bounds__(list_blocks::threads, 2) score_gradients(edge_lists lists, attention_options options,
    rows_view<const T> z, rows_view<const T> gradient, rows_view<const float> of_targets,
    rows_view<const float> source_terms, edge_gradients out, rows_view<float> sums) {
    score_reducer<T, Lanes> reduce(lists, options, z, gradient, of_targets, source_terms, out, sums);
    reduce_lists(lists, reduce);
}

/// Computes the same for heads of any width: one warp per source and head, value by value, edge by edge.
template <storage T>
__global__ void __launch_bounds__(256) score_gradients_of_any_width(edge_lists lists, attention_options options,
    rows_view<const T> z, rows_view<const T> gradient, rows_view<const float> of_targets,
    rows_view<const float> source_terms, edge_gradients out, rows_view<float> sums) {
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t row = grid_warp(), head = blockIdx.y;
    if (row >= lists.size()) return;
    const std::uint32_t width = z.columns / options.heads;
    const edge_lists::list list = lists[row];
    const float term = read(source_terms[row] + head);
    float sum = 0;
    for (std::uint32_t place = list.begin; place < list.end; ++place) {
        const edge_lists::edge edge = lists.at(list, place);
        const T *const own = z[row] + head * width, *const other = gradient[edge.row] + head * width;
        float dot = 0;
        for (std::uint32_t c = lane; c < width; c += warp_lanes) dot += widen(read(own + c)) * widen(read(other + c));
        dot = warp_sum(dot);
        if (options.dropout.drops())
            dot *= options.dropout.scale_of(
                options.dropout.row_key(edge.row), std::uint64_t{place_in_target(lists, edge)} * options.heads + head);
        const float* const of = of_targets[edge.row] + head;
        const attention_of_edge share(options, read(of), term, read(of + options.heads));
        const float value = share.share * (dot - read(of + 2 * options.heads)) * share.slope;
        sum += value;
        if (lane == 0) write(out.of(edge.number, edge.row, options.heads) + head, value);
    }
    if (lane == 0) write(sums[row] + head, sum);
}

/// out[t, h] = Σ gradients of scores over the list of a warp's target: lanes process (place, head) pairs in turn.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    target_totals(edge_lists lists, std::uint32_t heads, edge_gradients values, rows_view<float> out) {
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t row = grid_warp();
    if (row >= lists.size()) return;
    const edge_lists::list list = lists[row];
    for (std::uint32_t first = 0; first < heads; first += warp_lanes) {
        const unsigned at_once = min(heads - first, warp_lanes), turns = warp_lanes / at_once;
        const std::uint32_t head = first + lane % at_once;
        float sum = 0;
        if (lane < turns * at_once)
            for (std::uint32_t place = list.begin + lane / at_once; place < list.end; place += turns) {
                const bool own = list.own != edge_lists::no_row && place + 1 == list.end;
                sum += read(values.of(own ? edge_lists::no_row : place, row, heads) + head);
            }
        float total = 0;
        for (unsigned turn = 0; turn < turns; ++turn)
            total += __shfl_sync(whole_warp, sum, static_cast<int>((lane % at_once + turn * at_once) % warp_lanes));
        if (lane < at_once) write(out[row] + head, total);
    }
}

/// Σ α · gradient of targets, plus the contribution of the source's own terms.
template <storage T, unsigned Lanes, bool Aligned, bool PerValue>
class share_reducer : public column_sums<row_slice<T, Lanes, Aligned>> {
    using slice_type = row_slice<T, Lanes, Aligned>;
    using sums = column_sums<slice_type>;
    using sums::slice_, sums::sum_;
    using heads_type = slice_heads<slice_type, PerValue>;
    static constexpr unsigned states = heads_type::count;

public:
    static constexpr unsigned lanes = Lanes, flight = PerValue ? 2 : 4;
    using payload = std::uint32_t;
    struct fetched {
        typename slice_type::packet gradient;
        float term[states], log_sum[states];
        std::uint32_t target;
    };

    __device__ share_reducer(const edge_lists& lists, const attention_options& options, rows_view<const T> gradient,
        rows_view<const float> of_targets, rows_view<const float> source_terms, rows_view<const float> target_sums,
        rows_view<const float> source_sums, const float* of_target, const float* of_source, rows_view<T> out)
        : sums(gradient.columns),
          lists_(lists),
          options_(options),
          gradient_(gradient),
          of_targets_(of_targets),
          source_terms_(source_terms),
          target_sums_(target_sums),
          source_sums_(source_sums),
          of_target_(of_target),
          of_source_(of_source),
          out_(out),
          width_(gradient.columns / options.heads) {}

    __device__ void begin(std::uint32_t row, const edge_lists::list&) {
        const heads_type heads{slice_, width_};
        sums::clear();
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) term_[s] = heads.there(s) ? read(source_terms_[row] + heads[s]) : 0;
    }
    __device__ std::uint32_t look(const edge_lists::edge& edge, bool there) const {
        return there && options_.dropout.drops() ? place_in_target(lists_, edge) : 0;
    }
    __device__ fetched fetch(std::uint32_t row, bool there) const {
        const heads_type heads{slice_, width_};
        fetched in{slice_.load(gradient_[row], there), {}, {}, row};
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s)
            if (there && heads.there(s)) {
                in.term[s] = read(of_targets_[row] + heads[s]);
                in.log_sum[s] = read(of_targets_[row] + options_.heads + heads[s]);
            }
        return in;
    }
    __device__ void take(const fetched& in, std::uint32_t place, unsigned, bool there) {
        if (!there) return;
        const heads_type heads{slice_, width_};
        float weight[states];
        GNEISS_UNROLL
        for (unsigned s = 0; s < states; ++s) {
            weight[s] = attention_of_edge(options_, in.term[s], term_[s], in.log_sum[s]).share;
            if (options_.dropout.drops())
                weight[s] *= options_.dropout.scale_of(
                    options_.dropout.row_key(in.target), std::uint64_t{place} * options_.heads + heads[s]);
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) sum_[k] += weight[heads_type::of_value(k)] * in.gradient[k];
    }
    __device__ void finish(std::uint32_t row, const edge_lists::list& of) const {
        if (threadIdx.x % warp_lanes >= Lanes) return;
        float result[slice_type::size];
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) {
            result[k] = sum_[k];
            const std::uint32_t column = slice_.column(k);
            if (column >= slice_.all) continue;
            result[k] += read(source_sums_[row] + column / width_) * read(of_source_ + column);
            if (of.own != edge_lists::no_row)
                result[k] += read(target_sums_[of.own] + column / width_) * read(of_target_ + column);
        }
        slice_.store(out_[row], result);
    }

private:
    const edge_lists& lists_;
    const attention_options& options_;
    rows_view<const T> gradient_;
    rows_view<const float> of_targets_, source_terms_, target_sums_, source_sums_;
    const float *of_target_, *of_source_;
    rows_view<T> out_;
    std::uint32_t width_;
    float term_[states];
};

template <storage T, unsigned Lanes, bool Aligned, bool PerValue>
__global__ void __launch_bounds__(list_blocks::threads, 2)
    share_gradients(edge_lists lists, attention_options options, rows_view<const T> gradient,
        rows_view<const float> of_targets, rows_view<const float> source_terms, rows_view<const float> target_sums,
        rows_view<const float> source_sums, const float* of_target, const float* of_source, rows_view<T> out) {
    share_reducer<T, Lanes, Aligned, PerValue> reduce(
        lists, options, gradient, of_targets, source_terms, target_sums, source_sums, of_target, of_source, out);
    reduce_lists(lists, reduce);
}

} // namespace detail

/// Inputs and outputs of the backward pass of `attend`.
template <storage T>
struct attention_gradient {
    rows_view<const T> z, sums;                             ///< input and output of the forward pass
    rows_view<const float> source_terms;                    ///< [sources, heads]
    target_terms of_targets;                                ///< [targets, 3 · heads]; the last columns are written
    const float *of_target = nullptr, *of_source = nullptr; ///< [heads · width]
    rows_view<const T> gradient;                            ///< [targets, heads · width], with respect to the sums
    edge_gradients scores;                                  ///< scratch
    rows_view<float> target_sums;                           ///< [targets, heads]: gradients of the terms of targets
    rows_view<float> source_sums;                           ///< [sources, heads]: gradients of the terms of sources
    rows_view<T> grad_z;                                    ///< [sources, heads · width]
};

/// Computes the gradients of `attend` and of both kinds of terms, through to z; the gradients of the vectors
/// `of_target` and `of_source` are then weighted column sums of z. Precondition: targets have self-loops (`loops`).
///
/// Cost: two reads of a row of `gradient` per edge, each with 2 or 3 floats per head, 8 bytes per head for the gradient
/// of its score, and a pass over z, the sums and grad_z. Heads whose width is not a power of two times 16 bytes, or
/// exceeds 32 lanes, take a slow path.
template <storage T>
void attend_backward(
    cudaStream_t stream, const layer_view& layer, const attention_options& options, const attention_gradient<T>& with) {
    const edge_lists by_target = incoming(layer, true), by_source = outgoing(layer, true);
    const std::uint32_t heads = options.heads, columns = with.z.columns, width = columns / heads;
    launch(stream, detail::head_dots<T, T>, detail::warp_grid(by_target.capacity), 256, 0, layer.counts, true, false,
        heads, with.sums, with.gradient, false, with.of_targets, 2 * heads);

    constexpr std::uint32_t packet = 16 / sizeof(T);
    const bool aligned = with.z.aligned() && with.gradient.aligned() && with.grad_z.aligned();
    if (aligned && width % packet == 0 && std::has_single_bit(width / packet) && width / packet <= detail::warp_lanes)
        detail::with_slices<T>(columns, true, [&]<class Slice>(Slice) {
            launch(stream, detail::score_gradients<T, Slice::lanes>,
                detail::list_blocks::grid(by_source.capacity, Slice::chunks(columns)), detail::list_blocks::threads, 0,
                by_source, options, with.z, with.gradient, with.of_targets, with.source_terms, with.scores,
                with.source_sums);
        });
    else
        launch(stream, detail::score_gradients_of_any_width<T>, dim3(detail::warp_grid(by_source.capacity).x, heads),
            256, 0, by_source, options, with.z, with.gradient, with.of_targets, with.source_terms, with.scores,
            with.source_sums);
    launch(stream, detail::target_totals<256>, detail::warp_grid(by_target.capacity), 256, 0, by_target, heads,
        with.scores, with.target_sums);
    detail::with_head_slices<T>(
        columns, heads, aligned, [&]<class Slice, bool PerValue>(Slice, std::bool_constant<PerValue>) {
            launch(stream, detail::share_gradients<T, Slice::lanes, Slice::aligned, PerValue>,
                detail::list_blocks::grid(by_source.capacity, Slice::chunks(columns)), detail::list_blocks::threads, 0,
                by_source, options, with.gradient, with.of_targets, with.source_terms, with.target_sums,
                with.source_sums, with.of_target, with.of_source, with.grad_z);
        });
}

} // namespace gneiss::cuda
