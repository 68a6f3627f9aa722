// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// A query: the nodes that complete (known, relation, ?) or (?, relation, known).
struct link_query {
    node_id known{};               ///< known end
    relation_id relation{};        ///< relation of the query
    side target_side = side::tail; ///< end in question

    friend constexpr auto operator<=>(const link_query&, const link_query&) = default;
    friend constexpr bool operator==(const link_query&, const link_query&) = default;
};

/// Returns the query that `e` answers with its tail, or with its head.
[[nodiscard]] constexpr link_query query_of(const edge& e, side target_side) noexcept {
    return {target_side == side::tail ? e.source : e.destination, e.relation, target_side};
}
/// Returns the true answer of an edge's query.
[[nodiscard]] constexpr node_id answer_of(const edge& e, side target_side) noexcept {
    return target_side == side::tail ? e.destination : e.source;
}

/// A trained decoder of any type with the relations' rows: the model of evaluation and prediction.
///
///     rank_edges(model.scorer(relations.values()), rows, edges, known, executor); // options as in training
///
/// Copies share the relations, which must outlive them. Thread-safe. One indirect call per query, none per candidate.
class link_scorer {
public:
    /// Constructs a scorer without a model. \param relations [R, relation_floats(dim)]; unused by decoders without
    /// relations
    template <class D>
        requires(!std::same_as<D, link_scorer> && decoder<D>)
    explicit link_scorer(D decode, matrix_view<const float> relations = {})
        : link_scorer(std::move(decode), relations, false) {}
    /// Says what is missing: any other type.
    template <class D>
        requires(!std::same_as<D, link_scorer> && !decoder<D>)
    explicit link_scorer(D /*decode*/, matrix_view<const float> /*relations*/ = {}) : compare_{},
                                                                                      reciprocal_(false) {
        static_assert(decoder<D>, "link_scorer: the object must be a gneiss::decoder, see gneiss/model/concepts.hpp");
    }
    /// Returns a scorer without a model, with relations [2R, relation_floats(dim)]: relation r + R is the inverse of r,
    /// and (?, r, t) is queried as (t, r + R, ?) (Lacroix et al., ICML 2018, §4).
    template <class D>
    [[nodiscard]] static link_scorer reciprocal(D decode, matrix_view<const float> relations) {
        if constexpr (decoder<D>)
            return {std::move(decode), relations, true};
        else
            return link_scorer(std::move(decode)); // says what is missing
    }

    [[nodiscard]] similarity compare() const noexcept { return compare_; }

    /// Returns true if (node, relation) are ids with rows.
    [[nodiscard]] bool knows(std::uint64_t node, std::uint64_t relation, std::uint64_t rows, std::size_t dim) const {
        return node < rows && (relation_floats_(dim) == 0 || relation < relations_.rows() / (reciprocal_ ? 2 : 1));
    }

    /// Writes the query vector [dim] for q, whose known node has the row `known` [dim].
    void query(const link_query& q, std::span<const float> known, std::span<float> out) const {
        const bool turned = reciprocal_ && q.target_side == side::head;
        const std::span<const float> relation = relation_floats_(out.size()) == 0
            ? std::span<const float>{}
            : relations_[q.relation + (turned ? relations_.rows() / 2 : 0)];
        query_(turned ? side::tail : q.target_side, known, relation, out);
    }

private:
    template <decoder D>
    link_scorer(D decode, matrix_view<const float> relations, bool reversed)
        : compare_(D::compare),
          relations_(relations),
          reciprocal_(reversed),
          relation_floats_([decode](std::size_t dim) { return decode.relation_floats(dim); }),
          query_([decode](side target_side, std::span<const float> known, std::span<const float> relation,
                     std::span<float> out) { decode.query(target_side, known, relation, out); }) {}

    similarity compare_;
    matrix_view<const float> relations_;
    bool reciprocal_;
    std::function<std::size_t(std::size_t)> relation_floats_;
    std::function<void(side, std::span<const float>, std::span<const float>, std::span<float>)> query_;
};

} // namespace gneiss
