// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/candidate_scores.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/model/regularizer.hpp>
#include <gneiss/model/statistics.hpp>
#include <gneiss/sample/link_batch.hpp>

namespace gneiss {

/// Reduction of a batch's losses to one number. A query is a (positive, side) pair.
enum class reduction : std::uint8_t {
    sum, ///< Σ losses of queries + Σ penalties of positives
    mean ///< mean over queries + mean penalty over positives
};

/// Sizes of the work. They affect the last bits of results; the number of threads does not.
struct link_model_tuning {
    std::size_t tile_rows = 128;                        ///< queries whose scores are in memory at once
    std::size_t task_rows = 1024;                       ///< minimum queries per task
    std::size_t partial_bytes = std::size_t{128} << 20; ///< limit of the tasks' gradients of negatives
    std::size_t nodes_per_task = 128;                   ///< for sums of gradients per node
};

/// Options of a link model.
struct link_model_options {
    reduction reduce = reduction::sum; ///< reduction of losses to one number
    regularizer penalty{};             ///< penalty on the rows of positives
    /// Head queries use `query(side::tail, tail, relation + R)`: the relation table has 2R rows, the upper half for
    /// inverse relations. Source: Lacroix, Usunier and Obozinski, ICML 2018.
    bool reciprocal = false;
    link_model_tuning tuning{}; ///< sizes of the work
};

/// Says what is missing: other types than the model below takes.
template <class Decoder, class Loss, class Backend>
class link_model {
    static_assert(decoder<Decoder>, "link_model: Decoder must be a gneiss::decoder, see gneiss/model/concepts.hpp");
    static_assert(ranking_loss<Loss>, "link_model: Loss must be a gneiss::ranking_loss, see gneiss/model/concepts.hpp");
    static_assert(
        gemm_backend<Backend>, "link_model: Backend must be a gneiss::gemm_backend, see gneiss/model/concepts.hpp");
};

/// Link prediction: scores positives against shared negatives and differentiates, with matrix products.
///
/// A task is a run of positives of one (chunk, side). It computes queries Q and scores S = Q Nᵀ, replaces S by dS row
/// by row, and multiplies back: dQ = dS N, dN = dSᵀ Q. Tasks write to separate memory; afterwards each distinct node
/// sums its occurrences in their fixed order. So results are bit-identical for any executor.
///
/// Cost: 6 · queries · negatives · dim floating point operations plus O((positives + negatives) · dim); memory is
/// reused between batches. One thread at a time per object; several objects may run concurrently.
template <decoder Decoder, ranking_loss Loss, gemm_backend Backend>
class link_model<Decoder, Loss, Backend> {
public:
    /// Constructs a model for node rows of `dim` floats. Throws `invalid_argument` if the decoder does not accept that.
    explicit link_model(std::size_t dim, const link_model_options& options = {}, Decoder decode = {}, Loss loss = {},
        Backend multiply = {})
        : dim_(dim),
          options_(options),
          decode_(std::move(decode)),
          loss_(std::move(loss)),
          score_(std::move(multiply)) {
        check_dimension(decode_, dim);
    }

    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    [[nodiscard]] const link_model_options& options() const noexcept { return options_; }
    /// Returns the floats of a relation's row; 0: edges have no relation parameters.
    [[nodiscard]] std::size_t relation_floats() const noexcept { return Decoder::relation_floats(dim_); }
    /// Returns the rows of the relation table for a graph with `relations` relations.
    [[nodiscard]] std::size_t relation_rows(std::size_t relations) const noexcept {
        return relation_floats() == 0 ? 0 : options_.reciprocal ? 2 * relations : relations;
    }

    /// Computes loss and gradients of a batch.
    ///
    /// `rows` [U, dim] are the values of batch.nodes in order, `relations` [relation_rows, relation_floats] the whole
    /// table; strides may exceed the columns. Writes every row of `sparse_gradients` [U, dim], and to
    /// `relation_gradients` the gradients of the relation rows that occur, ascending.
    /// Throws `not_finite`, naming the batch, if the loss is NaN or infinite (gradients are then unspecified);
    /// `invalid_argument` or `out_of_range` for shapes or relations that do not fit.
    template <executor E>
    link_statistics forward_backward(const link_batch& batch, matrix_view<const float> rows,
        matrix_view<const float> relations, matrix_view<float> sparse_gradients,
        gneiss::sparse_gradients& relation_gradients, const E& executor) {
        check(batch, rows, relations, sparse_gradients);
        const work all = divide(batch);
        outcomes_.assign(all.tasks(), {});
        executor.run(all.tasks(), [&](std::size_t task) {
            scratch_.with([] { return std::make_unique<scratch>(); },
                [&](auto& mine) { ask(all, task, rows, relations, *mine); });
        });
        link_statistics total{.positives = batch.positives(), .query_count = all.query_count()};
        for (const link_statistics& one : outcomes_) total += one;
        if (!std::isfinite(total.loss))
            throw error(errc::not_finite, "the loss of " + to_string(batch.key) + " is not a finite number");
        const bool mean = options_.reduce == reduction::mean;
        const double per_query = mean ? 1 / static_cast<double>(all.query_count()) : 1;
        const double per_positive = mean ? 1 / static_cast<double>(batch.positives()) : 1;
        total.penalty = sum_nodes(all, rows, sparse_gradients, per_query, per_positive, executor) +
            sum_relations(all, relations, relation_gradients, per_query, per_positive, executor);
        if (!std::isfinite(total.penalty))
            throw error(errc::not_finite, "the penalty of " + to_string(batch.key) + " is not a finite number");
        return total;
    }

    /// Computes queries of (known end, relation) pairs with the other end on `corrupt_side`: known [b, dim], relation
    /// ids [b] below R, out [b, dim]. For evaluation. O(b · dim). Thread-safe.
    void queries(side corrupt_side, matrix_view<const float> known, std::span<const relation_id> ids,
        matrix_view<const float> relations, matrix_view<float> out) const {
        for (std::size_t i = 0; i < known.rows(); ++i)
            decode_.query(query_side(corrupt_side), known[i], relation_row(relations, corrupt_side, ids[i]), out[i]);
    }

    /// Computes similarities of queries [b, dim] and answers [n, dim], out [b, n]. Thread-safe.
    void scores(matrix_view<const float> queries, matrix_view<const float> answers, matrix_view<float> out) const {
        score_.against(queries, answers, out);
    }

    /// Returns the similarity of one query and one candidate, without the rounding of a matrix product. Thread-safe.
    [[nodiscard]] float score(std::span<const float> query, std::span<const float> candidate) const noexcept {
        return score_.one(query, candidate);
    }

    /// Returns the scorer for evaluation and prediction: the decoder with these relations, used as in `options()`. Both
    /// outlive it.
    /// \param relations  the trained table [relation_rows, relation_floats]; may be empty without relation parameters
    /// Throws `invalid_argument` for a table of another shape.
    [[nodiscard]] link_scorer scorer(matrix_view<const float> relations = {}) const {
        if (relation_floats() != 0 &&
            (relations.columns() != relation_floats() || (options_.reciprocal && relations.rows() % 2 != 0)))
            throw error(errc::invalid_argument,
                "a table of " + std::to_string(relations.rows()) + " relations of " +
                    std::to_string(relations.columns()) + " floats is not that of this model: it has " +
                    std::string(options_.reciprocal ? "two rows a relation" : "a row a relation") + " of " +
                    std::to_string(relation_floats()) + " floats");
        return options_.reciprocal ? link_scorer::reciprocal(decode_, relations) : link_scorer(decode_, relations);
    }

private:
    using candidates = detail::candidate_scores<Decoder::compare, Backend>;

    /// A batch divided into tasks, and the places of their results. Row s · B + i of the gradients belongs to positive
    /// i on side position s.
    struct work {
        const link_batch& batch;
        std::size_t pieces = 1;              ///< tasks per (chunk, side)
        float* known_gradients = nullptr;    ///< [S · B, dim] of the known end
        float* answer_gradients = nullptr;   ///< [S · B, dim] of the answer
        float* relation_gradients = nullptr; ///< [S · B, relation_floats]
        float* negative_gradients = nullptr; ///< [tasks, negatives_per_list, dim]

        [[nodiscard]] std::size_t query_count() const noexcept { return batch.sides.size() * batch.positives(); }
        [[nodiscard]] std::size_t tasks() const noexcept { return batch.chunks * batch.sides.size() * pieces; }
    };

    struct scratch {
        reusable_buffer<float> negatives, queries, query_gradients, scores;
        typename candidates::scratch similarity;
    };
    void check(const link_batch& batch, matrix_view<const float> rows, matrix_view<const float> relations,
        matrix_view<float> sparse_gradients) const {
        const auto fits = [&](auto view) { return view.rows() == batch.nodes.size() && view.columns() == dim_; };
        if (!fits(rows) || !fits(sparse_gradients))
            throw error(errc::invalid_argument, "rows and gradients must be [nodes of the batch, dim]");
        if (relation_floats() == 0) return;
        if (relations.columns() != relation_floats())
            throw error(errc::invalid_argument, "relation rows have the wrong length");
        if (!batch.relations.empty() && batch.relations.back() >= relations.rows() / (options_.reciprocal ? 2 : 1))
            throw error(errc::out_of_range, "a relation of " + to_string(batch.key) + " has no row");
    }

    [[nodiscard]] side query_side(side corrupt_side) const noexcept {
        return options_.reciprocal ? side::tail : corrupt_side;
    }
    [[nodiscard]] std::span<const float> relation_row(
        matrix_view<const float> relations, side corrupt_side, relation_id id) const noexcept {
        if (relation_floats() == 0) return {};
        return relations[id + (options_.reciprocal && corrupt_side == side::head ? relations.rows() / 2 : 0)];
    }

    work divide(const link_batch& batch) {
        const std::size_t lists = batch.chunks * batch.sides.size();
        const std::size_t list_floats = batch.negatives_per_list * dim_;
        const std::size_t longest = ceil_div(batch.positives(), std::size_t{batch.chunks});
        const std::size_t affordable =
            options_.tuning.partial_bytes / std::max<std::size_t>(lists * list_floats * sizeof(float), 1);
        const std::size_t pieces =
            std::clamp<std::size_t>(longest / options_.tuning.task_rows, 1, std::max<std::size_t>(affordable, 1));
        work all{batch, pieces};
        all.known_gradients = known_gradients_.at_least(all.query_count() * dim_);
        all.answer_gradients = answer_gradients_.at_least(all.query_count() * dim_);
        all.relation_gradients = relation_gradients_.at_least(all.query_count() * relation_floats());
        all.negative_gradients = negative_gradients_.at_least(all.tasks() * list_floats);
        return all;
    }

    /// Runs one task: its queries, tile by tile.
    void ask(const work& all, std::size_t task, matrix_view<const float> rows, matrix_view<const float> relations,
        scratch& use) {
        const link_batch& batch = all.batch;
        const std::size_t piece = task % all.pieces, list = task / all.pieces;
        const std::size_t s = list % batch.sides.size(), chunk = list / batch.sides.size();
        const std::size_t first = batch.chunk_begin(chunk), size = batch.chunk_begin(chunk + 1) - first;
        const std::size_t end = first + (piece + 1) * size / all.pieces;

        const auto columns = batch.list(chunk, s);
        const std::size_t n = columns.size();
        const matrix_view<float> negatives(use.negatives.at_least(n * dim_), n, dim_);
        for (std::size_t j = 0; j < n; ++j) std::copy_n(rows[columns[j]].data(), dim_, negatives[j].data());
        const matrix_view<float> negative_gradients(all.negative_gradients + task * n * dim_, n, dim_);
        std::fill_n(negative_gradients.data(), n * dim_, 0.0F);
        score_.begin(negatives, use.similarity);

        link_statistics& outcome = outcomes_[task];
        for (std::size_t at = first + piece * size / all.pieces; at < end; at += options_.tuning.tile_rows)
            ask_tile(all, s, at, std::min(options_.tuning.tile_rows, end - at), rows, relations, negatives,
                negative_gradients, use, outcome);
        score_.finish(negatives, negative_gradients, use.similarity);
    }

    void ask_tile(const work& all, std::size_t s, std::size_t first, std::size_t size, matrix_view<const float> rows,
        matrix_view<const float> relations, matrix_view<const float> negatives, matrix_view<float> negative_gradients,
        scratch& use, link_statistics& outcome) const {
        const link_batch& batch = all.batch;
        const side corrupt_side = batch.side_at(s);
        const auto given = corrupt_side == side::tail ? batch.heads : batch.tails;
        const auto answers = corrupt_side == side::tail ? batch.tails : batch.heads;
        const auto relation_at = [&](std::size_t i) {
            return relation_row(relations, corrupt_side, batch.relations[batch.relation_of[i]]);
        };
        const matrix_view<float> queries(use.queries.at_least(size * dim_), size, dim_);
        const matrix_view<float> query_gradients(use.query_gradients.at_least(size * dim_), size, dim_);
        const matrix_view<float> scores(use.scores.at_least(size * negatives.rows()), size, negatives.rows());
        for (std::size_t i = 0; i < size; ++i)
            decode_.query(query_side(corrupt_side), rows[given[first + i]], relation_at(first + i), queries[i]);

        score_.forward(queries, negatives, scores, use.similarity);
        if (!batch.mask_offsets.empty())
            for (std::size_t i = 0; i < size; ++i)
                for (const std::uint32_t column : batch.masked(s, first + i)) {
                    float& masked = scores(i, column);
                    outcome.masked += masked != minus_infinity ? 1U : 0U;
                    masked = minus_infinity;
                }
        const auto lost = [&](std::size_t i, std::span<const float> of, std::span<float> gradient) {
            float positive = score_.one(queries[i], rows[answers[first + i]]);
            if (!batch.corrections.empty()) {
                std::copy(of.begin(), of.end(), gradient.begin());
                positive += correct(batch.corrections[s * batch.positives() + first + i], gradient);
                of = gradient;
            }
            const loss_and_gradient<float> one = loss_(positive, of, gradient);
            outcome.loss += one.loss;
            return one.grad_positive;
        };
        const float* positive_gradients = score_.differentiate(queries, scores, use.similarity, lost);
        outcome.negatives += size * negatives.rows();
        score_.backward(queries, negatives, scores, query_gradients, negative_gradients, use.similarity);

        const std::size_t relation_size = relation_floats();
        for (std::size_t i = 0; i < size; ++i) {
            const std::size_t row = s * batch.positives() + first + i;
            const std::span known(all.known_gradients + row * dim_, dim_);
            const std::span answer(all.answer_gradients + row * dim_, dim_);
            const std::span relation(all.relation_gradients + row * relation_size, relation_size);
            std::fill(known.begin(), known.end(), 0.0F);
            std::fill(relation.begin(), relation.end(), 0.0F);
            score_.one_backward(
                queries[i], rows[answers[first + i]], positive_gradients[i], query_gradients[i], answer);
            decode_.query_backward(query_side(corrupt_side), rows[given[first + i]], relation_at(first + i),
                std::span<const float>(query_gradients[i]), known, relation);
        }
    }

    /// Corrects the scores of negatives; returns the correction of the positive's score.
    static float correct(const negative_correction& by, std::span<float> scores) noexcept {
        float* const at = scores.data();
        for (std::size_t j = by.head_begin; j < by.head_end; ++j) at[j] += by.own;
        for (std::size_t j = by.tail_begin; j < by.tail_end; ++j) at[j] += by.own;
        return by.positive;
    }

    static void add(std::span<float> to, const float* from) noexcept {
        float* at = to.data();
        for (std::size_t k = 0; k < to.size(); ++k) at[k] += from[k];
    }

    /// Sums the occurrences of every node and adds the penalty's gradient. Returns the penalty of heads and tails.
    template <executor E>
    double sum_nodes(const work& all, matrix_view<const float> rows, matrix_view<float> out, double per_query,
        double per_positive, const E& executor) const {
        const link_batch& batch = all.batch;
        const std::size_t B = batch.positives(), n = batch.negatives_per_list;
        const auto sum_one = [&](std::size_t node) {
            const std::span<float> sum = out[node];
            std::fill(sum.begin(), sum.end(), 0.0F);
            std::size_t ends = 0; // occurrences of the node as a head or tail
            for (std::size_t o = batch.node_offsets[node]; o < batch.node_offsets[node + 1]; ++o) {
                const std::size_t at = batch.node_occurrences[o];
                if (at < 2 * B) {
                    ++ends;
                    const side end = at < B ? side::head : side::tail;
                    for (std::size_t s = 0; s < batch.sides.size(); ++s)
                        add(sum,
                            (batch.side_at(s) == end ? all.answer_gradients : all.known_gradients) +
                                (s * B + at % B) * dim_);
                } else {
                    const std::size_t list = (at - 2 * B) / n, column = (at - 2 * B) % n;
                    for (std::size_t piece = 0; piece < all.pieces; ++piece)
                        add(sum, all.negative_gradients + ((list * all.pieces + piece) * n + column) * dim_);
                }
            }
            for (float& x : sum) x *= static_cast<float>(per_query);
            return options_.penalty.add_gradient<float>(
                rows[node], has_complex_rows<Decoder>, per_positive * static_cast<double>(ends), sum);
        };
        return parallel_reduce(
            executor, batch.nodes.size(), options_.tuning.nodes_per_task, 0.0, [&](std::size_t at, std::size_t end) {
                double penalty = 0;
                for (; at < end; ++at) penalty += sum_one(at);
                return penalty;
            });
    }

    /// The same for relations. Inverse relations come after the others.
    template <executor E>
    double sum_relations(const work& all, matrix_view<const float> relations, gneiss::sparse_gradients& out,
        double per_query, double per_positive, const E& executor) const {
        const link_batch& batch = all.batch;
        const std::size_t size = relation_floats(), R = batch.relations.size();
        if (size == 0) {
            out.resize(0, 0);
            return 0;
        }
        const std::size_t groups = options_.reciprocal ? batch.sides.size() : 1;
        out.resize(groups * R, size);
        // reciprocal rows ascend with the tail side first; groups are side positions
        return parallel_reduce(executor, groups * R, 1, 0.0, [&](std::size_t at, std::size_t) {
            const std::size_t group = at / R, relation = at % R;
            const std::span<float> sum = out.rows()[at];
            std::fill(sum.begin(), sum.end(), 0.0F);
            const std::size_t begin = batch.relation_offsets[relation], end = batch.relation_offsets[relation + 1];
            for (std::size_t s = 0; s < batch.sides.size(); ++s) {
                if (options_.reciprocal && s != group) continue;
                for (std::size_t o = begin; o < end; ++o)
                    add(sum, all.relation_gradients + (s * batch.positives() + batch.relation_occurrences[o]) * size);
            }
            for (float& x : sum) x *= static_cast<float>(per_query);
            const auto row = relation_row(relations, batch.side_at(group), batch.relations[relation]);
            out.ids()[at] = static_cast<std::uint32_t>(
                static_cast<std::size_t>(row.data() - relations.data()) / relations.stride());
            return options_.penalty.add_gradient<float>(
                row, has_complex_rows<Decoder>, per_positive * static_cast<double>(end - begin), sum);
        });
    }

    static constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

    std::size_t dim_;
    link_model_options options_;
    Decoder decode_;
    Loss loss_;
    candidates score_;
    reusable_buffer<float> known_gradients_, answer_gradients_, relation_gradients_, negative_gradients_;
    std::vector<link_statistics> outcomes_;
    object_pool<std::unique_ptr<scratch>> scratch_;
};

} // namespace gneiss
