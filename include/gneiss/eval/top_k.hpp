// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/eval/detail/score_tiles.hpp>
#include <gneiss/eval/known_edges.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/eval/score_kernel.hpp>
#include <gneiss/model/link_scorer.hpp>

namespace gneiss {

/// Candidate with its score by the model.
struct scored_node {
    node_id node{};  ///< id of the candidate
    float score = 0; ///< its score

    friend bool operator==(const scored_node&, const scored_node&) = default;
};

/// Limits of the answers to a query.
struct answer_limits {
    bool own_node = true;                  ///< the query's known node may be an answer
    const candidate_sets* among = nullptr; ///< nodes that may be answers; null: all
};

/// Returns the k best answers to each query, best first; ties go to the smaller id.
///
/// \param rows       embeddings of all nodes [n, dim]
/// \param leave_out  true edges whose answers are excluded (those already known); empty: excludes nothing
/// \param memory     bytes that this may allocate, without the result; queries are processed in blocks of that size
/// \param limits     nodes that may be answers
///
/// Returns min(k, candidates) nodes per query, in the order of the queries.
/// Cost: queries · n · dim multiply-adds; per block of queries two passes over the table and, if edges are left out,
/// two scans of them. The result is the same for any memory, table blocks and number of threads.
/// Errors: out_of_range for a query with an unknown row or relation; `score_not_finite`; over_budget.
///
/// From examples/26_evaluate.cpp:
/// \snippet 26_evaluate.cpp evaluate
template <class Rows, class E, class K = fixed_order_kernel>
std::vector<std::vector<scored_node>> top_k(const link_scorer& score, Rows& rows, std::span<const link_query> queries,
    std::size_t k, const edge_scan& leave_out, const E& executor, std::uint64_t memory = std::uint64_t{1} << 30,
    const K& kernel = {}, const answer_limits& limits = {});

namespace detail {

/// The k best offered candidates, as a heap with the worst on top. Nodes are offered in ascending order.
class best_heap {
public:
    [[nodiscard]] bool full(std::size_t k) const noexcept { return held_.size() == k; }
    /// Score that a candidate must exceed once the heap is full.
    [[nodiscard]] float worst() const noexcept { return worst_; }

    void offer(scored_node candidate, std::size_t k) {
        if (held_.size() == k) {
            std::pop_heap(held_.begin(), held_.end(), better);
            held_.back() = candidate;
        } else {
            held_.push_back(candidate);
        }
        std::push_heap(held_.begin(), held_.end(), better);
        worst_ = held_.front().score;
    }

    [[nodiscard]] const std::vector<scored_node>& held() const noexcept { return held_; }

    [[nodiscard]] static bool better(const scored_node& a, const scored_node& b) noexcept {
        return a.score != b.score ? a.score > b.score : a.node < b.node;
    }

private:
    std::vector<scored_node> held_;
    float worst_ = 0;
};

[[nodiscard]] inline std::string describe(std::size_t position, const link_query& q) {
    return "query " + std::to_string(position) + " (node " + std::to_string(q.known) + ", relation " +
        std::to_string(q.relation) + ")";
}

/// Answers one block; `first` is the position of its first query.
template <embedding_stream Rows, executor E, score_kernel K>
void top_k_block(const link_scorer& score, Rows& rows, std::span<const link_query> queries, std::size_t first,
    std::size_t k, const known_answers& known, const answer_limits& limits, const E& executor, const K& kernel,
    scratch_pool& scratch, std::vector<std::vector<scored_node>>& results) {
    const auto dim = static_cast<std::size_t>(rows.dim());
    aligned_buffer<float> known_rows(queries.size() * dim), created(queries.size() * dim);
    const matrix_view<float> ends(known_rows.data(), queries.size(), dim), vectors(created.data(), queries.size(), dim);
    gather_known(rows, queries, ends, executor);
    for (std::size_t i = 0; i < queries.size(); ++i) score.query(queries[i], ends[i], vectors[i]);

    std::vector<best_heap> heaps(tile_shape::groups * queries.size()); // [groups, queries]: tasks do not share heaps
    std::vector<std::uint8_t> not_a_number(heaps.size());
    for_each_tile(score.compare(), rows, vectors, kernel, executor, scratch,
        [&](std::size_t group, std::size_t first_query, std::uint64_t first_row, matrix_view<const float> scores) {
            for (std::size_t i = 0; i < scores.rows(); ++i) {
                const std::size_t q = first_query + i, slot = group * queries.size() + q;
                best_heap& best = heaps[slot];
                std::optional<candidate_sets::allowed_nodes> allowed;
                if (limits.among != nullptr && *limits.among) allowed = limits.among->allowed(queries[q]);
                const std::span<const float> mine = scores[i];
                constexpr std::size_t some = 64; // scores scanned by one vector loop before the heap is checked
                for (std::size_t begin = 0; begin < mine.size(); begin += some) {
                    const auto part = mine.subspan(begin, std::min(some, mine.size() - begin));
                    const score_counts seen = count_scores(part, best.worst());
                    if (seen.not_a_number != 0) not_a_number[slot] = 1;
                    if (best.full(k) && seen.greater == 0) continue;
                    for (std::size_t j = 0; j < part.size(); ++j) {
                        if (best.full(k) && !(part[j] > best.worst())) continue;
                        const auto node = static_cast<node_id>(first_row + begin + j);
                        if (!limits.own_node && node == queries[q].known) continue;
                        if (allowed && !allowed->contains(node)) continue;
                        if (known.covered() != 0 && std::ranges::binary_search(known.of(q), node)) continue;
                        best.offer({node, part[j]}, k);
                    }
                }
            }
        });
    for (std::size_t q = 0; q < queries.size(); ++q) {
        std::vector<scored_node>& result = results[first + q];
        for (std::size_t group = 0; group < tile_shape::groups; ++group) {
            const std::size_t slot = group * queries.size() + q;
            if (not_a_number[slot] != 0) throw score_not_finite(describe(first + q, queries[q]), queries[q]);
            result.insert(result.end(), heaps[slot].held().begin(), heaps[slot].held().end());
        }
        std::ranges::sort(result, best_heap::better);
        if (result.size() > k) result.resize(k);
        result.shrink_to_fit();
        for (scored_node& each : result) each.score = similarity_of(score.compare(), each.score);
    }
}

template <embedding_stream Rows, executor E, score_kernel K>
std::vector<std::vector<scored_node>> top_k_in_blocks(const link_scorer& score, Rows& rows,
    std::span<const link_query> queries, std::size_t k, const edge_scan& leave_out, const E& executor,
    std::uint64_t memory, const K& kernel, const answer_limits& limits) {
    std::vector<std::vector<scored_node>> results(queries.size());
    if (queries.empty() || k == 0) return results;
    const auto dim = static_cast<std::size_t>(rows.dim());
    for (std::size_t i = 0; i < queries.size(); ++i)
        if (!score.knows(queries[i].known, queries[i].relation, rows.rows(), dim))
            throw error(
                errc::out_of_range, detail::describe(i, queries[i]) + " names a node or relation that does not exist");
    k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.rows()));

    const std::uint64_t tiles =
        (detail::superblock_floats(kernel, dim) + executor.concurrency() * detail::tile_scratch_floats(kernel, dim)) *
        sizeof(float);
    const std::uint64_t heap = sizeof(detail::best_heap) + 2 * k * sizeof(scored_node);
    const std::uint64_t per_query = 2 * dim * sizeof(float) + sizeof(detail::row_request) +
        detail::tile_shape::groups * heap + (leave_out ? known_answers::bytes_per_query : 0);
    std::vector<memory_need> parts{{"ranking tiles", tiles}, {"a query and its answers", per_query}};
    if (memory < tiles || memory - tiles < per_query) throw over_budget(memory, std::move(parts));
    const std::uint64_t rest = memory - tiles;
    std::uint64_t fit = rest / per_query;
    if (leave_out && fit < 2 * std::uint64_t{queries.size()}) fit = std::max<std::uint64_t>(1, fit / 2);
    const auto block = static_cast<std::size_t>(
        std::min<std::uint64_t>({fit, queries.size(), std::numeric_limits<std::uint32_t>::max()}));

    detail::scratch_pool scratch(detail::tile_scratch_floats(kernel, dim));
    for (std::size_t first = 0; first < queries.size();) {
        std::size_t count = std::min(block, queries.size() - first);
        known_answers known;
        if (leave_out) {
            known = known_answers(queries.subspan(first, count), leave_out, executor, rest - count * per_query);
            count = known.covered();
            if (count == 0) {
                parts.push_back({"edges to leave out", rows.rows() * sizeof(node_id)});
                throw over_budget(memory, std::move(parts));
            }
        }
        detail::top_k_block(
            score, rows, queries.subspan(first, count), first, k, known, limits, executor, kernel, scratch, results);
        first += count;
    }
    return results;
}

} // namespace detail

template <class Rows, class E, class K>
std::vector<std::vector<scored_node>> top_k(const link_scorer& score, Rows& rows, std::span<const link_query> queries,
    std::size_t k, const edge_scan& leave_out, const E& executor, std::uint64_t memory, const K& kernel,
    const answer_limits& limits) {
    static_assert(embedding_stream<Rows>,
        "top_k: Rows must be a gneiss::embedding_stream, see gneiss/storage/embedding/concepts.hpp");
    static_assert(gneiss::executor<E>, "top_k: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    static_assert(score_kernel<K>, "top_k: K must be a gneiss::score_kernel, see gneiss/eval/concepts.hpp");
    if constexpr (embedding_stream<Rows> && gneiss::executor<E> && score_kernel<K>)
        return detail::top_k_in_blocks(score, rows, queries, k, leave_out, executor, memory, kernel, limits);
}

} // namespace gneiss
