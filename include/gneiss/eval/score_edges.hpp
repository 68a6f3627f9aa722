// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/eval/ranking.hpp>

namespace gneiss {

/// Returns the score of each edge by a model: that of its tail as an answer to its head and relation.
///
/// \param rows    embeddings of all nodes [n, dim]
/// \param memory  bytes that this may allocate, without the result
///
/// Cost: edges · dim, and a pass over the table per block of edges. The result is the same for any memory and number of
/// threads. Errors: out_of_range for an edge with an unknown row or relation; over_budget if one edge does not fit.
template <embedding_stream Rows, executor E, score_kernel K = fixed_order_kernel>
[[nodiscard]] std::vector<float> score_edges(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const E& executor, std::uint64_t memory = std::uint64_t{1} << 30, const K& kernel = {}) {
    std::vector<float> scores;
    if (edges.empty()) return scores;
    const auto dim = static_cast<std::size_t>(rows.dim());
    detail::check_edges(score, edges, rows.rows(), dim);
    const std::size_t block =
        plan_ranking({edges.size(), dim, false, executor.concurrency()}, memory, kernel).edges_per_block;
    detail::scratch_pool scratch(detail::tile_scratch_floats(kernel, dim));
    scores.reserve(edges.size());
    for (std::size_t first = 0; first < edges.size(); first += block) {
        const auto some = edges.subspan(first, std::min(block, edges.size() - first));
        const detail::made_queries made = detail::make_queries_of(score, rows, some, executor, kernel, scratch);
        for (std::size_t i = 0; i < some.size(); ++i)
            scores.push_back(similarity_of(score.compare(), made.targets[2 * i]));
    }
    return scores;
}

} // namespace gneiss
