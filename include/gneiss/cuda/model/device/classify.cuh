// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/detail/vector_math.hpp>

namespace gneiss::cuda {

/// Results of `softmax_cross_entropy` in device memory.
struct classification_outcome {
    classification_statistics statistics{}; ///< sums over the batch
    std::uint64_t invalid = 0;              ///< labels out of range: if any, nothing else was written
};

namespace detail {

/// Counts labeled rows and invalid labels; one block.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) count_labels(
    const std::uint32_t* count, std::uint32_t classes, const class_id* labels, classification_outcome* out) {
    unsigned long long labeled = 0, invalid = 0;
    for (std::uint32_t row = threadIdx.x; row < __ldg(count); row += Threads) {
        const class_id label = __ldg(labels + row);
        labeled += label != unlabeled;
        invalid += label != unlabeled && label >= classes;
    }
    labeled = block_sum(labeled);
    invalid = block_sum(invalid);
    if (threadIdx.x == 0) {
        out->statistics.labeled = labeled;
        out->invalid = invalid;
    }
}

/// Computes, for a warp's row, its loss, whether the largest score is the label's, and its gradient in place.
template <storage T, bool Aligned>
__global__ void __launch_bounds__(256) cross_entropy(const std::uint32_t* count, rows_view<T> scores,
    const class_id* labels, const classification_outcome* counted, float* losses, std::uint8_t* correct) {
    using slice_type = row_slice<T, warp_lanes, Aligned>;
    const std::uint32_t row = grid_warp();
    if (row >= __ldg(count) || counted->invalid != 0) return;
    const unsigned lane = threadIdx.x % warp_lanes;
    const class_id label = __ldg(labels + row);
    const bool known = label != unlabeled;
    constexpr float minus_infinity = -__builtin_inff();
    float top = minus_infinity;
    std::uint32_t best = scores.columns;
    for (unsigned chunk = 0; known && chunk * slice_type::columns < scores.columns; ++chunk) {
        const slice_type slice(chunk, lane, scores.columns);
        const typename slice_type::packet x = slice.reload(scores[row]);
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k)
            if (slice.column(k) < slice.all && (x[k] > top || best == scores.columns)) {
                top = x[k];
                best = slice.column(k);
            }
    }
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) { // the first of equals
        const float value = __shfl_xor_sync(whole_warp, top, apart);
        const std::uint32_t column = __shfl_xor_sync(whole_warp, best, apart);
        const bool other = value > top || (value == top && column < best);
        top = other ? value : top;
        best = other ? column : best;
    }
    float sum = 0;
    for (unsigned chunk = 0; known && chunk * slice_type::columns < scores.columns; ++chunk) {
        const slice_type slice(chunk, lane, scores.columns);
        const typename slice_type::packet x = slice.reload(scores[row]);
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k)
            if (slice.column(k) < slice.all) sum += gneiss::detail::exponential(x[k] - top);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        write(losses + row, known ? logf(sum) - (widen(reread(scores[row] + label)) - top) : 0);
        correct[row] = known && best == label;
    }
    __syncwarp(); // read the label's score before another lane overwrites it
    const float share = known ? 1 / static_cast<float>(counted->statistics.labeled) : 0, by = known ? share / sum : 0;
    for (unsigned chunk = 0; chunk * slice_type::columns < scores.columns; ++chunk) {
        const slice_type slice(chunk, lane, scores.columns);
        const typename slice_type::packet x = slice.reload(scores[row]);
        float gradient[slice_type::size];
        GNEISS_UNROLL
        for (unsigned k = 0; k < slice_type::size; ++k) {
            gradient[k] = known ? by * gneiss::detail::exponential(x[k] - top) : 0;
            if (known && slice.column(k) == label) gradient[k] -= share;
        }
        slice.store(scores[row], gradient);
    }
}

/// Sums losses and hits; one block.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) sum_losses(
    const std::uint32_t* count, const float* losses, const std::uint8_t* correct, classification_outcome* out) {
    if (out->invalid != 0) return;
    double loss = 0;
    unsigned long long right = 0;
    for (std::uint32_t row = threadIdx.x; row < __ldg(count); row += Threads) {
        loss += static_cast<double>(read(losses + row));
        right += __ldg(correct + row);
    }
    loss = block_sum(loss);
    right = block_sum(right);
    if (threadIdx.x == 0) {
        out->statistics.loss = loss;
        out->statistics.correct = right;
    }
}

} // namespace detail

/// Softmax and cross-entropy of rows of scores, as `gneiss::softmax_cross_entropy`: scores become the gradient of the
/// mean loss over labeled rows, rows without a label get 0, and *out has the loss. The reader of *out must check the
/// host's error cases: a label out of range (`invalid`), a loss that is not finite.
///
/// scores [*count, classes], at most `capacity` rows, labels [*count]; losses [capacity] and correct [capacity] are
/// scratch.
/// Cost: the scores are read three times, twice from cache, and written once.
template <storage T>
void softmax_cross_entropy(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, rows_view<T> scores,
    const class_id* labels, float* losses, std::uint8_t* correct, classification_outcome* out) {
    launch(stream, detail::count_labels<256>, 1, 256, 0, count, scores.columns, labels, out);
    const auto with = [&](auto kernel) {
        launch(stream, kernel, detail::warp_grid(capacity), 256, 0, count, scores, labels, out, losses, correct);
    };
    if (scores.aligned())
        with(detail::cross_entropy<T, true>);
    else
        with(detail::cross_entropy<T, false>);
    launch(stream, detail::sum_losses<256>, 1, 256, 0, count, losses, correct, out);
}

} // namespace gneiss::cuda
