// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/eval/ranking.hpp>

namespace gneiss {

/// Candidates of a sampled ranking.
///
/// Draws `count` nodes per side with replacement: a fraction `by_degree` as ends of random training edges, i.e. in
/// proportion to degree, the others uniformly over all nodes. `edges_per_set` consecutive edges share them; 1 gives
/// each edge its own candidates, at `count` rows of memory and reads per edge. Candidate c of side s (head 0, tail 1)
/// of set e is drawn from the key {seed, evaluate}.with(1).with(e).with(s), draws 2c and 2c + 1, independent of memory
/// and threads. Draws by degree are positions in the order in which training edges are shown.
struct candidate_sampling {
    std::uint32_t count = 1000;         ///< candidates of an end
    double by_degree = 0.5;             ///< share of candidates drawn in proportion to degree
    std::uint64_t edges_per_set = 1000; ///< consecutive edges that share candidates
    std::uint64_t seed = 0;
};

/// All training edges: their number, and a scan that always shows them in the same order.
struct training_edges {
    std::uint64_t count = 0; ///< number of edges
    edge_scan scan{};        ///< shows all edges
};

/// Returns `count` of the edges, or all, chosen at random by {seed, evaluate}.with(0) and kept in order. O(count log
/// count).
[[nodiscard]] inline std::vector<edge> choose_edges(
    std::span<const edge> edges, std::uint64_t count, std::uint64_t seed) {
    if (count >= edges.size()) return {edges.begin(), edges.end()};
    const keyed_permutation permute(edges.size(), random_key{seed, random_domain::evaluate}.with(0));
    std::vector<std::uint64_t> positions(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = permute(i);
    std::ranges::sort(positions);
    std::vector<edge> chosen(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) chosen[i] = edges[static_cast<std::size_t>(positions[i])];
    return chosen;
}

/// Ranks both ends of every edge among sampled candidates, for graphs on which a full ranking takes hours.
///
/// Unfiltered, as Marius, PBG and DGL-KE evaluate large graphs: a candidate that is a true answer counts against the
/// edge's answer, which is rare with few candidates; the answer itself is excluded. Ranks are among at most `count` + 1
/// nodes, so an MRR is only comparable with others of the same settings.
///
/// \param training  needed if a fraction is drawn by degree
/// \param memory    bytes that this may allocate; others as for `rank_edges`
///
/// Cost: 2 · edges · count multiply-adds of rows; per block of edges one pass over the table and one over the training
/// edges. The result is the same, bit for bit, for any memory, table blocks and number of threads.
/// Errors: those of `rank_edges`; invalid_argument for a fraction outside [0, 1], zero candidates, an empty set, or
/// draws by degree without edges. Source: Marius, OSDI'21, §5.1 (unfiltered metrics, n_e and α_ne).
template <class Rows, class E, class K = fixed_order_kernel>
link_metrics rank_edges_sampled(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const candidate_sampling& sampling, const training_edges& training, const E& executor,
    std::uint64_t memory = std::uint64_t{1} << 30, const rank_visitor& visit = {}, const K& kernel = {});

namespace detail {

/// Candidate drawn as an end of training edge `position`.
struct degree_draw {
    std::uint64_t position = 0;
    std::uint32_t index = 0; ///< index among the candidates of the block
    side end = side::head;

    friend constexpr auto operator<=>(const degree_draw&, const degree_draw&) = default;
    friend constexpr bool operator==(const degree_draw&, const degree_draw&) = default;
};

/// Candidates of sets [first_set, first_set + sets): [sets, 2, count] node ids, heads before tails.
template <executor E>
std::vector<node_id> draw_candidates(const candidate_sampling& sampling, const training_edges& training,
    std::uint64_t nodes, std::uint64_t first_set, std::size_t sets, const E& executor) {
    const auto by_degree = static_cast<std::size_t>(std::llround(sampling.by_degree * sampling.count));
    std::vector<node_id> candidates(sets * 2 * sampling.count);
    std::vector<degree_draw> draws(sets * 2 * by_degree);
    parallel_for(executor, sets * 2, 16, [&](std::size_t begin, std::size_t end) {
        for (std::size_t list = begin; list < end; ++list) {
            const random_key key =
                random_key{sampling.seed, random_domain::evaluate}.with(1).with(first_set + list / 2).with(list % 2);
            for (std::size_t c = 0; c < sampling.count; ++c) {
                const std::size_t index = list * sampling.count + c;
                if (c < by_degree)
                    draws[list * by_degree + c] = {below(key[2 * c], training.count), static_cast<std::uint32_t>(index),
                        key[2 * c + 1] % 2 == 0 ? side::head : side::tail};
                else
                    candidates[index] = static_cast<node_id>(below(key[2 * c], nodes));
            }
        }
    });
    if (draws.empty()) return candidates;
    parallel_sort(executor, draws);
    auto next = draws.cbegin();
    std::uint64_t shown = 0;
    training.scan([&](std::span<const edge> some) {
        for (; next != draws.cend() && next->position < shown + some.size(); ++next)
            candidates[next->index] = answer_of(some[static_cast<std::size_t>(next->position - shown)], next->end);
        shown += some.size();
    });
    if (shown != training.count)
        throw error(errc::invalid_argument,
            "the scan showed " + std::to_string(shown) + " training edges of " + std::to_string(training.count));
    return candidates;
}

/// Number of edges in a block: whole sets if one fits, else part of a set. Throws over_budget if not even one edge
/// fits.
template <score_kernel K>
std::uint64_t sampled_block_edges(const candidate_sampling& sampling, std::size_t dim, std::size_t concurrency,
    std::uint64_t memory, const K& kernel) {
    const std::uint64_t tiles = concurrency * tile_scratch_floats(kernel, dim) * sizeof(float);
    const std::uint64_t per_edge =
        2 * (dim * sizeof(float) + sizeof(float) + sizeof(rank_counts) + sizeof(row_request) + sizeof(link_query));
    const std::uint64_t per_set =
        2 * sampling.count * (dim * sizeof(float) + sizeof(node_id) + sizeof(row_request) + sizeof(degree_draw));
    std::vector<memory_need> parts{
        {"ranking tiles", tiles}, {"candidates of a set", per_set}, {"queries of an edge", per_edge}};
    if (memory < tiles || memory - tiles < per_set + per_edge) throw over_budget(memory, std::move(parts));
    const std::uint64_t rest = memory - tiles;
    constexpr std::uint64_t most = std::uint64_t{1} << 30; // two 32-bit slots each, for edges and candidates
    const std::uint64_t sets = std::min(rest / (per_set + sampling.edges_per_set * per_edge),
        most / std::max<std::uint64_t>(sampling.count, sampling.edges_per_set));
    return sets != 0 ? sets * sampling.edges_per_set : std::min((rest - per_set) / per_edge, most);
}

/// Ranks one block, whose edges begin at `first_position` and are in consecutive sets; counts as in `rank_block`.
template <embedding_stream Rows, executor E, score_kernel K>
std::vector<rank_counts> rank_sampled_block(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    std::uint64_t first_position, const candidate_sampling& sampling, const training_edges& training, const E& executor,
    const K& kernel, scratch_pool& scratch) {
    const auto dim = static_cast<std::size_t>(rows.dim());
    const std::size_t count = sampling.count;
    const std::uint64_t first_set = first_position / sampling.edges_per_set;
    const std::uint64_t last_set = (first_position + edges.size() - 1) / sampling.edges_per_set;
    const auto sets = static_cast<std::size_t>(last_set - first_set + 1);
    const std::vector<link_query> queries = queries_of(edges);
    const std::vector<node_id> candidates = draw_candidates(sampling, training, rows.rows(), first_set, sets, executor);
    aligned_buffer<float> storage((queries.size() + candidates.size()) * dim), targets(queries.size());
    const matrix_view<float> all(storage.data(), queries.size() + candidates.size(), dim);
    {
        std::vector<row_request> wanted(all.rows());
        for (std::size_t i = 0; i < wanted.size(); ++i)
            wanted[i] = {
                i < queries.size() ? queries[i].known : candidates[i - queries.size()], static_cast<std::uint32_t>(i)};
        gather_rows(rows, wanted, all, executor);
    }
    make_queries(score, queries, all.middle_rows(0, queries.size()), targets.span(), kernel, executor, scratch);

    // Task: some edges of one set, one side.
    struct piece {
        std::size_t begin, end, list;
    };
    std::vector<piece> pieces;
    for (std::size_t begin = 0, end = 0; begin < edges.size(); begin = end) {
        const std::uint64_t set = (first_position + begin) / sampling.edges_per_set;
        const std::uint64_t to_border = (set + 1) * sampling.edges_per_set - (first_position + begin);
        end = static_cast<std::size_t>(
            std::min({begin + to_border, std::uint64_t{begin + tile_shape::queries}, std::uint64_t{edges.size()}}));
        for (const side target_side : {side::head, side::tail})
            pieces.push_back({begin, end, static_cast<std::size_t>(set - first_set) * 2 + (target_side == side::tail)});
    }
    std::vector<rank_counts> counts(queries.size());
    std::vector<std::uint8_t> not_a_number(queries.size());
    executor.run(pieces.size(), [&](std::size_t task) {
        const auto [begin, end, list] = pieces[task];
        const std::size_t first_query = 2 * begin + (list % 2 == 0); // even queries ask for tails
        const matrix_view<const float> mine(all[first_query].data(), end - begin, dim, 2 * dim);
        scratch.with([&](std::span<float> space) {
            const auto packed = space.subspan(
                tile_shape::queries * tile_shape::candidates, kernel.packed_floats(tile_shape::candidates, dim));
            for (std::size_t c = 0; c < count; c += tile_shape::candidates) {
                const std::size_t some = std::min(tile_shape::candidates, count - c);
                const std::size_t at = list * count + c;
                kernel.pack(all.middle_rows(queries.size() + at, some), packed);
                const matrix_view<float> scores(space.data(), end - begin, some);
                kernel.scores(score.compare(), mine, packed, scores,
                    space.subspan(tile_shape::queries * tile_shape::candidates + packed.size()));
                for (std::size_t i = 0; i < scores.rows(); ++i) {
                    const std::size_t q = first_query + 2 * i;
                    const score_counts found = count_scores(scores[i], targets[q]);
                    const node_id answer = answer_of(edges[q / 2], queries[q].target_side);
                    const auto own = std::count(candidates.begin() + static_cast<std::ptrdiff_t>(at),
                        candidates.begin() + static_cast<std::ptrdiff_t>(at + some), answer);
                    if (found.not_a_number != 0) not_a_number[q] = 1;
                    counts[q].greater += found.greater;
                    counts[q].ties += found.equal - static_cast<std::uint64_t>(own); // the answer ties with itself
                }
            }
        });
    });
    for (std::size_t q = 0; q < queries.size(); ++q)
        if (not_a_number[q] != 0)
            throw_not_finite(static_cast<std::size_t>(first_position) + q / 2, edges[q / 2], queries[q].target_side);
    return counts;
}

template <embedding_stream Rows, executor E, score_kernel K>
link_metrics rank_sampled_in_blocks(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const candidate_sampling& asked, const training_edges& training, const E& executor, std::uint64_t memory,
    const rank_visitor& visit, const K& kernel) {
    candidate_sampling sampling = asked;
    if (!(sampling.by_degree >= 0 && sampling.by_degree <= 1))
        throw error(errc::invalid_argument, "the fraction of candidates by degree must be in [0, 1]");
    if (sampling.count == 0 || sampling.count > (1U << 30) || sampling.edges_per_set == 0)
        throw error(errc::invalid_argument, "sampled ranking needs 1 to 2³⁰ candidates and an edge to a set");
    if (sampling.by_degree > 0 && (training.count == 0 || !training.scan))
        throw error(errc::invalid_argument, "candidates by degree need training edges");
    link_metrics metrics;
    if (edges.empty()) return metrics;
    const auto dim = static_cast<std::size_t>(rows.dim());
    detail::check_edges(score, edges, rows.rows(), dim);
    const std::uint64_t set = sampling.edges_per_set = std::min<std::uint64_t>(sampling.edges_per_set, edges.size());
    const std::uint64_t block = detail::sampled_block_edges(sampling, dim, executor.concurrency(), memory, kernel);
    detail::scratch_pool scratch(detail::tile_scratch_floats(kernel, dim));
    for (std::uint64_t first = 0; first < edges.size();) {
        std::uint64_t end = std::min<std::uint64_t>(first + block, edges.size());
        if (block < set) end = std::min(end, (first / set + 1) * set); // a block smaller than a set stays within it
        const auto some = edges.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
        const auto counts =
            detail::rank_sampled_block(score, rows, some, first, sampling, training, executor, kernel, scratch);
        for (std::size_t i = 0; i < some.size(); ++i) {
            metrics.tail.add(counts[2 * i]);
            metrics.head.add(counts[2 * i + 1]);
            if (visit) visit(static_cast<std::size_t>(first) + i, counts[2 * i + 1], counts[2 * i]);
        }
        first = end;
    }
    return metrics;
}

} // namespace detail

template <class Rows, class E, class K>
link_metrics rank_edges_sampled(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const candidate_sampling& asked, const training_edges& training, const E& executor, std::uint64_t memory,
    const rank_visitor& visit, const K& kernel) {
    static_assert(embedding_stream<Rows>,
        "rank_edges_sampled: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp");
    static_assert(
        gneiss::executor<E>, "rank_edges_sampled: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    static_assert(
        score_kernel<K>, "rank_edges_sampled: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp");
    if constexpr (embedding_stream<Rows> && gneiss::executor<E> && score_kernel<K>)
        return detail::rank_sampled_in_blocks(score, rows, edges, asked, training, executor, memory, visit, kernel);
}

} // namespace gneiss
