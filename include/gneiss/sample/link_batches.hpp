// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/order/batches.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/link_batch_builder.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>

namespace gneiss {

/// Data shared by the link batches of one state: its edges, how they are cut, and the candidate negatives.
struct link_state {
    /// \param index  position of the state in its plan
    /// Throws errc::invalid_argument without edges, for batches without edges, and for a state that names a partition
    /// beyond `rows`. That edges are of these partitions is not checked; `edge_buffer` checks it.
    link_state(const buffer_state& s, const row_partitioning& rows, std::shared_ptr<const state_edges> from,
        std::uint64_t batch_edges, batch_scope cut, std::uint64_t seed, std::uint64_t epoch, std::uint32_t index)
        : edges(checked(std::move(from), s, rows)),
          batches(edges->sizes(), batch_edges, edge_shuffle_key(seed, epoch, index), cut) {
        std::vector<id_range> ranges;
        for (const partition_id p : s.resident) ranges.push_back({rows.begin(p), rows.begin(p + 1)});
        std::size_t with_nodes = 0;
        for (partition_id p = 0; p < rows.partitions; ++p) with_nodes += rows.size(p) != 0;
        resident = negative_pool(resident_nodes(ranges, with_nodes));
        for (std::size_t i = 0; i < edges->buckets(); ++i) resident.add(edges->bucket(i));
    }
    /// Returns the number of batches.
    [[nodiscard]] std::uint64_t size() const noexcept { return batches.size(); }

    std::shared_ptr<const state_edges> edges; ///< edges of the state
    state_batches batches;                    ///< batches that they are cut into
    negative_pool resident;                   ///< nodes and edges of the state

private:
    [[nodiscard]] static std::shared_ptr<const state_edges> checked(
        std::shared_ptr<const state_edges> from, const buffer_state& s, const row_partitioning& rows) {
        if (from == nullptr) throw error(errc::invalid_argument, "link batches need the edges of their state");
        for (const partition_id p : s.resident)
            if (p >= rows.partitions)
                throw error(errc::invalid_argument,
                    "a state names partition " + std::to_string(p) + " of " + std::to_string(rows.partitions));
        return from;
    }
};

/// Result of `bound_link_batch`.
struct link_batch_bound {
    std::uint64_t bytes = 0, nodes = 0; ///< bounds
};
/// Upper bounds on the bytes of a link batch of `batch_edges` edges, without rows, and on its distinct nodes. With
/// `filtered`, masks of a few columns per edge are counted: many positives of one query in a chunk have more.
[[nodiscard]] constexpr link_batch_bound bound_link_batch(
    const negative_options& n, std::uint64_t batch_edges, std::uint64_t nodes) noexcept {
    const std::uint64_t lists = n.all ? 2 * nodes : std::uint64_t{2} * with_chunks(n, batch_edges).chunks * n.per_chunk;
    const std::uint64_t occurrences = 2 * batch_edges + lists;
    return {occurrences * 44 +
            batch_edges *
                ((n.filtered ? 64U : 40U) +
                    (n.log_q_correction.value_or(false) ? 2 * sizeof(negative_correction) : 0U)),
        std::min(occurrences, nodes)};
}

/// Draws link batches of a state: edges, negatives, distinct nodes. A pure function of the batch's number. Scratch is
/// kept: use one per thread. `Negatives`: any `negative_source`.
///
///     link_sampler sampler(negatives, seed);
///     const link_batch batch = sampler.sample(key, state, arena);
template <class Negatives = negative_sampler>
class link_sampler {
public:
    /// Draws the library's negatives.
    link_sampler(const negative_options& negatives, std::uint64_t seed)
        requires std::constructible_from<Negatives, const negative_options&, std::uint64_t>
        : builder_(negatives, seed) {}
    /// Draws negatives from a source of your own.
    link_sampler(const negative_options& negatives, std::type_identity_t<Negatives> from)
        : builder_(negatives, std::move(from)) {}

    /// Draws batch `key` into `arena`; valid until the arena is used again. Errors as in `link_batch_builder::build`;
    /// errc::out_of_range for a batch beyond those of the state.
    link_batch sample(const batch_key& key, const link_state& of, mini_batch_arena& arena) {
        const std::uint64_t index = key.number.index;
        if (index >= of.size())
            throw error(
                errc::out_of_range, "batch " + std::to_string(index) + " of a state of " + std::to_string(of.size()));
        positions_.resize(of.batches.batch_edges(index));
        of.batches.fill(index, positions_);
        if (builder_.options().by_relation)
            std::ranges::stable_sort(
                positions_, {}, [&](const edge_position& at) { return of.edges->bucket(at.bucket)[at.edge].relation; });
        positives_.resize(positions_.size());
        for (std::size_t i = 0; i < positions_.size(); ++i)
            positives_[i] = of.edges->bucket(positions_[i].bucket)[positions_[i].edge];
        if (builder_.options().filtered) {
            by_tail_ = by_head_ = positives_;
            std::ranges::sort(by_head_, {}, &ordered<side::tail>);
            std::ranges::sort(by_tail_, {}, &ordered<side::head>);
        }
        const auto known = [&](side missing, node_id given, relation_id relation, auto&& visit) {
            if (missing == side::tail)
                visit_answers<side::tail>(by_head_, given, relation, visit);
            else
                visit_answers<side::head>(by_tail_, given, relation, visit);
        };
        return builder_.build(key, positives_, of.resident, arena, known);
    }
    /// Positives of the latest batch, and their positions in the state's buckets.
    [[nodiscard]] std::span<const edge> positives() const noexcept { return positives_; }
    /// Returns the place of each positive among the state's buckets.
    [[nodiscard]] std::span<const edge_position> positions() const noexcept { return positions_; }

private:
    /// Orders an edge as (known node, relation, answer) of the query for its `Missing` end.
    template <side Missing>
    static std::tuple<node_id, relation_id, node_id> ordered(const edge& e) noexcept {
        return Missing == side::tail ? std::tuple(e.source, e.relation, e.destination)
                                     : std::tuple(e.destination, e.relation, e.source);
    }
    template <side Missing, class Visit>
    static void visit_answers(std::span<const edge> sorted, node_id given, relation_id relation, Visit& visit) {
        const auto query = [](const edge& e) {
            const auto [node, kind, answer] = ordered<Missing>(e);
            return std::pair(node, kind);
        };
        for (const edge& e : std::ranges::equal_range(sorted, std::pair(given, relation), {}, query))
            visit(std::get<2>(ordered<Missing>(e)));
    }

    link_batch_builder<Negatives> builder_;
    std::vector<edge_position> positions_;
    std::vector<edge> positives_;
    std::vector<edge> by_head_, by_tail_; // sorted by query, for filtered negatives
};

/// Deduces the type of the source.
template <class Negatives>
    requires std::is_class_v<Negatives>
link_sampler(const negative_options&, Negatives) -> link_sampler<Negatives>;

} // namespace gneiss
