// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/decoder_terms.hpp>

namespace gneiss {

/// −‖head + relation − tail‖₂. Cost: dim additions per query, 2·dim in backward. Does not throw. Thread-safe.
/// Source: Bordes et al., NeurIPS 2013.
struct transe_decoder : detail::decoder_terms<transe_decoder, 1> {
    static constexpr similarity compare = similarity::negative_distance;
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    /// The query for a tail is head + relation; for a head it is tail − relation.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> query_term(
        side corrupt_side, const term<T>& known, const term<T>& relation) noexcept {
        return {{corrupt_side == side::tail ? known.part[0] + relation.part[0] : known.part[0] - relation.part[0]}};
    }
    /// Returns the gradient of the known row, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> known_gradient(side, const term<T>&, const term<T>& g) noexcept {
        return g;
    }
    /// Returns the gradient of the relation, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> relation_gradient(
        side corrupt_side, const term<T>&, const term<T>& g) noexcept {
        return {{corrupt_side == side::tail ? g.part[0] : -g.part[0]}};
    }
};

static_assert(decoder<transe_decoder>);

} // namespace gneiss
