// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <gneiss/core/types.hpp>

// Row loops that compilers vectorize without -ffast-math: elementary functions without branches, calls and errno, and
// reductions over a fixed number of lanes (so a sum is the same for any vector width, up to fma contraction).
namespace gneiss::detail {

inline constexpr std::size_t lanes = 32;

/// A register of floats; loops of exponentials use it. Otherwise GCC 12 at -O2 turns the two bounds of `exponential`
/// into branches where the loop is inlined into a loss, which then takes 3.9 ns per value instead of 0.5.
// nvcc also reads host functions for the device, without compiling them, and does not know such types
#if defined(__CUDA_ARCH__)
inline constexpr std::size_t register_bytes = sizeof(float);
using float_block = float;
using word_block = std::uint32_t;
#else
#if defined(__AVX512F__)
inline constexpr std::size_t register_bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t register_bytes = 32;
#else
inline constexpr std::size_t register_bytes = 16;
#endif
using float_block = float __attribute__((vector_size(register_bytes)));
using word_block = std::uint32_t __attribute__((vector_size(register_bytes)));
#endif
inline constexpr std::size_t block_lanes = register_bytes / sizeof(float);

/// A register of T.
template <class T>
struct register_of;
template <>
struct register_of<float> {
    using type = float_block;
};
template <>
struct register_of<double> {
#if defined(__CUDA_ARCH__)
    using type = double;
#else
    using type = double __attribute__((vector_size(register_bytes)));
#endif
};
template <class T>
inline constexpr std::size_t lanes_of = sizeof(typename register_of<T>::type) / sizeof(T);

/// The unsigned words that hold the bits of V.
template <class V>
using bits_of = std::conditional_t<std::is_same_v<V, float>, std::uint32_t, word_block>;

/// Returns eˣ, of a float or of each in a block. Relative error below 2⁻²² over [−86.5, 88.7]; 0 below, infinity above;
/// NaN stays NaN. Cody–Waite reduction by ln 2 and a polynomial of degree 6.
template <class V>
    requires(std::is_same_v<V, float> || std::is_same_v<V, float_block>)
[[nodiscard]] GNEISS_HD inline V exponential(V x) noexcept {
    constexpr float shift = 0x1.8p23F; // adding it rounds to an integer in the low bits
    const V zero{}, most = zero + 88.72283F, infinite = zero + __builtin_inff();
    const V bounded = x > most ? most : x;
    const V shifted = bounded * 1.44269504F + shift;
    const V n = shifted - shift;
    const V r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    V p = zero + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * (r * r) + r + 1.0F;
    // 2ⁿ in two factors: n = 128 has no exponent of its own
    constexpr std::uint32_t shift_bits = __builtin_bit_cast(std::uint32_t, shift) + 1U;
    const auto half = (__builtin_bit_cast(bits_of<V>, shifted) - shift_bits) << 23;
    const V y = (p * __builtin_bit_cast(V, half + 0x3f800000U)) * 2.0F;
    const V low = x < zero - 86.5F ? zero : y;
    return x > most ? infinite : low;
}
[[nodiscard]] inline double exponential(double x) noexcept { return std::exp(x); }

/// Returns √x for 0 and normal x, within 2 units in the last place, without the errno of `std::sqrt` that stops
/// vectorizers; too small for subnormal x, not a number for infinity.
[[nodiscard]] GNEISS_HD inline float square_root(float x) noexcept {
    float y = __builtin_bit_cast(float, 0x5f375a86U - (__builtin_bit_cast(std::uint32_t, x) >> 1));
    const float half = 0.5F * x;
    y = y * (1.5F - half * y * y);
    y = y * (1.5F - half * y * y);
    y = y * (1.5F - half * y * y);
    const float root = x * y;
    return root + 0.5F * y * (x - root * root);
}
[[nodiscard]] inline double square_root(double x) noexcept { return std::sqrt(x); }

/// Returns the sum of all lanes, added pairwise.
template <std::floating_point T>
[[nodiscard]] inline T sum_of_lanes(T (&lane)[lanes]) noexcept {
    for (std::size_t width = lanes / 2; width != 0; width /= 2)
        for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    return lane[0];
}

/// Returns Σ term(i) for i in [0, n): lane j sums the terms of i ≡ j, lanes are added pairwise. Term must be pure.
template <std::floating_point T, class Term>
[[nodiscard]] inline T lane_sum(std::size_t n, Term&& term) noexcept {
    T lane[lanes] = {};
    const std::size_t whole = n / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j) lane[j] += term(i + j);
    for (std::size_t i = whole; i < n; ++i) lane[i - whole] += term(i);
    return sum_of_lanes(lane);
}

/// Replaces every x[i] by f(x[i]) and returns the sum of the results, in the lanes of `lane_sum`. f is called for
/// blocks of floats and for single values.
template <std::floating_point T, class F>
inline T replace_and_sum(T* x, std::size_t n, F&& f) noexcept {
    if constexpr (std::is_same_v<T, float>) {
        constexpr std::size_t blocks = lanes / block_lanes;
        float_block sums[blocks] = {};
        const std::size_t whole = n / lanes * lanes;
        for (std::size_t i = 0; i < whole; i += lanes)
            for (std::size_t b = 0; b < blocks; ++b) {
                float_block value;
                std::memcpy(&value, x + i + b * block_lanes, sizeof value);
                value = f(value);
                std::memcpy(x + i + b * block_lanes, &value, sizeof value);
                sums[b] += value;
            }
        float lane[lanes];
        std::memcpy(lane, sums, sizeof lane);
        for (std::size_t i = whole; i < n; ++i) lane[i - whole] += x[i] = f(x[i]);
        return sum_of_lanes(lane);
    } else {
        return lane_sum<T>(n, [x, &f](std::size_t i) { return x[i] = f(x[i]); });
    }
}

/// Replaces every x by e^(x − top) and returns their sum. `top` is finite; −∞ gives 0.
template <std::floating_point T>
inline T shifted_exponentials(T* x, std::size_t n, T top) noexcept {
    return replace_and_sum(x, n, [top](auto v) { return exponential(v - top); });
}

/// Returns the largest of x[0 … n), −∞ if empty. Ignores NaNs.
template <std::floating_point T>
[[nodiscard]] inline T lane_max(const T* x, std::size_t n) noexcept {
    T lane[lanes];
    for (T& value : lane) value = -std::numeric_limits<T>::infinity();
    const std::size_t whole = n / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (std::size_t i = whole; i < n; ++i) lane[i - whole] = x[i] > lane[i - whole] ? x[i] : lane[i - whole];
    for (std::size_t width = lanes / 2; width != 0; width /= 2)
        for (std::size_t j = 0; j < width; ++j) lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
    return lane[0];
}

template <std::floating_point T>
[[nodiscard]] inline T dot(const T* a, const T* b, std::size_t n) noexcept {
    return lane_sum<T>(n, [a, b](std::size_t i) { return a[i] * b[i]; });
}

} // namespace gneiss::detail
