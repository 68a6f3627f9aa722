// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/linear.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/query_batch.cuh>

// Scores of queries against shared negatives, their losses and gradients, as in `gneiss::link_model`, with scores in
// memory: for rows of any width.
namespace gneiss::cuda {

namespace detail {

/// out[i] = ‖x[i]‖², one warp per row.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) row_squares(std::uint32_t rows, rows_view<const float> x, float* out) {
    const std::uint32_t i = grid_warp();
    if (i >= rows) return;
    float sum = 0;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < x.columns; c += warp_lanes)
        sum += read(x[i] + c) * read(x[i] + c);
    sum = warp_sum(sum);
    if (threadIdx.x % warp_lanes == 0) write(out + i, sum);
}
/// Writes zeros beyond row *count, if given.
template <storage T>
__global__ void __launch_bounds__(256) gather_rows(std::uint32_t rows, const std::uint32_t* count,
    const std::uint32_t* ids, rows_view<const T> in, rows_view<float> out) {
    const std::uint32_t i = grid_warp();
    if (i >= rows) return;
    const bool there = count == nullptr || i < __ldg(count);
    const T* const from = there ? in[__ldg(ids + i)] : nullptr;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < in.columns; c += warp_lanes)
        write(out[i] + c, there ? widen(read(from + c)) : 0);
}
/// out[i] −= by[i] · x[i].
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    subtract_scaled(std::uint32_t rows, const float* by, rows_view<const float> x, rows_view<float> out) {
    const std::uint32_t i = grid_warp();
    if (i >= rows) return;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < x.columns; c += warp_lanes)
        write(out[i] + c, reread(out[i] + c) - read(by + i) * read(x[i] + c));
}

template <unsigned Threads>
__global__ void __launch_bounds__(Threads) write_zeros(std::uint32_t rows, rows_view<float> out) {
    const std::uint32_t i = grid_warp();
    if (i >= rows) return;
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < out.columns; c += warp_lanes) write(out[i] + c, 0);
}
inline void zero(cudaStream_t stream, std::uint32_t rows, rows_view<float> out) {
    launch(stream, write_zeros<256>, warp_grid(rows), 256, 0, rows, out);
}

[[nodiscard]] __device__ inline float warp_max(float x) {
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(whole_warp, x, apart));
    return x;
}

/// A query's row of products with the negatives, read as scores and rewritten as weights, by one warp. Masked scores
/// are −∞.
class query_row {
public:
    __device__ query_row(bool distances, float query_square, const float* squares, const negative_correction& by,
        float* row, std::uint32_t size)
        : distances_(distances),
          query_square_(query_square),
          squares_(squares),
          by_(by),
          row_(row),
          size_(size) {}

    /// Σ f(score).
    template <class F>
    [[nodiscard]] __device__ float sum(F&& f) const {
        float all = 0;
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes) all += f(corrected(j, plain(j)));
        return warp_sum(all);
    }
    [[nodiscard]] __device__ float highest() const {
        float top = minus_infinity;
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes)
            top = fmaxf(top, corrected(j, plain(j)));
        return warp_max(top);
    }
    /// Replaces each score by its row's weight, with f(score) as the gradient of the score; returns their sum.
    template <class F>
    [[nodiscard]] __device__ float differentiate(F&& f) const {
        float all = 0;
        for (std::uint32_t j = threadIdx.x % warp_lanes; j < size_; j += warp_lanes) {
            const float score = plain(j),
                        weight = row_weight(distances_, f(corrected(j, score)), score, query_square_, square(j));
            all += weight;
            write(row_ + j, weight);
        }
        return warp_sum(all);
    }

private:
    [[nodiscard]] __device__ float square(std::uint32_t j) const { return distances_ ? read(squares_ + j) : 0; }
    [[nodiscard]] __device__ float plain(std::uint32_t j) const {
        const float product = reread(row_ + j);
        return product == minus_infinity ? product : score_of(distances_, product, query_square_, square(j));
    }
    [[nodiscard]] __device__ float corrected(std::uint32_t j, float score) const {
        return corrects(by_, j) ? score + by_.own : score;
    }

    bool distances_;
    float query_square_;
    const float* squares_;
    negative_correction by_;
    float* row_;
    std::uint32_t size_;
};

template <storage T>
__global__ void __launch_bounds__(256)
    query_losses(query_batch of, bool distances, link_loss loss, float margin, rows_view<const T> nodes,
        rows_view<const float> queries, const float* squares, rows_view<float> scores, query_outcome* outcomes) {
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t i = grid_warp();
    const link_list list = *of.lists;
    if (i >= list.count) return;
    const std::uint32_t query_index = list.first + i, number = list.number + i;
    const std::uint32_t size = of.negatives == nullptr ? scores.columns : __ldg(of.negatives);
    const answer_score answer(distances, queries[i], nodes[__ldg(of.answers + query_index)], nodes.columns);
    if (of.mask_offsets != nullptr)
        for (std::uint64_t k = __ldg(of.mask_offsets + number) + lane; k < __ldg(of.mask_offsets + number + 1);
            k += warp_lanes)
            write(scores[i] + __ldg(of.mask_columns + k), minus_infinity);
    __syncwarp();
    const negative_correction by = of.corrections == nullptr ? negative_correction{} : of.corrections[number];
    const query_row row(distances, answer.query_square, squares, by, scores[i], size);
    const float positive = answer.score + by.positive;
    query_sums sums;
    sums.count = row.sum([](float x) { return x == minus_infinity ? 0.0F : 1.0F; });
    if (sums_exponentials(loss)) {
        const float highest = row.highest();
        sums.shift = loss == link_loss::softmax ? fmaxf(positive, highest) : highest == minus_infinity ? 0 : highest;
    } else {
        sums.shift = margin - positive;
        sums.lost = row.sum([=](float x) { return query_sums::lost_by(loss, sums.shift, x); });
    }
    sums.total = row.sum([=](float x) { return query_sums::gradient(loss, sums.shift, x); });
    const query_verdict verdict(loss, positive, sums, of.scale == nullptr ? 1 : __ldg(of.scale));
    const float weights =
        row.differentiate([=](float x) { return verdict.factor * query_sums::gradient(loss, sums.shift, x); });
    if (lane == 0)
        outcomes[query_index] = {
            verdict.loss, verdict.grad_positive, answer.score, weights, size - static_cast<std::uint32_t>(sums.count)};
    for (std::uint32_t j = size + lane; j < scores.columns; j += warp_lanes) write(scores[i] + j, 0); // padding
}

} // namespace detail

/// Device memory for the computation of a list of queries.
struct link_score_scratch {
    rows_view<float> queries, grad_queries; ///< [queries, dim]
    rows_view<float> negatives;             ///< [negatives, dim]
    rows_view<float> scores;                ///< [queries, negatives]
    float* squares = nullptr;               ///< [negatives]
    float* column_sums = nullptr;           ///< [negatives]
    float* partial = nullptr;               ///< partial_slices(queries.capacity).floats(negatives · dim)
};

/// Computes losses and gradients of one list of queries against its negatives, by decoder D of the library; scores are
/// computed once, in memory: the work of a task of `gneiss::link_model`, for rows of any width.
///
/// nodes [·, dim], relations [·, dim]. Results do not depend on the order of threads. Cost: 6 · queries · negatives ·
/// dim operations; scores are written twice and read at most seven times.
template <class D, storage T>
void link_by_scores(cudaStream_t stream, const query_batch& of, const link_negatives& to, link_loss loss, float margin,
    rows_view<const T> nodes, rows_view<const float> relations, const link_score_scratch& use,
    const link_gradients& out) {
    constexpr bool distances = D::compare == similarity::negative_distance;
    const row_range query_list{&of.lists->count, of.capacity};
    const std::uint32_t negatives = to.capacity;
    const rows_view<const float> rows = use.negatives, queries = use.queries, weights = use.scores;
    detail::around_queries<D, T, float>(stream, of, 1, nodes, relations, use.queries, use.grad_queries, out, [&] {
        launch(stream, detail::gather_rows<T>, detail::warp_grid(negatives), 256, 0, negatives, of.negatives, to.ids,
            nodes, use.negatives);
        linear_input_gradient<float>(stream, query_list, queries, rows, use.scores);
        if (distances)
            launch(
                stream, detail::row_squares<256>, detail::warp_grid(negatives), 256, 0, negatives, rows, use.squares);
        launch(stream, detail::query_losses<T>, detail::warp_grid(of.capacity), 256, 0, of, distances, loss, margin,
            nodes, queries, use.squares, use.scores, out.outcomes);
        linear<float>(stream, query_list, weights, rows, use.grad_queries);
        detail::zero(stream, negatives, out.negatives);
        linear_weight_gradient<float>(stream, query_list, weights, queries, out.negatives, use.partial);
        if (!distances) return;
        detail::zero(stream, 1, rows_view<float>(use.column_sums, negatives, negatives));
        add_column_sums<float>(stream, query_list, weights, use.partial, use.column_sums);
        launch(stream, detail::subtract_scaled<256>, detail::warp_grid(negatives), 256, 0, negatives, use.column_sums,
            rows, out.negatives);
    });
}

} // namespace gneiss::cuda
