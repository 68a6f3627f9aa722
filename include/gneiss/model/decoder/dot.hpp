// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/decoder_terms.hpp>

namespace gneiss {

/// ⟨head, tail⟩; edges have no relation parameters. Cost: one copy per query, dim additions in backward. Does not
/// throw.
/// Thread-safe.
struct dot_decoder : detail::decoder_terms<dot_decoder, 1> {
    static constexpr similarity compare = similarity::inner_product;
    static constexpr std::size_t relation_floats(std::size_t) noexcept { return 0; }

    /// The query is the known row.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> query_term(side, const term<T>& known, const term<T>&) noexcept {
        return known;
    }
    /// Returns the gradient of the known row, for the gradient g of the query.
    template <class T>
    [[nodiscard]] GNEISS_HD static constexpr term<T> known_gradient(side, const term<T>&, const term<T>& g) noexcept {
        return g;
    }
};

static_assert(decoder<dot_decoder>);

} // namespace gneiss
