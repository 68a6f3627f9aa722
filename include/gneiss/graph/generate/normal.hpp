#pragma once

#include <cstdint>

namespace gneiss {

/// A word as noise: mean 0, variance 1, nearly normal; the sum of four uniform 16-bit numbers, exact on every machine.
[[nodiscard]] inline float to_normal(std::uint64_t word) noexcept {
    const std::uint64_t sum = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    constexpr float deviation = 37837.226F; // of the sum: 2¹⁶ / √3
    return (static_cast<float>(sum) - 131070.0F) / deviation;
}

} // namespace gneiss
