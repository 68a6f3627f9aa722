// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/node_set.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/link_scorer.hpp>
#include <gneiss/sample/negative.hpp>

namespace gneiss {

/// Nodes that may answer queries: `of(q)` is the set of those that may be the end of `q.relation` in question, the same
/// for any known node. `candidate_sets` is a model.
template <class S>
concept end_sets = requires(const S& sets, const link_query& q) {
    { sets.of(q) } -> std::same_as<const node_set&>;
};

/// Draws negatives that may be answers: nodes of the set that belongs to the corrupted end of a relation.
///
///     candidate_sets sets = candidate_sets::seen_in(training, nodes, ends, limit); // or any `end_sets`
///     sets.index();
///     const candidate_negatives negatives(options, seed, std::make_shared<const candidate_sets>(std::move(sets)));
///
/// A chunk's positives share a list. For each entry a positive of the chunk is drawn, and a resident node of the set of
/// its relation's end, both uniformly; a set without resident nodes stands for all resident nodes. The first ⌊fraction
/// · n + ½⌋ entries are corrupted ends of uniformly drawn resident training edges instead: proportional to their degree
/// at that end. `negative_options::by_relation` keeps the relations of a chunk few. A list is a pure function of (seed,
/// epoch, state, pass, batch, chunk, side), the positives and the resident nodes. Draws are with replacement.
/// Thread-safe.
///
/// Cost: O(log nodes) per entry; per list O(relations of the chunk · resident ranges · log nodes). Memory: that of the
/// sets.
/// Source: Krompaß, Baier, Tresp, "Type-Constrained Representation Learning in Knowledge Graphs", ISWC 2015, §3.
template <class Sets>
class candidate_negatives {
    static_assert(end_sets<Sets>,
        "candidate_negatives: Sets must be a gneiss::end_sets, see gneiss/sample/candidate_negatives.hpp");

public:
    /// \param sets  indexed sets, one for each end of each training edge's relation
    /// Throws errc::invalid_argument for invalid options, for `negative_options::all`, and without sets. That the sets
    /// are indexed and of the nodes of the graph is not checked: others are read out of bounds.
    candidate_negatives(const negative_options& options, std::uint64_t seed, std::shared_ptr<const Sets> sets)
        : options_(options),
          key_(seed, random_domain::negative),
          sets_(std::move(sets)) {
        validate(options);
        if (sets_ == nullptr) throw error(errc::invalid_argument, "negatives from candidates need their sets");
        if (options.all)
            throw error(errc::invalid_argument, "negatives from candidates are drawn: set their number, not all");
    }

    /// Number of nodes in a list.
    [[nodiscard]] std::uint64_t list_size(const resident_nodes&) const noexcept { return options_.per_chunk; }

    /// Fills one list. Throws errc::invalid_argument if no node is resident, or without positives.
    void draw(const batch_key& batch, std::uint64_t chunk, side corrupt_side, std::span<const edge> positives,
        const negative_pool& resident, std::span<node_id> list) const {
        if (resident.size() == 0) throw error(errc::invalid_argument, "negatives need a resident node");
        if (positives.empty())
            throw error(errc::invalid_argument, "negatives from candidates need the positives of their chunk");
        const random_key key = key_.with(batch.epoch)
                                   .with(batch.number.state)
                                   .with(batch.number.pass)
                                   .with(batch.number.index)
                                   .with(chunk)
                                   .with(static_cast<std::uint64_t>(corrupt_side));
        const auto by_degree = resident.edges() == 0
            ? std::size_t{0}
            : static_cast<std::size_t>(std::floor(options_.degree_fraction * static_cast<double>(list.size()) + 0.5));
        for (std::size_t j = 0; j < by_degree; ++j) {
            const edge drawn = resident.edge_at(below(key[2 * j], resident.edges()));
            list[j] = corrupt_side == side::tail ? drawn.destination : drawn.source;
        }
        std::vector<relation_id> relations(positives.size());
        std::ranges::transform(positives, relations.begin(), &edge::relation);
        std::ranges::sort(relations);
        relations.erase(std::unique(relations.begin(), relations.end()), relations.end());
        std::vector<resident_members> members;
        members.reserve(relations.size());
        for (const relation_id r : relations)
            members.emplace_back(sets_->of({.relation = r, .target_side = corrupt_side}), resident.ranges());
        for (std::size_t j = by_degree; j < list.size(); ++j) {
            const relation_id r = positives[static_cast<std::size_t>(below(key[2 * j], positives.size()))].relation;
            const resident_members& from =
                members[static_cast<std::size_t>(std::ranges::lower_bound(relations, r) - relations.begin())];
            const std::uint64_t word = key[2 * j + 1];
            list[j] = from.size() == 0 ? resident[below(word, resident.size())] : from[below(word, from.size())];
        }
    }

private:
    /// Members of a set in some ranges, counted from 0 in order.
    class resident_members {
    public:
        resident_members(const node_set& set, std::span<const id_range> ranges) : set_(&set) {
            for (const id_range& range : ranges) {
                const std::uint64_t begin = set.rank(range.begin);
                slices_.push_back({size_, begin});
                size_ += set.rank(range.end) - begin;
            }
        }
        [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
        /// Returns member k. Precondition: k < size().
        [[nodiscard]] node_id operator[](std::uint64_t k) const noexcept {
            const slice& in = *(std::ranges::upper_bound(slices_, k, {}, &slice::first) - 1);
            return set_->select(in.rank + (k - in.first));
        }

    private:
        struct slice {
            std::uint64_t first, rank; // its first member, counted in the ranges and in the set
        };
        const node_set* set_;
        std::vector<slice> slices_;
        std::uint64_t size_ = 0;
    };

    negative_options options_;
    random_key key_;
    std::shared_ptr<const Sets> sets_;
};

} // namespace gneiss
