// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/eval/ranking.hpp>

namespace gneiss {

/// Candidates in memory: `heads` [edges, n] and `tails` [edges, m], row i for edge i. An empty matrix leaves its end
/// unranked. Does not own the matrices. Models `candidate_source`.
class given_candidates {
public:
    /// Views the matrices, which must outlive this.
    given_candidates(matrix_view<const node_id> heads, matrix_view<const node_id> tails)
        : heads_(heads),
          tails_(tails) {}

    /// Returns the number of candidates of an end.
    [[nodiscard]] std::uint64_t size(std::size_t, side target_side) const noexcept {
        return lists(target_side).columns();
    }
    /// Shows the lists of edges [first, first + count).
    void read(std::size_t first, std::size_t count, const candidate_visitor& visit) const {
        for (const side target_side : {side::head, side::tail})
            for (std::size_t i = first; i < first + count && size(i, target_side) != 0; ++i)
                visit(i, target_side, lists(target_side)[i]);
    }

private:
    [[nodiscard]] const matrix_view<const node_id>& lists(side target_side) const noexcept {
        return target_side == side::head ? heads_ : tails_;
    }

    matrix_view<const node_id> heads_, tails_;
};

static_assert(candidate_source<given_candidates>);

/// Ranks the ends of every edge among given candidates, for benchmarks that publish a list per query, such as
/// ogbl-wikikg2 and ogbl-citation2 of the Open Graph Benchmark.
///
/// rank = 1 + candidates with a higher score + half of those with an equal score. Unfiltered: every entry of a list
/// counts, including repetitions, except the answer itself.
///
/// \param candidates  a list for each end of each edge; an end without one is not ranked and adds to no metric
/// \param memory      bytes that this may allocate; others as for `rank_edges`
/// \param visit       called with the counts of each edge, in order; those of an unranked end are 0
///
/// Cost: one kernel tile per 12 candidates, because lists share few rows. Blocks of edges are as large as memory
/// allows, at 8 bytes per candidate and two rows per edge. Each block streams the table twice; a row in many lists is
/// read once. The result is the same, bit for bit, for any memory, table blocks and number of threads.
/// Errors: those of `rank_edges`; out_of_range for a candidate beyond the rows. Source: Hu et al., "Open Graph
/// Benchmark", NeurIPS 2020, §4; ties as in OGB's evaluator.
template <class Rows, class Candidates, class E, class K = fixed_order_kernel>
link_metrics rank_edges_given(const link_scorer& score, Rows& rows, std::span<const edge> edges, Candidates& candidates,
    const E& executor, std::uint64_t memory = std::uint64_t{1} << 30, const rank_visitor& visit = {},
    const K& kernel = {});

namespace detail {

/// Candidate of a block, with its query.
struct candidate_of {
    node_id node{};
    std::uint32_t query = 0;

    friend constexpr auto operator<=>(const candidate_of&, const candidate_of&) = default;
    friend constexpr bool operator==(const candidate_of&, const candidate_of&) = default;
};

inline constexpr std::size_t pairs_of_tile = 12; ///< pairs scored at once: rows of the kernel's largest tile
inline constexpr std::size_t most_pairs = 32;    ///< pairs that `make_queries` scores at once

/// Floats of scratch for one task.
template <score_kernel K>
[[nodiscard]] std::size_t pair_scratch_floats(const K& kernel, std::size_t dim) {
    return most_pairs * (2 * dim + most_pairs) + kernel.packed_floats(most_pairs, dim) +
        kernel.scratch_floats(most_pairs, dim);
}

/// Bytes of a block per edge, without its candidates.
[[nodiscard]] constexpr std::uint64_t given_bytes_per_edge(std::size_t dim) noexcept {
    return 2 *
        (dim * sizeof(float) + sizeof(float) + sizeof(rank_counts) + sizeof(row_request) + sizeof(link_query) + 1);
}

/// Number of edges from `first` on that fit in a block of `bytes`; 0: not even one.
template <candidate_source S>
std::size_t given_block_edges(
    S& candidates, std::size_t first, std::size_t edges, std::size_t dim, std::uint64_t bytes) {
    constexpr std::size_t most = std::size_t{1} << 30; // two 32-bit slots each
    std::size_t count = 0;
    for (; first + count < edges && count < most; ++count) {
        const std::uint64_t listed =
            candidates.size(first + count, side::head) + candidates.size(first + count, side::tail);
        const std::uint64_t need = given_bytes_per_edge(dim) + listed * sizeof(candidate_of);
        if (need > bytes) break;
        bytes -= need;
    }
    return count;
}

/// Reads the candidates of a block, without the answers, ascending.
template <candidate_source S, executor E>
std::vector<candidate_of> read_candidates(S& candidates, std::span<const edge> edges, std::size_t first,
    std::size_t count, std::uint64_t rows, const E& executor) {
    std::uint64_t listed = 0;
    for (std::size_t i = first; i < first + count; ++i)
        listed += candidates.size(i, side::head) + candidates.size(i, side::tail);
    std::vector<candidate_of> pairs;
    pairs.reserve(static_cast<std::size_t>(listed));
    candidates.read(first, count, [&](std::size_t position, side target_side, std::span<const node_id> nodes) {
        const auto query = static_cast<std::uint32_t>(2 * (position - first) + (target_side == side::head));
        const node_id answer = answer_of(edges[position], target_side);
        GNEISS_ASSERT(nodes.size() == candidates.size(position, target_side));
        for (const node_id node : nodes) {
            if (node >= rows)
                throw error(errc::out_of_range,
                    describe(position, edges[position]) + " has the candidate " + std::to_string(node) +
                        ", there are " + std::to_string(rows) + " nodes");
            if (node != answer) pairs.push_back({node, query});
        }
    });
    parallel_sort(executor, pairs);
    return pairs;
}

/// Ranks edges [first, first + count); counts as in `rank_block`.
template <embedding_stream Rows, candidate_source S, executor E, score_kernel K>
std::vector<rank_counts> rank_given_block(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    std::size_t first, std::size_t count, S& candidates, const E& executor, const K& kernel, scratch_pool& scratch) {
    const auto dim = static_cast<std::size_t>(rows.dim());
    const std::vector<candidate_of> pairs = read_candidates(candidates, edges, first, count, rows.rows(), executor);
    const made_queries made = make_queries_of(score, rows, edges.subspan(first, count), executor, kernel, scratch);
    const std::span<const link_query> queries = made.queries;
    const std::span<const float> targets = made.targets.span();
    const matrix_view<float> ends = made.ends;

    // Pairs of a query are far apart, so tasks add to the same counts; integer sums are order-independent.
    std::vector<rank_counts> counts(queries.size());
    std::vector<std::uint8_t> not_a_number(queries.size());
    auto next = pairs.begin();
    rows.for_each_block([&](std::uint64_t first_row, matrix_view<const float> block) {
        const auto end = std::ranges::lower_bound(next, pairs.end(), first_row + block.rows(), {}, &candidate_of::node);
        const std::span<const candidate_of> met(std::exchange(next, end), end);
        parallel_for(executor, met.size(), 64 * pairs_of_tile, [&](std::size_t begin, std::size_t stop) {
            scratch.with([&](std::span<float> space) {
                std::array<float, pairs_of_tile> found{};
                for (std::size_t at = begin; at < stop; at += pairs_of_tile) {
                    const auto some = met.subspan(at, std::min(pairs_of_tile, stop - at));
                    const matrix_view<float> asked(space.data(), some.size(), dim),
                        given(&space[pairs_of_tile * dim], some.size(), dim);
                    for (std::size_t i = 0; i < some.size(); ++i) {
                        std::ranges::copy(ends[some[i].query], asked[i].begin());
                        std::ranges::copy(block[static_cast<std::size_t>(some[i].node - first_row)], given[i].begin());
                    }
                    score_pairs(score.compare(), asked, given, kernel, std::span(found).first(some.size()),
                        space.subspan(2 * pairs_of_tile * dim));
                    for (std::size_t i = 0; i < some.size(); ++i) {
                        const std::uint32_t q = some[i].query;
                        const float target = targets[q];
                        if (found[i] > target)
                            std::atomic_ref(counts[q].greater).fetch_add(1, std::memory_order_relaxed);
                        else if (found[i] == target)
                            std::atomic_ref(counts[q].ties).fetch_add(1, std::memory_order_relaxed);
                        else if (!(found[i] < target))
                            std::atomic_ref(not_a_number[q]).store(1, std::memory_order_relaxed);
                    }
                }
            });
        });
    });
    GNEISS_ASSERT(next == pairs.end());
    for (std::size_t q = 0; q < queries.size(); ++q)
        if (not_a_number[q] != 0 ||
            (std::isnan(targets[q]) && candidates.size(first + q / 2, queries[q].target_side) != 0))
            throw_not_finite(first + q / 2, edges[first + q / 2], queries[q].target_side);
    return counts;
}

template <embedding_stream Rows, candidate_source Candidates, executor E, score_kernel K>
link_metrics rank_given_in_blocks(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    Candidates& candidates, const E& executor, std::uint64_t memory, const rank_visitor& visit, const K& kernel) {
    link_metrics metrics;
    if (edges.empty()) return metrics;
    const auto dim = static_cast<std::size_t>(rows.dim());
    detail::check_edges(score, edges, rows.rows(), dim);
    const std::size_t scratch_floats = detail::pair_scratch_floats(kernel, dim);
    const std::uint64_t tiles = executor.concurrency() * scratch_floats * sizeof(float);
    detail::scratch_pool scratch(scratch_floats);
    for (std::size_t first = 0; first < edges.size();) {
        const std::size_t count =
            memory < tiles ? 0 : detail::given_block_edges(candidates, first, edges.size(), dim, memory - tiles);
        const auto size = [&](std::size_t i, side target_side) {
            return static_cast<std::uint64_t>(candidates.size(i, target_side));
        };
        if (count == 0)
            throw over_budget(memory,
                {{"ranking tiles", tiles}, {"queries of an edge", detail::given_bytes_per_edge(dim)},
                    {"candidates of an edge",
                        (size(first, side::head) + size(first, side::tail)) * sizeof(detail::candidate_of)}});
        const auto counts =
            detail::rank_given_block(score, rows, edges, first, count, candidates, executor, kernel, scratch);
        for (std::size_t i = 0; i < count; ++i) {
            if (size(first + i, side::tail) != 0) metrics.tail.add(counts[2 * i]);
            if (size(first + i, side::head) != 0) metrics.head.add(counts[2 * i + 1]);
            if (visit) visit(first + i, counts[2 * i + 1], counts[2 * i]);
        }
        first += count;
    }
    return metrics;
}

} // namespace detail

template <class Rows, class Candidates, class E, class K>
link_metrics rank_edges_given(const link_scorer& score, Rows& rows, std::span<const edge> edges, Candidates& candidates,
    const E& executor, std::uint64_t memory, const rank_visitor& visit, const K& kernel) {
    static_assert(embedding_stream<Rows>,
        "rank_edges_given: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp");
    static_assert(candidate_source<Candidates>,
        "rank_edges_given: Candidates must be a gneiss::candidate_source, see gneiss/eval/concepts.hpp");
    static_assert(
        gneiss::executor<E>, "rank_edges_given: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    static_assert(score_kernel<K>, "rank_edges_given: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp");
    if constexpr (embedding_stream<Rows> && candidate_source<Candidates> && gneiss::executor<E> && score_kernel<K>)
        return detail::rank_given_in_blocks(score, rows, edges, candidates, executor, memory, visit, kernel);
}

} // namespace gneiss
