// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/model/embedding_table.hpp>

namespace gneiss::detail {

/// Scores of queries against candidates and their gradients, for one similarity, by the backend's three products.
///
/// Order of calls for a list of candidates: `begin`, then per tile `forward`, `differentiate`, `backward`, then
/// `finish`.
template <similarity Compare, gemm_backend Backend>
class candidate_scores;

/// Inner products: S = Q Nᵀ, dQ = dS N, dN += dSᵀ Q.
template <gemm_backend Backend>
class candidate_scores<similarity::inner_product, Backend> {
public:
    struct scratch {
        reusable_buffer<float> positive_gradients;
    };

    explicit candidate_scores(Backend multiply) : multiply_(std::move(multiply)) {}

    void begin(matrix_view<const float>, scratch&) const noexcept {}

    void forward(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> scores,
        scratch&) const {
        multiply_.multiply_nt(queries, candidates, scores);
    }

    /// Replaces scores by their gradients with `lost(row, scores, gradient)`, which returns the positive's gradient.
    template <class Lost>
    const float* differentiate(matrix_view<const float>, matrix_view<float> scores, scratch& use, Lost&& lost) const {
        float* const positive = use.positive_gradients.at_least(scores.rows());
        for (std::size_t i = 0; i < scores.rows(); ++i) positive[i] = lost(i, scores[i], scores[i]);
        return positive;
    }

    void backward(matrix_view<const float> queries, matrix_view<const float> candidates,
        matrix_view<const float> gradients, matrix_view<float> query_gradients, matrix_view<float> candidate_gradients,
        scratch&) const {
        multiply_.multiply_nn(gradients, candidates, query_gradients);
        multiply_.add_tn(gradients, queries, candidate_gradients);
    }

    void finish(matrix_view<const float>, matrix_view<float>, scratch&) const noexcept {}

    void against(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> out) const {
        multiply_.multiply_nt(queries, candidates, out);
    }

    [[nodiscard]] float one(std::span<const float> query, std::span<const float> candidate) const noexcept {
        return dot(query.data(), candidate.data(), query.size());
    }

    /// Adds to the query's gradient and writes the candidate's.
    void one_backward(std::span<const float> query, std::span<const float> candidate, float gradient,
        std::span<float> query_gradient, std::span<float> candidate_gradient) const noexcept {
        for (std::size_t k = 0; k < query.size(); ++k) {
            query_gradient[k] += gradient * candidate[k];
            candidate_gradient[k] = gradient * query[k];
        }
    }

private:
    Backend multiply_;
};

/// −‖q − x‖ by ‖q‖² + ‖x‖² − 2⟨q, x⟩, clamped at 0. With W = dS / distance: dQ = W N − diag(W 1) Q and dN += Wᵀ Q −
/// diag(Wᵀ 1) N. Distances below the resolution of the difference of squares count as 0, with gradient 0.
template <gemm_backend Backend>
class candidate_scores<similarity::negative_distance, Backend> {
public:
    struct scratch {
        reusable_buffer<float> positive_gradients, squares, query_squares, row, row_sums, column_sums;
    };

    explicit candidate_scores(Backend multiply) : multiply_(std::move(multiply)) {}

    void begin(matrix_view<const float> candidates, scratch& use) const {
        const std::size_t n = candidates.rows();
        float* const squares = use.squares.at_least(n);
        for (std::size_t j = 0; j < n; ++j) squares[j] = square(candidates[j]);
        std::fill_n(use.column_sums.at_least(n), n, 0.0F);
    }

    void forward(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> scores,
        scratch& use) const {
        multiply_.multiply_nt(queries, candidates, scores);
        const float* const squares = use.squares.at_least(scores.columns());
        float* const query_squares = use.query_squares.at_least(scores.rows());
        for (std::size_t i = 0; i < scores.rows(); ++i) {
            query_squares[i] = square(queries[i]);
            to_distances(scores[i], query_squares[i], squares);
        }
    }

    template <class Lost>
    const float* differentiate(matrix_view<const float>, matrix_view<float> scores, scratch& use, Lost&& lost) const {
        const std::size_t n = scores.columns();
        float* const positive = use.positive_gradients.at_least(scores.rows());
        float* const row = use.row.at_least(n);
        float* const row_sums = use.row_sums.at_least(scores.rows());
        float* const column_sums = use.column_sums.at_least(n);
        const float* const squares = use.squares.at_least(n);
        const float* const query_squares = use.query_squares.at_least(scores.rows());
        for (std::size_t i = 0; i < scores.rows(); ++i) {
            float* const w = scores[i].data();
            std::copy_n(w, n, row);
            positive[i] = lost(i, {row, n}, scores[i]);
            const float q = query_squares[i];
            for (std::size_t j = 0; j < n; ++j) {
                const bool resolved = row[j] * row[j] > unresolved * (q + squares[j]);
                w[j] = resolved ? w[j] / -row[j] : 0.0F;
            }
            for (std::size_t j = 0; j < n; ++j) column_sums[j] += w[j];
            row_sums[i] = lane_sum<float>(n, [w](std::size_t j) { return w[j]; });
        }
        return positive;
    }

    void backward(matrix_view<const float> queries, matrix_view<const float> candidates,
        matrix_view<const float> weights, matrix_view<float> query_gradients, matrix_view<float> candidate_gradients,
        scratch& use) const {
        multiply_.multiply_nn(weights, candidates, query_gradients);
        const float* const row_sums = use.row_sums.at_least(queries.rows());
        for (std::size_t i = 0; i < queries.rows(); ++i)
            for (std::size_t k = 0; k < queries.columns(); ++k) query_gradients(i, k) -= row_sums[i] * queries(i, k);
        multiply_.add_tn(weights, queries, candidate_gradients);
    }

    void finish(matrix_view<const float> candidates, matrix_view<float> candidate_gradients, scratch& use) const {
        const float* const column_sums = use.column_sums.at_least(candidates.rows());
        for (std::size_t j = 0; j < candidates.rows(); ++j)
            for (std::size_t k = 0; k < candidates.columns(); ++k)
                candidate_gradients(j, k) -= column_sums[j] * candidates(j, k);
    }

    void against(matrix_view<const float> queries, matrix_view<const float> candidates, matrix_view<float> out) const {
        reusable_buffer<float> memory;
        float* const squares = memory.at_least(candidates.rows());
        for (std::size_t j = 0; j < candidates.rows(); ++j) squares[j] = square(candidates[j]);
        multiply_.multiply_nt(queries, candidates, out);
        for (std::size_t i = 0; i < out.rows(); ++i) to_distances(out[i], square(queries[i]), squares);
    }

    [[nodiscard]] float one(std::span<const float> query, std::span<const float> candidate) const noexcept {
        return -distance(query, candidate);
    }

    void one_backward(std::span<const float> query, std::span<const float> candidate, float gradient,
        std::span<float> query_gradient, std::span<float> candidate_gradient) const noexcept {
        const float d = distance(query, candidate);
        const float by = d > 0 ? gradient / d : 0.0F;
        for (std::size_t k = 0; k < query.size(); ++k) {
            const float part = by * (query[k] - candidate[k]);
            query_gradient[k] -= part;
            candidate_gradient[k] = part;
        }
    }

private:
    static constexpr float unresolved = 1e-6F;

    static float square(std::span<const float> x) noexcept { return dot(x.data(), x.data(), x.size()); }
    static float distance(std::span<const float> a, std::span<const float> b) noexcept {
        const float *x = a.data(), *y = b.data();
        return square_root(lane_sum<float>(a.size(), [x, y](std::size_t i) { return (x[i] - y[i]) * (x[i] - y[i]); }));
    }
    static void to_distances(std::span<float> products, float query_square, const float* squares) noexcept {
        float* const at = products.data();
        for (std::size_t j = 0; j < products.size(); ++j) {
            const float d = query_square + squares[j] - 2 * at[j];
            at[j] = -square_root(d < 0 ? 0.0F : d);
        }
    }

    Backend multiply_;
};

} // namespace gneiss::detail
