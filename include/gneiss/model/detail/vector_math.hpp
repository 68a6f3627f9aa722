#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

// Row loops that a compiler vectorises without -ffast-math: elementary functions free of branches, calls and errno,
// and reductions over a fixed number of lanes (so a sum is the same whatever the vector width, up to fma contraction).
namespace gneiss::detail {

inline constexpr std::size_t lanes = 32;

/// eˣ. Relative error below 2⁻²² over [−86.5, 88.7]; 0 below, infinity above; NaN stays NaN.
/// Cody–Waite reduction by ln 2 and a polynomial of degree 6.
[[nodiscard]] inline float exponential(float x) noexcept {
    constexpr float shift = 0x1.8p23F; // adding it rounds to an integer that lies in the low bits
    const float bounded = x > 88.72283F ? 88.72283F : x;
    const float shifted = bounded * 1.44269504F + shift;
    const float n = shifted - shift;
    const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * (r * r) + r + 1.0F;
    // 2ⁿ in two factors: n = 128 has no exponent of its own
    const std::uint32_t half = (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(shift) - 1) << 23;
    const float y = (p * std::bit_cast<float>(half + 0x3f800000U)) * 2.0F;
    const float low = x < -86.5F ? 0.0F : y;
    return x > 88.72283F ? std::numeric_limits<float>::infinity() : low;
}
[[nodiscard]] inline double exponential(double x) noexcept { return std::exp(x); }

/// √x for x ≥ 0, within 2 units in the last place, without the errno of `std::sqrt` that stops vectorisers.
[[nodiscard]] inline float square_root(float x) noexcept {
    float y = std::bit_cast<float>(0x5f375a86U - (std::bit_cast<std::uint32_t>(x) >> 1));
    const float half = 0.5F * x;
    y = y * (1.5F - half * y * y);
    y = y * (1.5F - half * y * y);
    y = y * (1.5F - half * y * y);
    const float root = x * y;
    return root + 0.5F * y * (x - root * root);
}
[[nodiscard]] inline double square_root(double x) noexcept { return std::sqrt(x); }

/// Σ term(i) for i in [0, n): lane j sums the terms of i ≡ j, lanes are added pairwise. Term must be pure.
template <std::floating_point T, class Term>
[[nodiscard]] inline T lane_sum(std::size_t n, Term&& term) noexcept {
    T lane[lanes] = {};
    const std::size_t whole = n / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j) lane[j] += term(i + j);
    for (std::size_t i = whole; i < n; ++i) lane[i - whole] += term(i);
    for (std::size_t width = lanes / 2; width != 0; width /= 2)
        for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    return lane[0];
}

/// The largest of x[0 … n), −∞ if there is none. NaNs are passed over.
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
