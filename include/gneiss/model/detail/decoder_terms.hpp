// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <gneiss/core/types.hpp>
#include <gneiss/model/concepts.hpp>

namespace gneiss::detail {

/// One number of a row: real, or [real part, imaginary part].
template <class T, std::size_t Parts>
struct row_term {
    T part[Parts];

    /// Returns number i of `count`; zero if `row` is null.
    [[nodiscard]] GNEISS_HD static constexpr row_term of(const T* row, std::size_t count, std::size_t i) noexcept {
        row_term term{};
        if (row != nullptr)
            for (std::size_t p = 0; p < Parts; ++p) term.part[p] = row[p * count + i];
        return term;
    }
    GNEISS_HD constexpr void write(T* row, std::size_t count, std::size_t i) const noexcept {
        for (std::size_t p = 0; p < Parts; ++p) row[p * count + i] = part[p];
    }
    GNEISS_HD constexpr void add_to(T* row, std::size_t count, std::size_t i) const noexcept {
        for (std::size_t p = 0; p < Parts; ++p) row[p * count + i] += part[p];
    }
};

/// `query` and `query_backward` of a decoder D that works number by number, with `Parts` floats each:
///
///     D::query_term(corrupt_side, known, relation)       the query's number
///     D::known_gradient(corrupt_side, relation, g)       and
///     D::relation_gradient(corrupt_side, known, g)       from the gradient g of the query's number
template <class D, std::size_t Parts>
struct decoder_terms { // NOLINT(bugprone-crtp-constructor-accessibility): aggregates initialize their bases
    static constexpr std::size_t parts = Parts;
    template <class T>
    using term = row_term<T, Parts>;

    template <class T>
    void query(side corrupt_side, vector_in<T> known, vector_in<T> relation, std::span<T> q) const noexcept {
        const std::size_t count = q.size() / Parts;
        const T *const k = known.data(), *const r = has_relation() ? relation.data() : nullptr;
        T* const out = q.data();
        for (std::size_t i = 0; i < count; ++i)
            D::query_term(corrupt_side, term<T>::of(k, count, i), term<T>::of(r, count, i)).write(out, count, i);
    }

    template <class T>
    void query_backward(side corrupt_side, vector_in<T> known, vector_in<T> relation, vector_in<T> grad_q,
        std::span<T> grad_known, std::span<T> grad_relation) const noexcept {
        const std::size_t count = grad_q.size() / Parts;
        const T *const k = known.data(), *const r = has_relation() ? relation.data() : nullptr,
                       *const g = grad_q.data();
        T *const to_known = grad_known.data(), *const to_relation = grad_relation.data();
        for (std::size_t i = 0; i < count; ++i) {
            const term<T> of = term<T>::of(g, count, i);
            D::known_gradient(corrupt_side, term<T>::of(r, count, i), of).add_to(to_known, count, i);
            if constexpr (has_relation())
                D::relation_gradient(corrupt_side, term<T>::of(k, count, i), of).add_to(to_relation, count, i);
        }
    }

    [[nodiscard]] static constexpr bool has_relation() noexcept { return D::relation_floats(Parts) != 0; }
};

} // namespace gneiss::detail
