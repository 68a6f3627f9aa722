#pragma once

#include <cstdint>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// A bfloat16 as stored: the upper half of a float. No arithmetic.
enum class bfloat16 : std::uint16_t {};

/// Exact.
[[nodiscard]] GNEISS_HD constexpr float to_float(bfloat16 value) noexcept {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value) << 16);
}

/// Rounds to nearest, ties to even; too large becomes infinity, NaN stays a quiet NaN.
[[nodiscard]] GNEISS_HD constexpr bfloat16 to_bfloat16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<bfloat16>((bits >> 16) | 0x40U);
    return static_cast<bfloat16>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16); // a carry reaches infinity by itself
}

} // namespace gneiss
