#include <gneiss/core/float16.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace test_core_float16 {

using namespace gneiss;

TEST_CASE("every float16 is the float that its sign, exponent and fraction say") {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const std::uint32_t exponent = (bits >> 10) & 31U, fraction = bits & 1023U;
        const float value = to_float(static_cast<float16>(bits));
        const float sign = (bits >> 15) != 0 ? -1.0F : 1.0F;
        if (exponent == 31) {
            CHECK(std::bit_cast<std::uint32_t>(value) == (((bits >> 15) << 31) | 0x7f800000U | (fraction << 13)));
            continue;
        }
        const float expected = exponent == 0
            ? std::ldexp(static_cast<float>(fraction), -24)
            : std::ldexp(static_cast<float>(1024 + fraction), static_cast<int>(exponent) - 25);
        CHECK(std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(sign * expected));
    }
}

TEST_CASE("every bfloat16 survives the round trip through float") {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto stored = static_cast<bfloat16>(bits);
        const float value = to_float(stored);
        if (std::isnan(value))
            CHECK(std::isnan(to_float(to_bfloat16(value))));
        else
            CHECK(to_bfloat16(value) == stored);
    }
}

TEST_CASE("a float rounds to the nearest bfloat16, ties to even") {
    for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) { // each positive value, and points between it and the next
        const float here = to_float(static_cast<bfloat16>(upper)), next = to_float(static_cast<bfloat16>(upper + 1));
        const auto between = [upper](std::uint32_t lower) { return std::bit_cast<float>((upper << 16) | lower); };
        CHECK(to_float(to_bfloat16(between(0x7fff))) == here);
        CHECK(to_float(to_bfloat16(between(0x8001))) == next);
        CHECK(to_float(to_bfloat16(between(0x8000))) == (upper % 2 == 0 ? here : next));
        CHECK(to_float(to_bfloat16(-between(0x8001))) == -next);
    }
    CHECK(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::max()))));
    CHECK(to_bfloat16(-0.0F) == static_cast<bfloat16>(0x8000));
    static_assert(to_float(to_bfloat16(1.5F)) == 1.5F);
}

} // namespace test_core_float16
