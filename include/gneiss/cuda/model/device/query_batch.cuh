// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/model/activation.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/sample/link_batch.hpp>

// Queries of link prediction, and the computations per query that do not depend on how scores are made.
namespace gneiss::cuda {

/// Losses of link prediction, as `any_loss` on the host.
enum class link_loss : std::uint8_t { softmax, marius, logistic, margin };

/// Queries that share a list of negatives: `count` of them; the first has index `first` in the arrays of a
/// `query_batch`, and index `number` in its masks and corrections.
struct link_list {
    std::uint32_t count = 0, first = 0, number = 0; ///< number of queries, and their places
};

/// Queries in device memory: known node, relation and answer.
struct query_batch {
    const link_list* lists = nullptr;                         ///< lists to process; row y of a grid has list y
    std::uint32_t capacity = 0;                               ///< maximum of a list
    side missing = side::tail;                                ///< missing side for the decoder
    const std::uint32_t *known = nullptr, *answers = nullptr; ///< [queries] rows of nodes
    const std::uint32_t* relations = nullptr;         ///< [queries] rows of relations; null: the decoder has none
    const std::uint64_t* mask_offsets = nullptr;      ///< offsets of masked negatives; null: none is masked
    const std::uint32_t* mask_columns = nullptr;      ///< columns of masked negatives
    const negative_correction* corrections = nullptr; ///< [queries] or null
    const std::uint32_t* negatives = nullptr;         ///< number per list; null: the capacity
    const float* scale = nullptr;                     ///< factor of gradients; null: 1
};

/// Result of one query.
struct query_outcome {
    float loss = 0;           ///< loss of the query
    float grad_positive = 0;  ///< scaled
    float score = 0;          ///< score of the answer, not corrected
    float weight_sum = 0;     ///< Σ of the weights of its negatives
    std::uint32_t masked = 0; ///< number of masked negatives
};

/// Lists of negatives, one per list of queries: list y starts at ids[y · apart].
struct link_negatives {
    const std::uint32_t* ids = nullptr; ///< rows of nodes
    std::uint32_t capacity = 0;         ///< size of a list
    std::uint32_t lists = 1;            ///< number of lists
    std::uint32_t apart = 0;            ///< distance of lists, for ids and gradients
};

/// Destination of queries' gradients: row `first + i` of each for query i of a list.
struct query_rows {
    rows_view<float> known, answers, relations; ///< relations may have no data
    bool add = false, add_relations = false;    ///< add to existing values
};

/// Results of queries.
struct link_gradients {
    query_rows query_list;             ///< [·, dim]
    rows_view<float> negatives;        ///< [·, dim], written, at the positions of their ids
    query_outcome* outcomes = nullptr; ///< by number, like the arrays of `query_batch`
};

namespace detail {

template <class D>
using decoder_number = typename D::template term<float>;
template <class D>
inline constexpr bool has_relations = D::relation_floats(D::parts) != 0;

inline constexpr float minus_infinity = -__builtin_inff();

/// The rows of a query.
template <storage T>
struct query_inputs {
    const T *known, *answer;
    const float* relation;

    __device__ query_inputs(
        const query_batch& of, std::uint32_t query_index, rows_view<const T> nodes, rows_view<const float> relations)
        : known(nodes[__ldg(of.known + query_index)]),
          answer(nodes[__ldg(of.answers + query_index)]),
          relation(of.relations == nullptr ? nullptr : relations[__ldg(of.relations + query_index)]) {}
};

/// Returns value c of a row of `terms` values; zero for no row.
template <class D, storage T>
[[nodiscard]] __device__ inline decoder_number<D> number_at(const T* row, std::uint32_t terms, std::uint32_t c) {
    decoder_number<D> number{};
    if (row != nullptr)
        for (std::uint32_t p = 0; p < D::parts; ++p) number.part[p] = widen(read(row + p * terms + c));
    return number;
}

/// Returns the position of query i of a list among rows with room for every list.
[[nodiscard]] __device__ inline std::size_t row_of_query(const query_batch& of, std::uint32_t i) {
    return std::size_t{blockIdx.y} * of.capacity + i;
}

template <class D, storage T, storage Q>
__global__ void __launch_bounds__(256)
    queries(query_batch of, rows_view<const T> nodes, rows_view<const float> relations, rows_view<Q> out) {
    const link_list list = of.lists[blockIdx.y];
    const std::uint32_t i = grid_warp(), terms = nodes.columns / static_cast<std::uint32_t>(D::parts);
    if (i >= list.count) return;
    const query_inputs<T> in(of, list.first + i, nodes, relations);
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < terms; c += warp_lanes) {
        const decoder_number<D> q =
            D::query_term(of.missing, number_at<D>(in.known, terms, c), number_at<D>(in.relation, terms, c));
        for (std::uint32_t p = 0; p < D::parts; ++p)
            write(out[row_of_query(of, i)] + p * terms + c, narrow<Q>(q.part[p]));
    }
}

/// Computes known, relation and answer gradients of a query from its gradient by the negatives.
template <class D, storage T, storage Q>
__global__ void __launch_bounds__(256)
    query_gradients(query_batch of, rows_view<const T> nodes, rows_view<const float> relations,
        rows_view<const Q> query, rows_view<const float> grad_query, const query_outcome* outcomes, query_rows out) {
    using number = decoder_number<D>;
    const link_list list = of.lists[blockIdx.y];
    const std::uint32_t i = grid_warp(), terms = nodes.columns / static_cast<std::uint32_t>(D::parts);
    if (i >= list.count) return;
    const std::uint32_t query_index = list.first + i;
    const std::size_t row = row_of_query(of, i);
    const query_inputs<T> in(of, query_index, nodes, relations);
    const query_outcome outcome = outcomes[query_index];
    const float by = D::compare == similarity::inner_product ? outcome.grad_positive
        : outcome.score < 0                                  ? outcome.grad_positive / -outcome.score
                                                             : 0;
    const auto put = [&](const number& x, const rows_view<float>& to, std::uint32_t c, bool add) {
        for (std::uint32_t p = 0; p < D::parts; ++p) {
            float* const at = to[query_index] + p * terms + c;
            write(at, add ? reread(at) + x.part[p] : x.part[p]);
        }
    };
    for (std::uint32_t c = threadIdx.x % warp_lanes; c < terms; c += warp_lanes) {
        const number q = number_at<D>(query[row], terms, c), right = number_at<D>(in.answer, terms, c);
        number g = number_at<D>(grad_query[row], terms, c), of_answer{};
        for (std::size_t p = 0; p < D::parts; ++p) {
            if constexpr (D::compare == similarity::inner_product) {
                g.part[p] += by * right.part[p];
                of_answer.part[p] = by * q.part[p];
            } else {
                of_answer.part[p] = by * (q.part[p] - right.part[p]);
                g.part[p] -= outcome.weight_sum * q.part[p] + of_answer.part[p];
            }
        }
        put(of_answer, out.answers, c, out.add);
        put(D::known_gradient(of.missing, number_at<D>(in.relation, terms, c), g), out.known, c, out.add);
        if constexpr (has_relations<D>)
            put(D::relation_gradient(of.missing, number_at<D>(in.known, terms, c), g), out.relations, c,
                out.add_relations);
    }
}

/// Makes queries, calls meet(), which computes their gradients and outcomes, and propagates these to nodes and
/// relations. One warp per query, one row of the grid per list.
template <class D, storage T, storage Q, class Meet>
void around_queries(cudaStream_t stream, const query_batch& of, std::uint32_t lists, rows_view<const T> nodes,
    rows_view<const float> relations, rows_view<Q> result, rows_view<float> gradients, const link_gradients& out,
    Meet&& meet) {
    dim3 grid = warp_grid(of.capacity);
    grid.y = lists;
    launch(stream, queries<D, T, Q>, grid, 256, 0, of, nodes, relations, result);
    meet();
    launch(stream, query_gradients<D, T, Q>, grid, 256, 0, of, nodes, relations, result, gradients, out.outcomes,
        out.query_list);
}

/// Computes the score of a query's answer, not corrected, and ‖query‖², by one warp.
struct answer_score {
    float score, query_square;

    template <storage Q, storage T>
    __device__ answer_score(bool distances, const Q* query, const T* answer, std::uint32_t columns)
        : score(0),
          query_square(0) {
        for (std::uint32_t c = threadIdx.x % warp_lanes; c < columns; c += warp_lanes) {
            const float a = widen(read(query + c)), b = widen(read(answer + c));
            score += distances ? (a - b) * (a - b) : a * b;
            query_square += a * a;
        }
        score = warp_sum(score);
        if (distances) score = -sqrtf(score);
        query_square = warp_sum(query_square);
    }
};

/// Returns the score of a product ⟨query, negative⟩.
[[nodiscard]] __device__ inline float score_of(bool distances, float product, float query_square, float square) {
    return distances ? -sqrtf(fmaxf(query_square + square - 2 * product, 0)) : product;
}
/// Returns the factor of a negative's row in gradients, from the gradient of its score. It is 0 for distances that the
/// difference of squares cannot resolve, as on the host.
[[nodiscard]] __device__ inline float row_weight(
    bool distances, float gradient, float score, float query_square, float square) {
    if (!distances) return gradient;
    return score * score > 1e-6F * (query_square + square) ? gradient / -score : 0;
}
[[nodiscard]] __device__ inline bool corrects(const negative_correction& by, std::uint32_t column) {
    return (column >= by.head_begin && column < by.head_end) || (column >= by.tail_begin && column < by.tail_end);
}

/// log(1 + eˣ).
[[nodiscard]] __device__ inline float soft_plus(float x) {
    return fmaxf(x, 0) + log1pf(gneiss::detail::exponential(-fabsf(x)));
}
[[nodiscard]] __device__ inline float sigmoid(float x) { return activate<activation::sigmoid>(x); }

[[nodiscard]] GNEISS_HD constexpr bool sums_exponentials(link_loss loss) {
    return loss == link_loss::softmax || loss == link_loss::marius;
}

/// Terms of a query's loss, summed over its negatives: gradients up to a common factor, and losses. Both are 0 for −∞.
/// `shift` is the reference of scores: the highest of them, or margin − positive.
struct query_sums {
    float shift = 0;
    float total = 0; ///< Σ gradient(loss, shift, score)
    float lost = 0;  ///< Σ lost(loss, shift, score)
    float count = 0; ///< scores that are not −∞

    [[nodiscard]] __device__ static float gradient(link_loss loss, float shift, float score) {
        if (loss == link_loss::logistic) return sigmoid(score);
        if (loss == link_loss::margin) return shift + score > 0 ? 1 : 0;
        return gneiss::detail::exponential(score - shift);
    }
    [[nodiscard]] __device__ static float lost_by(link_loss loss, float shift, float score) {
        if (loss == link_loss::logistic) return soft_plus(score);
        if (loss == link_loss::margin) return shift + score <= 0 ? 0 : shift + score; // NaN for NaN
        return 0;
    }
};
/// Loss and gradient factors from the sums.
struct query_verdict {
    float loss = 0, grad_positive = 0;
    float factor = 0; ///< factor of the gradients of negatives

    __device__ query_verdict(link_loss kind, float positive, const query_sums& of, float scale) {
        if (sums_exponentials(kind)) {
            const bool inside = kind == link_loss::softmax; // true if the positive is part of the softmax
            const float all = of.total + (inside ? gneiss::detail::exponential(positive - of.shift) : 0);
            if (all == 0) return;
            loss = logf(all) + of.shift - positive;
            grad_positive = scale * (inside ? -of.total / all : -1);
            factor = scale / all;
            return;
        }
        const float share = of.count > 0 ? 1 / of.count : 0;
        const bool logistic = kind == link_loss::logistic;
        loss = share * of.lost + (logistic ? soft_plus(-positive) : 0);
        grad_positive = -scale * (logistic ? sigmoid(-positive) : share * of.total);
        factor = scale * share;
    }
};

} // namespace detail

} // namespace gneiss::cuda
