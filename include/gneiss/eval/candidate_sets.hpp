// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/node_set.hpp>
#include <gneiss/eval/concepts.hpp>

namespace gneiss {

/// Nodes that may answer a query: all, the same set for every query, or one set per end of each relation.
///
/// `seen_in` keeps the nodes that training shows at each end of a relation. An end's type is thus learned from the edges, and
/// nodes of another type are no candidates. Source: Krompaß, Baier, Tresp, "Type-Constrained Representation Learning in
/// Knowledge Graphs", ISWC 2015, §3.2 (local closed-world assumption).
class candidate_sets {
public:
    /// Constructs the set of all nodes.
    candidate_sets() = default;
    /// Constructs the same set for every query.
    explicit candidate_sets(node_set nodes) { sets_.push_back(std::move(nodes)); }

    /// Returns the nodes seen at the ends of relations, for those ends that `queries` ask for.
    ///
    /// \param training  scan of the training edges, called once
    /// \param nodes     of the graph
    /// \param limit     bytes that the sets may take
    /// Cost: one scan, two insertions per edge. Memory: per end the smaller of 4 bytes per node seen and a bit per node of the
    /// graph, and 8 bytes per relation. Throws over_budget.
    [[nodiscard]] static candidate_sets seen_in(
        const edge_scan& training, std::uint64_t nodes, std::span<const link_query> queries, std::uint64_t limit) {
        candidate_sets result;
        for (const link_query& q : queries) {
            if (q.relation >= result.set_of_.size()) result.set_of_.resize(std::size_t{q.relation} + 1, {none, none});
            std::uint32_t& set = result.set_of_[q.relation][q.target_side == side::tail];
            if (set != none) continue;
            set = static_cast<std::uint32_t>(result.sets_.size());
            result.sets_.emplace_back(nodes);
        }
        std::uint64_t taken = result.bytes();
        const auto check = [&] {
            if (taken > limit) throw over_budget(limit, {{"nodes seen at the ends of relations, so far", taken}});
        };
        training([&](std::span<const edge> edges) {
            for (const edge& e : edges) {
                if (e.relation >= result.set_of_.size()) continue;
                for (const side end : {side::head, side::tail}) {
                    const std::uint32_t at = result.set_of_[e.relation][end == side::tail];
                    if (at == none) continue;
                    node_set& set = result.sets_[at];
                    const std::uint64_t before = set.bytes();
                    set.insert(answer_of(e, end));
                    taken += set.bytes() - before;
                }
            }
            check();
        });
        for (node_set& set : result.sets_) set.finish();
        result.per_end_ = true;
        return result;
    }

    /// Prepares the sets for draws of their members, as `candidate_negatives` needs.
    void index() {
        for (node_set& set : sets_) set.index();
    }

    /// True if there are sets; false: all nodes may answer.
    [[nodiscard]] explicit operator bool() const noexcept { return !sets_.empty(); }

    /// Returns the nodes that may answer `q`. Precondition: there are sets; of `seen_in`, one for this end.
    [[nodiscard]] const node_set& of(const link_query& q) const noexcept {
        if (!per_end_) return sets_.front();
        const std::uint32_t at = set_of_[q.relation][q.target_side == side::tail];
        GNEISS_ASSERT(at != none);
        return sets_[at];
    }

    /// Returns its memory [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t sum = set_of_.size() * sizeof(set_of_[0]) + sets_.size() * sizeof(node_set);
        for (const node_set& set : sets_) sum += set.bytes();
        return sum;
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    std::vector<std::array<std::uint32_t, 2>> set_of_; // set of each relation's heads and tails
    std::vector<node_set> sets_;
    bool per_end_ = false;
};

} // namespace gneiss
