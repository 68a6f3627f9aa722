#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// How a query vector is compared with a candidate node's row.
enum class similarity : std::uint8_t {
    inner_product,    ///< ⟨q, x⟩
    negative_distance ///< −‖q − x‖₂
};

/// Scores an edge as the similarity of a *query*, made from one end and the relation, and the row of the other end:
///
///     score(head, relation, tail) = similarity(query(side::tail, head, relation), tail)
///                                 = similarity(query(side::head, tail, relation), head)
///
/// so that one query meets many candidates in a matrix product.
///
/// Meaning: `query(missing, known, relation, q)` writes q [dim]; `query_backward(missing, known, relation, grad_q,
/// grad_known, grad_relation)` *adds* to both gradients. Pure functions, for float and double alike.
/// Cost: O(dim), no allocation. `relation_floats(dim)` is the length of a relation's row, 0 if there is none.
template <class D>
concept decoder = requires(const D& d, side missing, std::span<const float> in, std::span<float> out, std::size_t dim) {
    { D::compare } -> std::convertible_to<similarity>;
    { D::relation_floats(dim) } -> std::same_as<std::size_t>;
    d.query(missing, in, in, out);
    d.query_backward(missing, in, in, in, out, out);
};

/// Loss of one positive score against its negative scores, and its gradients.
///
/// Meaning: `l(positive, negatives, grad_negatives)` returns {loss, ∂loss/∂positive} and writes ∂loss/∂negatives
/// [n]; a negative of −∞ is masked: it takes no part and its gradient is 0. `grad_negatives` may alias `negatives`.
/// Cost: O(n), no allocation.
struct loss_and_gradient {
    double loss = 0;
    float grad_positive = 0;
};

template <class L>
concept ranking_loss = requires(const L& l, float positive, std::span<const float> negatives, std::span<float> gradient) {
    { l(positive, negatives, gradient) } -> std::same_as<loss_and_gradient>;
};

/// Steps one row by its gradient.
///
/// Meaning: `state_floats(dim)` is how many floats of state a row carries; `initial_state()` is their first value;
/// `step(value, state, gradient, t)` updates value [dim] and state in place, t ≥ 1 being the number of the batch.
/// The same inputs give the same bits. Cost: O(dim), no allocation.
template <class O>
concept row_optimizer = requires(
    const O& o, std::size_t dim, std::span<float> value, std::span<const float> gradient, std::uint64_t t) {
    { O::state_floats(dim) } -> std::same_as<std::size_t>;
    { o.initial_state() } -> std::convertible_to<float>;
    o.step(value, value, gradient, t);
};

} // namespace gneiss
