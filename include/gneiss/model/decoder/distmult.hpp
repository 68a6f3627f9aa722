// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/decoder_terms.hpp>

namespace gneiss {

/// Σᵢ headᵢ relationᵢ tailᵢ. Symmetric in its ends. Cost: dim multiplications per query, 2·dim in backward. Does not
/// throw.
/// Thread-safe. Source: Yang et al., ICLR 2015.
struct distmult_decoder : detail::decoder_terms<distmult_decoder, 1> {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    /// The query is the product of known row and relation.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> query_term(
        side, const term<T>& known, const term<T>& relation) noexcept {
        return {{known.part[0] * relation.part[0]}};
    }
    /// Returns the gradient of the known row, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> known_gradient(
        side, const term<T>& relation, const term<T>& g) noexcept {
        return {{g.part[0] * relation.part[0]}};
    }
    /// Returns the gradient of the relation, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> relation_gradient(
        side, const term<T>& known, const term<T>& g) noexcept {
        return {{g.part[0] * known.part[0]}};
    }
};

static_assert(decoder<distmult_decoder>);

} // namespace gneiss
