// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/model/detail/vector_math.hpp>

namespace gneiss {

/// An activation function. Its derivative is a function of the result y, so that backward keeps only results.
enum class activation : std::uint8_t {
    none,
    relu,       ///< max(x, 0)
    leaky_relu, ///< x or x / 100
    elu,        ///< x or eˣ − 1
    tanh,
    sigmoid
};

/// Returns Act(x) of a number, or of each in a block of floats (`detail::float_block`), which does not support
/// leaky_relu.
template <activation Act, class V>
[[nodiscard]] GNEISS_HD inline V activate(V x) noexcept {
    const V zero{}, one = zero + 1.0F;
    if constexpr (Act == activation::relu)
        return x > zero ? x : zero;
    else if constexpr (Act == activation::leaky_relu)
        return x > zero ? x : x * static_cast<V>(0.01);
    else if constexpr (Act == activation::elu) {
        const V below = detail::exponential(x > zero ? zero : x) - one;
        return x > zero ? x : below;
    } else if constexpr (Act == activation::tanh) {
        const V most = zero + 20.0F, e = detail::exponential((one + one) * (x > most ? most : x));
        return (e - one) / (e + one);
    } else if constexpr (Act == activation::sigmoid)
        return one / (one + detail::exponential(-x));
    else
        return x;
}

/// Returns Act'(x), where y = Act(x).
template <activation Act, class T>
[[nodiscard]] GNEISS_HD constexpr T activation_slope(T y) noexcept {
    if constexpr (Act == activation::relu)
        return y > T{0} ? T{1} : T{0};
    else if constexpr (Act == activation::leaky_relu)
        return y > T{0} ? T{1} : T(0.01);
    else if constexpr (Act == activation::elu)
        return y > T{0} ? T{1} : y + T{1};
    else if constexpr (Act == activation::tanh)
        return T{1} - y * y;
    else if constexpr (Act == activation::sigmoid)
        return y * (T{1} - y);
    else
        return T{1};
}

/// Calls f(act) with the function as a constant: one branch, outside of loops.
template <class F>
GNEISS_HD constexpr decltype(auto) with_activation(activation act, F&& f) {
    switch (act) {
    case activation::relu: return f.template operator()<activation::relu>();
    case activation::leaky_relu: return f.template operator()<activation::leaky_relu>();
    case activation::elu: return f.template operator()<activation::elu>();
    case activation::tanh: return f.template operator()<activation::tanh>();
    case activation::sigmoid: return f.template operator()<activation::sigmoid>();
    default: return f.template operator()<activation::none>();
    }
}

} // namespace gneiss
