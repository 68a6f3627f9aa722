// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/eval/concepts.hpp>

namespace gneiss {

/// Known true answers of a block of queries, found in a set of edges that need not fit in memory.
///
/// Filtered ranking removes known true answers from the candidates (Bordes et al., NIPS 2013). Keeps only the answers
/// to the given queries, as one ascending list per distinct query. Memory: 4 bytes per answer, including repeated edges
/// while collecting, at most `limit` bytes in total, and `bytes_per_query` per query. Queries are covered from the
/// first on, as far as `limit` permits: see `covered()`.
/// Cost: two scans of the edges (count, then keep), O(1) for an edge that answers no query, else O(log queries).
class known_answers {
public:
    static constexpr std::uint64_t bytes_per_query = sizeof(link_query) + 4 + 8 + 8 + 8; ///< memory of a query [bytes]

    known_answers() = default;

    /// \param known  scan of all true edges: train, valid and test. Called twice.
    template <executor E>
    known_answers(std::span<const link_query> queries, const edge_scan& known, const E& executor, std::uint64_t limit)
        : keys_(queries.begin(), queries.end()),
          key_of_(queries.size()) {
        parallel_sort(executor, keys_);
        keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
        parallel_for(executor, queries.size(), grain, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) key_of_[i] = static_cast<std::uint32_t>(find(queries[i]));
        });
        maybe_ = bitmap(std::bit_ceil(std::max<std::size_t>(64, 16 * keys_.size())));
        for (const link_query& key : keys_) maybe_.set(place(key));

        std::vector<std::uint64_t> counts(keys_.size());
        scan_matches(known, executor, [&](std::size_t key, node_id) { ++counts[key]; });
        cover(counts, limit / sizeof(node_id));

        starts_.assign(keys_.size() + 1, 0);
        for (std::size_t key = 0; key < keys_.size(); ++key) starts_[key + 1] = starts_[key] + counts[key];
        answers_.resize(starts_.back());
        scan_matches(known, executor, [&](std::size_t key, node_id answer) {
            if (counts[key] != 0) answers_[starts_[key + 1] - counts[key]--] = answer;
        });
        sort_and_compact(executor);
        maybe_ = {};
    }

    /// Number of leading queries with all their answers here.
    [[nodiscard]] std::size_t covered() const noexcept { return covered_; }

    /// Answers to query `i`, ascending, without repetition. Precondition: i < covered().
    [[nodiscard]] std::span<const node_id> of(std::size_t i) const noexcept {
        GNEISS_ASSERT(i < covered_);
        const std::size_t key = key_of_[i];
        return std::span(answers_).subspan(starts_[key], starts_[key + 1] - starts_[key]);
    }

private:
    static constexpr std::size_t grain = 2048; // 64 pieces of matches take 2 MiB

    [[nodiscard]] std::size_t find(const link_query& q) const {
        return static_cast<std::size_t>(std::lower_bound(keys_.begin(), keys_.end(), q) - keys_.begin());
    }
    // Bit in the filter that rejects most edges: one bit in sixteen is set.
    [[nodiscard]] std::size_t place(const link_query& q) const noexcept {
        const std::uint64_t word = (std::uint64_t{q.known} << 32) | q.relation;
        return static_cast<std::size_t>(mix64(q.target_side == side::tail ? word : ~mix64(word))) & (maybe_.size() - 1);
    }

    // Calls use(key, answer) for every match, sequentially, in edge order.
    template <executor E, class Use>
    void scan_matches(const edge_scan& known, const E& executor, Use use) const {
        constexpr std::size_t pieces = 64; // pieces of a chunk processed at a time, to bound memory for any chunk size
        std::vector<std::vector<std::pair<std::uint32_t, node_id>>> found(pieces);
        const auto search = [&](std::span<const edge> edges) {
            parallel_for(executor, edges.size(), grain, [&](std::size_t begin, std::size_t end) {
                for (const edge& e : edges.subspan(begin, end - begin))
                    for (const side target_side : {side::tail, side::head}) {
                        const link_query q = query_of(e, target_side);
                        if (!maybe_[place(q)]) continue;
                        const std::size_t key = find(q);
                        if (key < keys_.size() && keys_[key] == q)
                            found[begin / grain].emplace_back(key, answer_of(e, target_side));
                    }
            });
            for (auto& piece : found) {
                for (const auto& [key, answer] : piece) use(key, answer);
                piece.clear();
            }
        };
        known([&](std::span<const edge> edges) {
            for (; edges.size() > pieces * grain; edges = edges.subspan(pieces * grain))
                search(edges.first(pieces * grain));
            search(edges);
        });
    }

    // Sets covered_, and clears the counts of keys used only by later queries.
    void cover(std::vector<std::uint64_t>& counts, std::uint64_t limit) {
        std::vector<bool> kept(keys_.size());
        std::uint64_t total = 0;
        for (covered_ = 0; covered_ < key_of_.size(); ++covered_) {
            const std::size_t key = key_of_[covered_];
            if (kept[key]) continue;
            if (counts[key] > limit - total) break;
            total += counts[key];
            kept[key] = true;
        }
        for (std::size_t key = 0; key < counts.size(); ++key)
            if (!kept[key]) counts[key] = 0;
    }

    template <executor E>
    void sort_and_compact(const E& executor) {
        parallel_for(executor, keys_.size(), 256, [&](std::size_t begin, std::size_t end) {
            for (std::size_t key = begin; key < end; ++key)
                std::sort(answers_.data() + starts_[key], answers_.data() + starts_[key + 1]);
        });
        std::uint64_t to = 0;
        for (std::size_t key = 0; key < keys_.size(); ++key) {
            const std::uint64_t begin = std::exchange(starts_[key], to), end = starts_[key + 1];
            for (std::uint64_t i = begin; i < end; ++i)
                if (i == begin || answers_[i] != answers_[to - 1]) answers_[to++] = answers_[i];
        }
        if (!starts_.empty()) starts_.back() = to;
    }

    std::vector<link_query> keys_;      // distinct, ascending
    std::vector<std::uint32_t> key_of_; // per query
    std::vector<std::uint64_t> starts_; // [keys + 1]
    std::vector<node_id> answers_;
    bitmap maybe_;
    std::size_t covered_ = 0;
};

} // namespace gneiss
