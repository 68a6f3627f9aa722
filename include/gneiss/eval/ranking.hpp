// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/detail/score_tiles.hpp>
#include <gneiss/eval/known_edges.hpp>
#include <gneiss/eval/metrics.hpp>
#include <gneiss/eval/score_kernel.hpp>
#include <gneiss/model/link_scorer.hpp>

namespace gneiss {

/// Receives the counts of an edge: its position, and the counts of its head and its tail.
using rank_visitor = std::function<void(std::size_t position, const rank_counts& head, const rank_counts& tail)>;

/// A score that is not a number, by the query whose answers it ranks: the model diverged, or its parameters are
/// damaged.
class score_not_finite : public error {
public:
    /// \param of  the query in words, by ids
    score_not_finite(const std::string& of, const link_query& query)
        : error(errc::not_finite, "a score of " + of + " is not a number"),
          query_(query) {}

    /// Returns the query.
    [[nodiscard]] const link_query& query() const noexcept { return query_; }

private:
    link_query query_;
};

/// Memory plan of a ranking, made in advance.
struct ranking_plan {
    std::size_t edges_per_block = 0; ///< edges ranked at once; each block streams the table twice
    std::uint64_t answer_bytes = 0;  ///< available for the known answers of a block
    std::vector<memory_need> parts;  ///< the sum is at most the given memory
};

/// Shape of a ranking.
struct ranking_shape {
    std::size_t edges = 0, dim = 0; ///< number of ranked edges; floats per row
    bool filtered = false;          ///< exclude known true answers
    std::size_t concurrency = 1;    ///< threads of the executor
};

/// Plans a ranking within `memory` bytes.
///
/// Blocks are as large as memory allows. If not all edges fit and `filtered`, half of the memory for blocks is reserved
/// for known answers. Throws over_budget if one edge does not fit.
template <score_kernel K = fixed_order_kernel>
[[nodiscard]] ranking_plan plan_ranking(const ranking_shape& shape, std::uint64_t memory, const K& kernel = {});

/// Ranks both ends of every edge among all rows of the table, and sums the metrics.
///
/// The tail of (h, r, t) is ranked among the scores of (h, r, x) for all nodes x, the head among those of (x, r, t):
/// rank = 1 + candidates with a higher score + half of those with an equal score. Filtered if `known` shows the true
/// edges (train, valid and test): true answers other than the edge's own are excluded. Raw if `known` is empty.
///
///     const double mrr = rank_edges(trainer.scorer(), trainer.nodes(), test_edges, known, executor).both().mrr();
///
/// \param score     the trained model
/// \param rows      embeddings of all nodes [n, dim]
/// \param edges     edges to rank; they need not be among the known ones
/// \param memory    bytes that this may allocate; any number of edges can be ranked if one fits
/// \param visit     called with the counts of each edge, in order
/// \param among     nodes that are candidates, besides the true answer; all by default
///
/// Cost: 2 · edges · n · dim multiply-adds; per block of edges two passes over the table and, if filtered, two scans of
/// the known edges. The result is the same, bit for bit, for any memory, table blocks and number of threads.
/// Errors: out_of_range for an edge with an unknown row or relation; `score_not_finite`; over_budget if one edge does
/// not fit.
/// Source: Bordes et al., NIPS 2013, §4.1; Marius, OSDI'21, §5.1 (FilteredMRR).
template <class Rows, class E, class K = fixed_order_kernel>
link_metrics rank_edges(const link_scorer& score, Rows& rows, std::span<const edge> edges, const edge_scan& known,
    const E& executor, std::uint64_t memory = std::uint64_t{1} << 30, const rank_visitor& visit = {},
    const K& kernel = {}, const candidate_sets& among = {});

namespace detail {

[[nodiscard]] inline std::string describe(std::size_t position, const edge& e) {
    return "edge " + std::to_string(position) + " (" + std::to_string(e.source) + ", " + std::to_string(e.relation) +
        ", " + std::to_string(e.destination) + ")";
}

/// Throws out_of_range for the first edge with an unknown row or relation.
inline void check_edges(const link_scorer& score, std::span<const edge> edges, std::uint64_t rows, std::size_t dim) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
        const edge& e = edges[i];
        if (score.knows(std::max(e.source, e.destination), e.relation, rows, dim)) continue;
        throw error(errc::out_of_range, describe(i, e) + " names a node or relation that does not exist");
    }
}

[[noreturn]] inline void throw_not_finite(std::size_t position, const edge& e, side target_side) {
    throw score_not_finite(describe(position, e) + " among its " + (target_side == side::tail ? "tails" : "heads"),
        query_of(e, target_side));
}

/// Returns the two queries of each edge: number 2i asks for the tail of edge i, 2i + 1 for its head.
[[nodiscard]] inline std::vector<link_query> queries_of(std::span<const edge> edges) {
    std::vector<link_query> queries;
    queries.reserve(2 * edges.size());
    for (const edge& e : edges) {
        queries.push_back(query_of(e, side::tail));
        queries.push_back(query_of(e, side::head));
    }
    return queries;
}

/// Converts the rows of the edges' ends to query vectors, in place, and scores the true answers.
///
/// Ends [2m, dim]: row 2i is the source's, 2i + 1 the destination's; they become queries 2i and 2i + 1. targets [2m].
template <score_kernel K, executor E>
void make_queries(const link_scorer& score, std::span<const link_query> queries, matrix_view<float> ends,
    std::span<float> targets, const K& kernel, const E& executor, scratch_pool& scratch) {
    constexpr std::size_t grain = 32;
    const std::size_t dim = ends.columns();
    parallel_for(executor, queries.size(), grain, [&](std::size_t begin, std::size_t end) {
        scratch.with([&](std::span<float> space) {
            const matrix_view<float> result(space.data(), end - begin, dim);
            const matrix_view<float> answers(&space[grain * dim], end - begin, dim);
            for (std::size_t i = begin; i < end; ++i) {
                score.query(queries[i], ends[i], result[i - begin]);
                std::ranges::copy(ends[i ^ 1], answers[i - begin].begin());
            }
            score_pairs(score.compare(), result, answers, kernel, targets.subspan(begin, end - begin),
                space.subspan(2 * grain * dim));
            for (std::size_t i = begin; i < end; ++i) std::ranges::copy(result[i - begin], ends[i].begin());
        });
    });
}

/// Gathers the rows of the queries' known nodes into `to` [queries, dim].
template <embedding_stream Rows, executor E>
void gather_known(Rows& rows, std::span<const link_query> queries, matrix_view<float> to, const E& executor) {
    std::vector<row_request> wanted(queries.size());
    for (std::size_t i = 0; i < queries.size(); ++i) wanted[i] = {queries[i].known, static_cast<std::uint32_t>(i)};
    gather_rows(rows, wanted, to, executor);
}

/// Queries of some edges, with the vector and the answer's score of each.
struct made_queries {
    std::vector<link_query> queries;
    aligned_buffer<float> storage, targets; ///< targets [queries]
    matrix_view<float> ends;                ///< [queries, dim], in storage
};
template <embedding_stream Rows, executor E, score_kernel K>
made_queries make_queries_of(const link_scorer& score, Rows& rows, std::span<const edge> edges, const E& executor,
    const K& kernel, scratch_pool& scratch) {
    made_queries made{.queries = queries_of(edges), .storage = {}, .targets = {}, .ends = {}};
    const auto dim = static_cast<std::size_t>(rows.dim());
    made.storage = aligned_buffer<float>(made.queries.size() * dim);
    made.targets = aligned_buffer<float>(made.queries.size());
    made.ends = {made.storage.data(), made.queries.size(), dim};
    gather_known(rows, made.queries, made.ends, executor);
    make_queries(score, made.queries, made.ends, made.targets.span(), kernel, executor, scratch);
    return made;
}

/// Bytes of a block per edge: rows or queries, targets, counts, requests, and the filter's share.
[[nodiscard]] constexpr std::uint64_t block_bytes_per_edge(const ranking_shape& shape) {
    return 2 *
        (shape.dim * sizeof(float) + sizeof(float) + tile_shape::groups * sizeof(rank_counts) + sizeof(row_request) +
            sizeof(link_query) + (shape.filtered ? known_answers::bytes_per_query : 0));
}

/// Counts the scores of the members of `set`; scores [n] are those of rows first_row ….
[[nodiscard]] inline score_counts count_members(
    std::span<const float> scores, std::uint64_t first_row, const node_set& set, float target) noexcept {
    score_counts counts;
    set.for_each(first_row, first_row + scores.size(), [&](node_id node) {
        const float score = scores[static_cast<std::size_t>(node - first_row)];
        counts.greater += score > target;
        counts.equal += score == target;
        counts.not_a_number += !(score <= target || score > target);
    });
    return counts;
}

/// Ranks one block: counts[2i] for the tail of edge i, counts[2i + 1] for its head. `known` covers all queries or none.
template <embedding_stream Rows, executor E, score_kernel K>
std::vector<rank_counts> rank_block(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    std::size_t first_position, const known_answers& known, const candidate_sets& among, const E& executor,
    const K& kernel, scratch_pool& scratch) {
    const made_queries made = make_queries_of(score, rows, edges, executor, kernel, scratch);
    const std::span<const link_query> queries = made.queries;
    const std::span<const float> targets = made.targets.span();
    const matrix_view<float> ends = made.ends;

    constexpr std::uint64_t not_a_number = ~std::uint64_t{0};
    std::vector<rank_counts> counts(
        tile_shape::groups * queries.size()); // [groups, queries]: tasks do not share counts
    for_each_tile(score.compare(), rows, ends, kernel, executor, scratch,
        [&](std::size_t group, std::size_t first_query, std::uint64_t first_row, matrix_view<const float> scores) {
            for (std::size_t i = 0; i < scores.rows(); ++i) {
                const std::size_t q = first_query + i;
                rank_counts& to = counts[group * queries.size() + q];
                const float target = targets[q];
                const node_set* const allowed = among ? &among.of(queries[q]) : nullptr;
                score_counts found = allowed == nullptr ? count_scores(scores[i], target)
                                                        : count_members(scores[i], first_row, *allowed, target);
                const auto mask = [&](node_id node) {
                    if (allowed != nullptr && !allowed->contains(node)) return;
                    const float value = scores(i, static_cast<std::size_t>(node - first_row));
                    found.greater -= value > target;
                    found.equal -= value == target;
                };
                const node_id answer = answer_of(edges[q / 2], queries[q].target_side);
                const std::uint64_t end_row = first_row + scores.columns();
                if (found.not_a_number != 0 || target != target) to.greater = not_a_number;
                if (to.greater == not_a_number) continue;
                if (answer >= first_row && answer < end_row) mask(answer);
                if (known.covered() != 0) {
                    const std::span<const node_id> true_answers = known.of(q);
                    for (auto at = std::ranges::lower_bound(true_answers, first_row);
                        at != true_answers.end() && *at < end_row; ++at)
                        if (*at != answer) mask(*at);
                }
                to.greater += found.greater;
                to.ties += found.equal;
            }
        });
    for (std::size_t q = 0; q < queries.size(); ++q)
        for (std::size_t group = 0; group < tile_shape::groups; ++group) {
            const rank_counts& more = counts[group * queries.size() + q];
            if (more.greater == not_a_number)
                throw_not_finite(first_position + q / 2, edges[q / 2], queries[q].target_side);
            if (group == 0) continue;
            counts[q].greater += more.greater;
            counts[q].ties += more.ties;
        }
    counts.resize(queries.size());
    return counts;
}

} // namespace detail

template <score_kernel K>
ranking_plan plan_ranking(const ranking_shape& shape, std::uint64_t memory, const K& kernel) {
    const std::uint64_t edges = shape.edges;
    const std::uint64_t tiles = (detail::superblock_floats(kernel, shape.dim) +
                                    shape.concurrency * detail::tile_scratch_floats(kernel, shape.dim)) *
        sizeof(float);
    const std::uint64_t per_edge = detail::block_bytes_per_edge(shape);
    ranking_plan plan;
    plan.parts = {{"ranking tiles", tiles}, {"queries of a block", per_edge}};
    if (memory < tiles || memory - tiles < per_edge) throw over_budget(memory, std::move(plan.parts));
    const std::uint64_t rest = memory - tiles;
    std::uint64_t fit = rest / per_edge;
    if (shape.filtered && fit < 2 * edges) fit = std::max<std::uint64_t>(1, fit / 2);
    constexpr std::uint64_t most = std::uint64_t{1} << 30; // slots are 32-bit
    plan.edges_per_block = static_cast<std::size_t>(std::min({fit, edges, most}));
    plan.parts[1].bytes = plan.edges_per_block * per_edge;
    if (shape.filtered) {
        plan.answer_bytes = rest - plan.parts[1].bytes;
        plan.parts.push_back({"known answers of a block", plan.answer_bytes});
    }
    return plan;
}

namespace detail {

template <embedding_stream Rows, executor E, score_kernel K>
link_metrics rank_in_blocks(const link_scorer& score, Rows& rows, std::span<const edge> edges, const edge_scan& known,
    const E& executor, std::uint64_t memory, const rank_visitor& visit, const K& kernel, const candidate_sets& among) {
    link_metrics metrics;
    if (edges.empty()) return metrics;
    const auto dim = static_cast<std::size_t>(rows.dim());
    detail::check_edges(score, edges, rows.rows(), dim);
    const ranking_plan plan =
        plan_ranking({edges.size(), dim, static_cast<bool>(known), executor.concurrency()}, memory, kernel);
    detail::scratch_pool scratch(detail::tile_scratch_floats(kernel, dim));
    for (std::size_t first = 0; first < edges.size();) {
        std::size_t count = std::min(plan.edges_per_block, edges.size() - first);
        known_answers answers;
        if (known) {
            answers =
                known_answers(detail::queries_of(edges.subspan(first, count)), known, executor, plan.answer_bytes);
            count = answers.covered() / 2;
            if (count == 0) {
                auto parts = plan.parts;
                parts.back().bytes = rows.rows() * 2 * sizeof(node_id);
                throw over_budget(memory, std::move(parts));
            }
        }
        const auto counts = detail::rank_block(
            score, rows, edges.subspan(first, count), first, answers, among, executor, kernel, scratch);
        for (std::size_t i = 0; i < count; ++i) {
            metrics.tail.add(counts[2 * i]);
            metrics.head.add(counts[2 * i + 1]);
            if (visit) visit(first + i, counts[2 * i + 1], counts[2 * i]);
        }
        first += count;
    }
    return metrics;
}

} // namespace detail

template <class Rows, class E, class K>
link_metrics rank_edges(const link_scorer& score, Rows& rows, std::span<const edge> edges, const edge_scan& known,
    const E& executor, std::uint64_t memory, const rank_visitor& visit, const K& kernel, const candidate_sets& among) {
    static_assert(embedding_stream<Rows>,
        "rank_edges: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp");
    static_assert(
        gneiss::executor<E>, "rank_edges: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    static_assert(score_kernel<K>, "rank_edges: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp");
    if constexpr (embedding_stream<Rows> && gneiss::executor<E> && score_kernel<K>)
        return detail::rank_in_blocks(score, rows, edges, known, executor, memory, visit, kernel, among);
}

} // namespace gneiss
