// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/decoder_terms.hpp>

namespace gneiss {

/// Re Σᵢ headᵢ relationᵢ conj(tailᵢ) over dim/2 complex numbers; a row is [real parts | imaginary parts].
/// Precondition: dim is even. Cost: 2·dim multiplications per query, 4·dim in backward. Does not throw. Thread-safe.
/// Source: Trouillon et al., ICML 2016.
struct complex_decoder : detail::decoder_terms<complex_decoder, 2> {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr bool complex_rows = true; ///< rows are complex numbers
    /// True for even dimensions.
    static constexpr bool accepts(std::size_t dim) noexcept { return dim % 2 == 0; }
    static constexpr std::size_t relation_floats(std::size_t dim) noexcept { return dim; }

    /// The query for a tail is head·relation; for a head it is tail·conj(relation).
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> query_term(
        side corrupt_side, const term<T>& known, const term<T>& relation) noexcept {
        return product(known, corrupt_side == side::tail ? relation : conjugate(relation));
    }
    /// Returns the gradient of the known row, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> known_gradient(
        side corrupt_side, const term<T>& relation, const term<T>& g) noexcept {
        return product(g, corrupt_side == side::tail ? conjugate(relation) : relation);
    }
    /// Returns the gradient of the relation, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> relation_gradient(
        side corrupt_side, const term<T>& known, const term<T>& g) noexcept {
        const term<T> of = product(g, conjugate(known));
        return corrupt_side == side::tail ? of : conjugate(of);
    }

private:
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> product(const term<T>& a, const term<T>& b) noexcept {
        return {{a.part[0] * b.part[0] - a.part[1] * b.part[1], a.part[0] * b.part[1] + a.part[1] * b.part[0]}};
    }
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> conjugate(const term<T>& a) noexcept {
        return {{a.part[0], -a.part[1]}};
    }
};

static_assert(decoder<complex_decoder>);

} // namespace gneiss
