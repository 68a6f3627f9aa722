// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Comparison of a query vector with a candidate node's row.
enum class similarity : std::uint8_t {
    inner_product,    ///< ⟨q, x⟩
    negative_distance ///< −‖q − x‖₂
};

/// A read-only vector in a function template over the scalar: T is deduced from the results, so that spans of T and of
/// const T both work.
template <class T>
using vector_in = std::span<const std::type_identity_t<T>>;

/// Scores an edge as the similarity of a *query*, made from one end and the relation, and the row of the other end:
///
///     score(head, relation, tail) = similarity(query(side::tail, head, relation), tail)
///                                 = similarity(query(side::head, tail, relation), head)
///
/// so that one query is compared with many candidates in a matrix product.
///
/// Meaning: `query(corrupt_side, known, relation, q)` writes q [dim]; `query_backward(corrupt_side, known, relation,
/// grad_q, grad_known, grad_relation)` *adds* to both gradients. Pure functions; those of the library are templates
/// over the scalar, so that tests check their gradients in double. `relation_floats(dim)` is the length of a relation's
/// row, 0 without one.
/// Optional: `accepts(dim)`, static or a member, returns true if rows of `dim` floats are valid (default: all but 0).
/// `static constexpr bool complex_rows = true` means that a row is [real parts | imaginary parts]; then `dim` must be
/// even, and N3 uses moduli.
/// Cost: O(dim), no allocation. Thread-safe.
///
/// From examples/03_own_decoder.cpp:
/// \snippet 03_own_decoder.cpp decoder
template <class D>
concept decoder =
    requires(const D& d, side corrupt_side, std::span<const float> in, std::span<float> out, std::size_t dim) {
        { D::compare } -> std::convertible_to<similarity>;
        { D::relation_floats(dim) } -> std::same_as<std::size_t>;
        d.query(corrupt_side, in, in, out);
        d.query_backward(corrupt_side, in, in, in, out, out);
    };

/// True if the rows of a decoder are complex numbers.
template <class D>
inline constexpr bool has_complex_rows = [] {
    if constexpr (requires { D::complex_rows; })
        return bool{D::complex_rows};
    else
        return false;
}();

/// Throws `invalid_argument` for rows of `dim` floats that the decoder does not accept.
template <decoder D>
void check_dimension(const D& decode, std::size_t dim) {
    bool fits = dim != 0 && (!has_complex_rows<D> || dim % 2 == 0);
    if constexpr (requires {
                      { decode.accepts(dim) } -> std::convertible_to<bool>;
                  })
        fits = fits && decode.accepts(dim);
    if (!fits)
        throw error(errc::invalid_argument,
            "the decoder does not accept rows of " + std::to_string(dim) + " floats" +
                (has_complex_rows<D> && dim % 2 != 0 ? ": as complex numbers they are even" : ""));
}

/// Loss of one query, and its derivative by the positive's score.
template <class T = float>
struct loss_and_gradient {
    double loss = 0;     ///< loss of the query
    T grad_positive = 0; ///< derivative by the positive's score
};

/// Loss of one positive score against its negative scores, and its gradients.
///
/// Meaning: `l(positive, negatives, grad_negatives)` returns {loss, ∂loss/∂positive} and writes ∂loss/∂negatives [n]. A
/// negative of −∞ is masked: it is ignored and its gradient is 0. `grad_negatives` may alias all of `negatives`. A NaN
/// among the scores gives a NaN loss.
/// Cost: O(n), no allocation. Thread-safe.
///
/// From examples/04_own_loss_and_optimizer.cpp:
/// \snippet 04_own_loss_and_optimizer.cpp loss
template <class L>
concept ranking_loss =
    requires(const L& l, float positive, std::span<const float> negatives, std::span<float> gradient) {
        { l(positive, negatives, gradient) } -> std::same_as<loss_and_gradient<float>>;
    };

/// The matrix products of link prediction: the interface of a backend.
///
/// Meaning: matrices are row-major with strides; `out` overlaps no operand.
///     b.multiply_nt(a [m, k], x [n, k], out [m, n])   out  = a xᵀ
///     b.multiply_nn(a [m, n], x [n, k], out [m, k])   out  = a x
///     b.add_tn     (a [m, n], x [m, k], out [n, k])   out += aᵀ x
/// The same operands give the same bits. Any dimension may be 0.
/// Cost: 2mnk floating point operations on the calling thread. Thread-safe.
template <class B>
concept gemm_backend = requires(const B& b, matrix_view<const float> in, matrix_view<float> out) {
    b.multiply_nt(in, in, out);
    b.multiply_nn(in, in, out);
    b.add_tn(in, in, out);
};

/// Steps one row by its gradient.
///
/// Meaning: `state_floats(dim)` is the number of state floats of a row; `initial_state()` is their first value;
/// `step(value, state, gradient, t)` updates value [dim] and state in place, with t ≥ 1 the number of the batch. The
/// same inputs give the same bits. Cost: O(dim), no allocation. Thread-safe.
///
/// From examples/04_own_loss_and_optimizer.cpp:
/// \snippet 04_own_loss_and_optimizer.cpp optimizer
template <class O>
concept row_optimizer =
    requires(const O& o, std::size_t dim, std::span<float> value, std::span<const float> gradient, std::uint64_t t) {
        { O::state_floats(dim) } -> std::same_as<std::size_t>;
        { o.initial_state() } -> std::convertible_to<float>;
        o.step(value, value, gradient, t);
    };

} // namespace gneiss
