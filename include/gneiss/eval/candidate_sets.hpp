// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// Nodes that may answer a query: all, the same set for every query, one set per end of each relation, or for similar
/// nodes the sets of the ends at which the query's node was seen.
///
/// `seen_in` keeps the nodes that training shows at each end of a relation. An end's type is thus learned from the
/// edges, and nodes of another type are no candidates. Source: Krompaß, Baier, Tresp, "Type-Constrained Representation
/// Learning in Knowledge Graphs", ISWC 2015, §3.2 (local closed-world assumption).
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
    /// Cost: one scan, two insertions per edge. Memory: per end the smaller of 4 bytes per node seen and a bit per node
    /// of the graph, and 8 bytes per relation. Throws over_budget.
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

    /// Makes the sets those of similar nodes: a query's candidates become the nodes of each set that has its known
    /// node, which is one of `known`; none if no set has it. The nodes of a bipartite graph are thus compared with
    /// their own side.
    ///
    /// \param limit  bytes that the sets may take
    /// Cost: a lookup in each set per distinct node. Memory: 12 bytes per distinct node and 4 per set that has it.
    /// Throws over_budget. Precondition: `seen_in` made the sets.
    void share(std::span<const node_id> known, std::uint64_t limit) {
        known_.assign(known.begin(), known.end());
        std::ranges::sort(known_);
        known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
        first_set_.assign(1, 0);
        for (const node_id node : known_) {
            for (std::uint32_t at = 0; at < sets_.size(); ++at)
                if (sets_[at].contains(node)) sets_with_.push_back(at);
            first_set_.push_back(sets_with_.size());
            if (bytes() > limit)
                throw over_budget(
                    limit, {{"nodes seen at the ends of relations, and the queries' ends, so far", bytes()}});
        }
        shared_ = true;
    }

    /// Prepares the sets for draws of their members, as `candidate_negatives` needs.
    void index() {
        for (node_set& set : sets_) set.index();
    }

    /// True if there are sets; false: all nodes may answer.
    [[nodiscard]] explicit operator bool() const noexcept { return !sets_.empty(); }

    /// Nodes that may answer one query: the union of some sets. It refers to the sets, which outlive it.
    class allowed_nodes {
    public:
        /// Constructs the union of the sets at those places.
        allowed_nodes(const std::vector<node_set>& sets, std::span<const std::uint32_t> places)
            : sets_(sets),
              places_(places) {}
        /// True if no node may answer.
        [[nodiscard]] bool empty() const noexcept { return places_.empty(); }
        /// True if `node` may answer. Cost: a lookup in each set.
        [[nodiscard]] bool contains(node_id node) const noexcept {
            return std::ranges::any_of(places_, [&](std::uint32_t at) { return sets_[at].contains(node); });
        }

    private:
        std::span<const node_set> sets_;
        std::span<const std::uint32_t> places_;
    };

    /// Returns the nodes that may answer `q`. O(log known nodes) after `share`, else O(1). Preconditions: there are
    /// sets; of `seen_in`, one for this end; after `share`, its known node is one of those.
    [[nodiscard]] allowed_nodes allowed(const link_query& q) const noexcept {
        static constexpr std::uint32_t only = 0;
        if (!shared_) return {sets_, {per_end_ ? &place_of(q) : &only, 1}};
        const auto at = static_cast<std::size_t>(std::ranges::lower_bound(known_, q.known) - known_.begin());
        GNEISS_ASSERT(at < known_.size() && known_[at] == q.known);
        return {sets_, std::span(sets_with_).subspan(first_set_[at], first_set_[at + 1] - first_set_[at])};
    }

    /// Returns the set of the nodes that may answer `q`. Preconditions: there are sets; of `seen_in`, one for this end;
    /// not after `share`.
    [[nodiscard]] const node_set& of(const link_query& q) const noexcept {
        GNEISS_ASSERT(!shared_);
        return per_end_ ? sets_[place_of(q)] : sets_.front();
    }

    /// Returns its memory [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t sum = set_of_.size() * sizeof(set_of_[0]) + sets_.size() * sizeof(node_set);
        sum += known_.capacity() * sizeof(node_id) + first_set_.capacity() * sizeof(std::size_t) +
            sets_with_.capacity() * sizeof(std::uint32_t);
        for (const node_set& set : sets_) sum += set.bytes();
        return sum;
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    /// Place of the set of the queried end.
    [[nodiscard]] const std::uint32_t& place_of(const link_query& q) const noexcept {
        const std::uint32_t& at = set_of_[q.relation][q.target_side == side::tail];
        GNEISS_ASSERT(at != none);
        return at;
    }

    std::vector<std::array<std::uint32_t, 2>> set_of_; // set of each relation's heads and tails
    std::vector<node_set> sets_;
    std::vector<node_id> known_;           // of similar nodes, ascending
    std::vector<std::size_t> first_set_;   // [known + 1] first of each known node's sets in sets_with_
    std::vector<std::uint32_t> sets_with_; // sets that have the node
    bool per_end_ = false, shared_ = false;
};

} // namespace gneiss
