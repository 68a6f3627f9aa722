// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/eval/top_k.hpp>

namespace gneiss {

/// Means over heads of recall@k and NDCG@k, for several k. All means are 0 if nothing was added.
///
/// recall@k is the share of a head's true answers among its k best ones. NDCG@k is Σ 1 / log₂(1 + position) over the
/// true answers among them, divided by the largest possible sum: that of min(k, true answers) at the first positions.
/// Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 20(4), 2002, with gains of
/// 0 and 1.
class recommendation_metrics {
public:
    /// \param cutoffs  values of k
    explicit recommendation_metrics(std::vector<std::size_t> cutoffs)
        : cutoffs_(std::move(cutoffs)),
          recall_(cutoffs_.size()),
          ndcg_(cutoffs_.size()) {}

    /// Adds a head. \param best  its best answers, best first \param truth  its true answers, ascending, at least one
    void add(std::span<const scored_node> best, std::span<const node_id> truth) {
        ++count_;
        for (std::size_t c = 0; c < cutoffs_.size(); ++c) {
            std::size_t found = 0;
            double gain = 0, ideal = 0;
            for (std::size_t i = 0; i < std::min(cutoffs_[c], best.size()); ++i) {
                if (!std::ranges::binary_search(truth, best[i].node)) continue;
                ++found;
                gain += gain_at(i);
            }
            for (std::size_t i = 0; i < std::min(cutoffs_[c], truth.size()); ++i) ideal += gain_at(i);
            recall_[c] += static_cast<double>(found) / static_cast<double>(truth.size());
            ndcg_[c] += ideal == 0 ? 0 : gain / ideal;
        }
    }

    /// Returns the values of k, as given.
    [[nodiscard]] const std::vector<std::size_t>& cutoffs() const noexcept { return cutoffs_; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; } ///< heads
    /// Returns recall at cutoff `c`, by its position.
    [[nodiscard]] double recall(std::size_t c) const noexcept { return mean(recall_[c]); }
    /// Returns NDCG at cutoff `c`, by its position.
    [[nodiscard]] double ndcg(std::size_t c) const noexcept { return mean(ndcg_[c]); }

private:
    [[nodiscard]] static double gain_at(std::size_t position) {
        return 1 / std::log2(static_cast<double>(position) + 2);
    }
    [[nodiscard]] double mean(double sum) const noexcept { return count_ == 0 ? 0 : sum / static_cast<double>(count_); }

    std::vector<std::size_t> cutoffs_;
    std::uint64_t count_ = 0;
    std::vector<double> recall_, ndcg_; // sums
};

/// Evaluates recommendations: for each head and relation of `edges`, the k best tails except those already seen,
/// against the tails of `edges`.
///
///     const auto metrics = evaluate_recommendations(model, rows, test_edges, train_edges, {10, 20}, executor);
///
/// \param edges    all true edges of the heads that are evaluated
/// \param seen     edges whose tails are no candidates and no true answers, such as those of training
/// \param cutoffs  values of k
/// \param limits   further limits of the candidates; a true answer beyond them counts as not found
/// \param memory   bytes that this may allocate
///
/// Cost: heads · n · dim multiply-adds; a scan of `seen`, and per block of heads two more and two passes over the
/// table. The result is the same for any memory, table blocks and number of threads. Errors: as `top_k`.
template <class Rows, class E, class K = fixed_order_kernel>
recommendation_metrics evaluate_recommendations(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const edge_scan& seen, std::vector<std::size_t> cutoffs, const E& executor,
    std::uint64_t memory = std::uint64_t{1} << 30, const answer_limits& limits = {}, const K& kernel = {});

namespace detail {

/// Returns the edges, ascending by head, relation and tail, without repetitions and without those of `seen`.
inline std::vector<edge> unseen_edges(std::span<const edge> edges, const edge_scan& seen, std::uint64_t nodes) {
    constexpr auto by_head = [](const edge& e) { return std::tuple(e.source, e.relation, e.destination); };
    std::vector<edge> result(edges.begin(), edges.end());
    std::ranges::sort(result, {}, by_head);
    result.erase(std::unique(result.begin(), result.end()), result.end());
    bitmap heads(static_cast<std::size_t>(nodes)), met(result.size());
    for (const edge& e : result)
        if (e.source < nodes) heads.set(e.source); // top_k refuses other heads
    if (seen)
        seen([&](std::span<const edge> some) {
            for (const edge& e : some) {
                if (e.source >= nodes)
                    throw error(errc::out_of_range,
                        "edge " + std::to_string(e.source) + " -> " + std::to_string(e.destination) +
                            " was seen in a graph of " + std::to_string(nodes) + " nodes");
                if (!heads[e.source]) continue;
                const auto at = std::ranges::lower_bound(result, by_head(e), {}, by_head);
                if (at != result.end() && *at == e) met.set(static_cast<std::size_t>(at - result.begin()));
            }
        });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
        if (!met[i]) result[kept++] = result[i];
    result.resize(kept);
    return result;
}

} // namespace detail

template <class Rows, class E, class K>
recommendation_metrics evaluate_recommendations(const link_scorer& score, Rows& rows, std::span<const edge> edges,
    const edge_scan& seen, std::vector<std::size_t> cutoffs, const E& executor, std::uint64_t memory,
    const answer_limits& limits, const K& kernel) {
    const std::size_t k = cutoffs.empty() ? 0 : std::ranges::max(cutoffs);
    recommendation_metrics metrics(std::move(cutoffs));
    const std::uint64_t held = edges.size() * sizeof(edge), marks = rows.rows() / 8 + edges.size() / 8 + 16;
    const std::uint64_t per_head = k * sizeof(scored_node) + sizeof(link_query) + sizeof(std::vector<scored_node>);
    if (memory < 2 * held + std::max(per_head, marks))
        throw over_budget(memory,
            {{"true edges", 2 * held}, {"answers of a head, or marks of edges and heads", std::max(per_head, marks)}});
    const std::vector<edge> truth = detail::unseen_edges(edges, seen, rows.rows());
    const std::uint64_t rest = memory - 2 * held;
    const auto block = static_cast<std::size_t>(std::max<std::uint64_t>(1, rest / 2 / per_head));
    std::vector<link_query> queries;
    std::vector<node_id> tails;
    for (std::size_t first = 0, end = 0; first < truth.size(); first = end) {
        queries.clear();
        for (end = first; end < truth.size(); ++end) {
            const link_query q = query_of(truth[end], side::tail);
            if (!queries.empty() && queries.back() == q) continue;
            if (queries.size() == block) break;
            queries.push_back(q);
        }
        const auto best = top_k(
            score, rows, queries, k, seen, executor, rest - std::min(rest, queries.size() * per_head), kernel, limits);
        for (std::size_t i = 0, at = first; i < queries.size(); ++i) {
            for (tails.clear(); at < end && query_of(truth[at], side::tail) == queries[i]; ++at)
                tails.push_back(truth[at].destination);
            metrics.add(best[i], tails);
        }
    }
    return metrics;
}

} // namespace gneiss
