// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// IEEE 754 binary16 storage type; no arithmetic.
enum class float16 : std::uint16_t {};

/// Exact, including subnormals, infinities and NaN (payload kept). Without branches, so that loops over it are
/// vectorized: a multiplication corrects the exponent, also of subnormals.
[[nodiscard]] GNEISS_HD constexpr float to_float(float16 value) noexcept {
    const auto bits = static_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = (bits & 0x7fffU) << 13;
    const auto finite = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112F);
    const std::uint32_t special = magnitude | 0x7f800000U;
    return __builtin_bit_cast(float, ((bits & 0x8000U) << 16) | ((bits & 0x7c00U) == 0x7c00U ? special : finite));
}

/// Rounds to nearest, ties to even. Values too large become infinity; NaN becomes a quiet NaN.
[[nodiscard]] GNEISS_HD constexpr float16 to_float16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7fffffffU;
    const auto make = [sign](std::uint32_t rest) { return static_cast<float16>(sign | rest); };
    if (magnitude > 0x7f800000U) return make(0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x47800000U) return make(0x7c00U); // 65536 and beyond
    if (magnitude < 0x38800000U) {                      // below 2⁻¹⁴: subnormal, in units of 2⁻²⁴
        if (magnitude < 0x33000000U) return make(0);
        const std::uint32_t fraction = (magnitude & 0x7fffffU) | 0x800000U, shift = 126 - (magnitude >> 23);
        const std::uint32_t kept = fraction >> shift, lost = fraction & ((1U << shift) - 1), middle = 1U << (shift - 1);
        return make(kept + (lost > middle || (lost == middle && (kept & 1U) != 0)));
    }
    const std::uint32_t kept = (magnitude - 0x38000000U) >> 13, lost = magnitude & 0x1fffU;
    return make(kept + (lost > 0x1000U || (lost == 0x1000U && (kept & 1U) != 0))); // a carry reaches infinity by itself
}

/// bfloat16 storage type: the upper half of a float. No arithmetic.
enum class bfloat16 : std::uint16_t {};

/// Exact.
[[nodiscard]] GNEISS_HD constexpr float to_float(bfloat16 value) noexcept {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value) << 16);
}

/// Rounds to nearest, ties to even. Values too large become infinity; NaN becomes a quiet NaN.
[[nodiscard]] GNEISS_HD constexpr bfloat16 to_bfloat16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<bfloat16>((bits >> 16) | 0x40U);
    return static_cast<bfloat16>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16); // a carry reaches infinity by itself
}

} // namespace gneiss
