// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/score_tile.cuh>
#include <gneiss/cuda/model/device/query_batch.cuh>

// Losses of queries against shared negatives, without scores in memory: tiles of queries are multiplied with tiles of
// negatives in shared memory, once for the gradients of queries and once for those of negatives, and scores stay in
// registers. Sums of exponentials are relative to the highest score so far (Milakov and Gimelshein 2018, as in
// FlashAttention, Dao et al., NeurIPS 2022).
namespace gneiss::cuda {

namespace detail {

/// Result of a query after all negatives are scored.
struct scored_query {
    float query_square, shift, factor;
    float own;
    std::uint32_t head_begin, head_end, tail_begin, tail_end;

    [[nodiscard]] __device__ negative_correction correction() const {
        return {head_begin, head_end, tail_begin, tail_end, own, 0};
    }
};

/// Sets bit c of mask[q] if column first + c, of 64, is masked for query q of `count`, from `number` on. All threads
/// call.
__device__ inline void mark_masked(const query_batch& of, std::uint32_t number, std::uint32_t count,
    std::uint32_t first, std::uint32_t (&mask)[64][2]) {
    for (unsigned q = threadIdx.x / warp_lanes; q < count; q += blockDim.x / warp_lanes)
        for (std::uint64_t k = __ldg(of.mask_offsets + number + q) + threadIdx.x % warp_lanes;
            k < __ldg(of.mask_offsets + number + q + 1); k += warp_lanes) {
            const std::uint32_t column = __ldg(of.mask_columns + k) - first;
            if (column < 64) atomicOr(&mask[q][column / 32], 1U << column % 32);
        }
}

/// Processes 64 queries of a list per block: their losses, and their gradients from negatives.
template <storage T, unsigned Width>
__global__ void __launch_bounds__(256, 2) fused_scores_kernel(query_batch of, bool distances, link_loss loss,
    float margin, rows_view<const T> nodes, bool aligned, const std::uint32_t* ids, std::uint32_t ids_apart,
    rows_view<const T> queries, rows_view<float> grad_queries, scored_query* met, query_outcome* outcomes) {
    using tiles = score_tile<T, Width>;
    constexpr unsigned size = tiles::size;
    __shared__ scored_query asked[size];
    __shared__ float positive[size], answered[size], squares[size], parts[3][2][size];
    __shared__ std::uint32_t mask[size][2];
    const link_list list = of.lists[blockIdx.y];
    const std::uint32_t begin = blockIdx.x * size;
    if (begin >= list.count) return;
    const std::uint32_t count = min(size, list.count - begin), negatives = __ldg(of.negatives),
                        first = list.first + begin;
    const std::size_t row = row_of_query(of, begin);
    const rows_view<const T> mine(queries[row], queries.columns, queries.stride);
    const std::uint32_t* const list_ids = ids + std::size_t{blockIdx.y} * ids_apart;
    const bool softly = sums_exponentials(loss);

    const tiles at;
    at.load(at.own, mine, true, [&](unsigned r) { return r < count ? r : tiles::no_row; });
    for (unsigned r = threadIdx.x / warp_lanes; r < size; r += tiles::warps) {
        scored_query query_index{};
        float score = 0, right = 0;
        if (r < count) {
            const answer_score answer(distances, mine[r], nodes[__ldg(of.answers + first + r)], nodes.columns);
            const negative_correction by =
                of.corrections == nullptr ? negative_correction{} : of.corrections[list.number + begin + r];
            score = answer.score;
            right = score + by.positive;
            query_index = {answer.query_square, 0, 0, by.own, by.head_begin, by.head_end, by.tail_begin, by.tail_end};
        }
        if (threadIdx.x % warp_lanes == 0) asked[r] = query_index, answered[r] = score, positive[r] = right;
    }
    __syncthreads();

    float shift[2], total[2] = {}, lost[2] = {}, spread[2] = {}; // for this thread's two rows
    std::uint32_t masked = 0;                                    // for query threadIdx.x
    for (unsigned half = 0; half < 2; ++half) {
        const float right = positive[tiles::row(half)];
        shift[half] = loss == link_loss::softmax ? right : softly ? minus_infinity : margin - right;
    }
    typename tiles::sums sums;
    tiles::clear(sums);
    for (std::uint32_t j = 0; j < negatives; j += size) {
        __syncthreads(); // the previous tile is no longer read
        at.load(at.other, nodes, aligned,
            [&](unsigned r) { return j + r < negatives ? __ldg(list_ids + j + r) : tiles::no_row; });
        if (threadIdx.x < size) mask[threadIdx.x][0] = mask[threadIdx.x][1] = 0;
        __syncthreads();
        if (distances) at.squares(at.other, squares);
        if (of.mask_offsets != nullptr) mark_masked(of, list.number + begin, count, j, mask);
        __syncthreads();
        if (threadIdx.x < size)
            masked += static_cast<std::uint32_t>(__popc(mask[threadIdx.x][0]) + __popc(mask[threadIdx.x][1]));

        typename tiles::scores scores;
        at.multiply(scores, nodes.columns);
        float top[2] = {minus_infinity, minus_infinity};
        const auto corrected = [&](unsigned r, unsigned c, float score) {
            return corrects(asked[r].correction(), j + c) ? score + asked[r].own : score;
        };
        tiles::for_each_score(scores, [&](unsigned half, unsigned r, unsigned c, float& score) {
            const bool takes_part = j + c < negatives && (mask[r][c / 32] >> c % 32 & 1U) == 0;
            score = takes_part ? score_of(distances, score, asked[r].query_square, squares[c]) : minus_infinity;
            top[half] = fmaxf(top[half], corrected(r, c, score));
        });
        if (softly) {
            tiles::share(parts[0], top, larger_of_two{});
            __syncthreads();
            float less[2];
            for (unsigned half = 0; half < 2; ++half) {
                const unsigned r = tiles::row(half);
                const float next = fmaxf(shift[half], fmaxf(parts[0][0][r], parts[0][1][r]));
                less[half] = next == minus_infinity ? 1 : gneiss::detail::exponential(shift[half] - next);
                shift[half] = next;
                total[half] *= less[half];
                spread[half] *= less[half];
            }
            GNEISS_UNROLL
            for (auto& tile : sums) GNEISS_UNROLL
            for (unsigned v = 0; v < 4; ++v) tile[v] *= less[v / 2];
        }
        tiles::for_each_score(scores, [&](unsigned half, unsigned r, unsigned c, float& score) {
            const float x = corrected(r, c, score), from = shift[half] == minus_infinity ? 0 : shift[half];
            const float gradient = query_sums::gradient(loss, from, x);
            const float weight = row_weight(distances, gradient, score, asked[r].query_square, squares[c]);
            total[half] += gradient;
            lost[half] += query_sums::lost_by(loss, from, x);
            spread[half] += weight;
            at.put_weight(r, c, weight);
        });
        __syncthreads();
        at.add_weighted(sums);
    }

    tiles::share(parts[0], total, add_two{});
    tiles::share(parts[1], lost, add_two{});
    tiles::share(parts[2], spread, add_two{});
    for (unsigned half = 0; half < 2; ++half)
        if (threadIdx.x / warp_lanes % 2 == 0 && threadIdx.x % 4 == 0)
            asked[tiles::row(half)].shift = shift[half] == minus_infinity ? 0 : shift[half];
    __syncthreads();
    if (threadIdx.x < count) {
        const unsigned r = threadIdx.x;
        const auto both = [&](unsigned k) { return parts[k][0][r] + parts[k][1][r]; };
        const query_sums all{asked[r].shift, both(0), both(1), static_cast<float>(negatives - masked)};
        const query_verdict verdict(loss, positive[r], all, of.scale == nullptr ? 1 : __ldg(of.scale));
        asked[r].factor = verdict.factor;
        met[row + r] = asked[r];
        outcomes[first + r] = {verdict.loss, verdict.grad_positive, answered[r], verdict.factor * both(2), masked};
    }
    __syncthreads();
    tiles::for_each_sum(sums, [&](unsigned, unsigned r, unsigned c, float sum) {
        if (r < count && c < nodes.columns) write(grad_queries[row + r] + c, asked[r].factor * sum);
    });
}

/// Processes 64 negatives of a list per block: their gradients, from queries whose sums are complete.
template <storage T, unsigned Width>
__global__ void __launch_bounds__(256, 2) fused_gradients_kernel(query_batch of, bool distances, link_loss loss,
    rows_view<const T> nodes, bool aligned, const std::uint32_t* ids, std::uint32_t ids_apart,
    rows_view<const T> queries, const scored_query* met, rows_view<float> out) {
    using tiles = score_tile<T, Width>;
    constexpr unsigned size = tiles::size;
    __shared__ scored_query asked[size];
    __shared__ float squares[size], parts[2][size];
    __shared__ std::uint32_t mask[size][2];
    const link_list list = of.lists[blockIdx.y];
    const std::uint32_t begin = blockIdx.x * size, negatives = __ldg(of.negatives);
    if (begin >= negatives || list.count == 0) return;
    const std::size_t list_row = std::size_t{blockIdx.y} * ids_apart + begin;

    const tiles at;
    at.load(at.own, nodes, aligned,
        [&](unsigned r) { return begin + r < negatives ? __ldg(ids + list_row + r) : tiles::no_row; });
    __syncthreads();
    if (distances) at.squares(at.own, squares);
    float spread[2] = {};
    typename tiles::sums sums;
    tiles::clear(sums);
    for (std::uint32_t i = 0; i < list.count; i += size) {
        const std::uint32_t count = min(size, list.count - i);
        const std::size_t row = row_of_query(of, i);
        const rows_view<const T> theirs(queries[row], queries.columns, queries.stride);
        __syncthreads(); // the previous tile is no longer read
        at.load(at.other, theirs, true, [&](unsigned r) { return r < count ? r : tiles::no_row; });
        if (threadIdx.x < size) {
            mask[threadIdx.x][0] = mask[threadIdx.x][1] = 0;
            asked[threadIdx.x] = threadIdx.x < count ? met[row + threadIdx.x] : scored_query{};
        }
        __syncthreads();
        if (of.mask_offsets != nullptr) {
            mark_masked(of, list.number + i, count, begin, mask);
            __syncthreads();
        }
        typename tiles::scores scores;
        at.multiply(scores, nodes.columns);
        tiles::for_each_score(scores, [&](unsigned half, unsigned r, unsigned c, float& product) {
            const scored_query& by = asked[c];
            float weight = 0;
            if (c < count && begin + r < negatives && (mask[c][r / 32] >> r % 32 & 1U) == 0) {
                const float score = score_of(distances, product, by.query_square, squares[r]);
                const float x = corrects(by.correction(), begin + r) ? score + by.own : score;
                weight = row_weight(
                    distances, by.factor * query_sums::gradient(loss, by.shift, x), score, by.query_square, squares[r]);
            }
            spread[half] += weight;
            at.put_weight(r, c, weight);
        });
        __syncthreads();
        at.add_weighted(sums);
    }
    tiles::share(parts, spread, add_two{});
    __syncthreads();
    tiles::for_each_sum(sums, [&](unsigned, unsigned r, unsigned c, float sum) {
        if (begin + r >= negatives || c >= nodes.columns) return;
        write(out[list_row + r] + c, distances ? sum - (parts[0][r] + parts[1][r]) * at.own_value(r, c) : sum);
    });
}

/// Calls f with the tile width for rows of `columns` columns; false if they are too wide.
template <class F>
bool with_tile_width(std::uint32_t columns, F&& f) {
    if (columns <= 64)
        f(std::integral_constant<unsigned, 64>{});
    else if (columns <= 128)
        f(std::integral_constant<unsigned, 128>{});
    else if (columns <= 256)
        f(std::integral_constant<unsigned, 256>{});
    else
        return false;
    return true;
}

} // namespace detail

/// Returns the shared memory of a block of `link_by_tiles` for rows of `columns` columns [bytes]; 0: unsupported.
template <storage T>
[[nodiscard]] std::size_t link_tiles_bytes(std::uint32_t columns) {
    std::size_t bytes = 0;
    detail::with_tile_width(columns, [&](auto width) { bytes = detail::score_tile<T, width.value>::shared_bytes; });
    return bytes;
}

/// Device memory for the computation of query lists.
template <storage T>
struct link_tile_scratch {
    rows_view<T> queries;                ///< [lists, queries.capacity, dim], aligned
    rows_view<float> grad_queries;       ///< the same
    detail::scored_query* met = nullptr; ///< [lists, queries.capacity]
};

/// Computes the results of `link_by_scores` for all lists at once and without scores in memory: each tile of 64 queries
/// is multiplied with every tile of 64 negatives, then each tile of negatives with every tile of queries, recomputing
/// the scores.
///
/// nodes [·, dim], dim up to 256, relations [·, dim]. `of.negatives` must not be null. Results do not depend on the
/// order of threads. Cost: 8 · queries · negatives · dim operations; a negative's row is read per 64 queries, and a
/// query's row per 64 negatives. If T is bfloat16, queries and weights are rounded to it.
template <class D, storage T>
void link_by_tiles(cudaStream_t stream, const query_batch& of, const link_negatives& to, link_loss loss, float margin,
    rows_view<const T> nodes, rows_view<const float> relations, const link_tile_scratch<T>& use,
    const link_gradients& out) {
    constexpr bool distances = D::compare == similarity::negative_distance;
    detail::around_queries<D, T, T>(stream, of, to.lists, nodes, relations, use.queries, use.grad_queries, out, [&] {
        detail::with_tile_width(nodes.columns, [&](auto width) {
            using tiles = detail::score_tile<T, width.value>;
            const dim3 by_queries(ceil_div(of.capacity, tiles::size), to.lists),
                by_negatives(ceil_div(to.capacity, tiles::size), to.lists);
            launch(stream, detail::fused_scores_kernel<T, width.value>, by_queries, tiles::threads, tiles::shared_bytes,
                of, distances, loss, margin, nodes, nodes.aligned(), to.ids, to.apart, use.queries, use.grad_queries,
                use.met, out.outcomes);
            launch(stream, detail::fused_gradients_kernel<T, width.value>, by_negatives, tiles::threads,
                tiles::shared_bytes, of, distances, loss, nodes, nodes.aligned(), to.ids, to.apart, use.queries,
                use.met, out.negatives);
        });
    });
}

} // namespace gneiss::cuda
