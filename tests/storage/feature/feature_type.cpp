#include <gneiss/storage/feature/feature_type.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_storage_feature_feature_type {

namespace {

using namespace gneiss;

/// Encodes and decodes a row.
std::vector<float> through(const std::vector<float>& row, feature_type type) {
    std::vector<std::byte> stored(row_bytes(type, row.size()) + 1, std::byte{0x5a});
    REQUIRE(encode_row(row, type, stored.data()) == row.size());
    CHECK(stored.back() == std::byte{0x5a}); // no byte beyond the row is written
    std::vector<float> result(row.size());
    decode_row(type, stored.data(), result);
    return result;
}

} // namespace

TEST_CASE("rows of f32 keep their bits, of f16 11 bits, of bf16 8, of int8 half a step of the largest magnitude") {
    random_stream draw(random_key(1, random_domain::user));
    for (const std::size_t columns : {1U, 2U, 7U, 128U, 1001U})
        for (const float unit : {1e-30F, 1e-3F, 1.0F, 30'000.0F}) {
            std::vector<float> row(columns);
            for (float& x : row) x = draw.below(5) == 0 ? 0 : (2 * to_unit_float(draw()) - 1) * unit;
            CHECK(through(row, feature_type::f32) == row);
            float most = 0;
            for (const float x : row) most = std::max(most, std::abs(x));
            const std::vector<float> small = through(row, feature_type::f16), brief = through(row, feature_type::bf16),
                                     bytes = through(row, feature_type::int8);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < columns; ++i) {
                wrong += std::abs(small[i] - row[i]) > std::max(std::abs(row[i]) / 2048, 0x1p-25F);
                wrong += std::abs(brief[i] - row[i]) > std::abs(row[i]) / 256;
                wrong += std::abs(bytes[i] - row[i]) > most / 254 * 1.00001F;
                wrong += row[i] == 0 && bytes[i] != 0;
            }
            CHECK(wrong == 0);
            CHECK(through(bytes, feature_type::int8) == bytes); // a second round changes nothing
        }
}

TEST_CASE("rows of zeros, of the smallest and of the largest floats stay finite") {
    constexpr float least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
    CHECK(through({0, 0, -0.0F}, feature_type::int8) == std::vector<float>{0, 0, 0});
    CHECK(through({least, -least}, feature_type::int8) == std::vector<float>{0, 0});
    const std::vector<float> large = through({most, -most, 0}, feature_type::int8);
    CHECK(std::isfinite(large[0]));
    CHECK(large[0] == doctest::Approx(most));
    CHECK(large[1] == -large[0]);
}

TEST_CASE("a type has a name, which says it again") {
    for (const feature_type type : {feature_type::f32, feature_type::f16, feature_type::bf16, feature_type::int8})
        CHECK(parse_feature_type(to_string(type)) == type);
    CHECK(parse_feature_type("f64") == std::nullopt);
}

TEST_CASE("the first value that f16 cannot hold is reported") {
    std::vector<std::byte> stored(64);
    const std::vector<float> row{1, 65504, -65520, 1e9F};
    CHECK(encode_row(row, feature_type::f16, stored.data()) == 2);
    CHECK(encode_row(row, feature_type::int8, stored.data()) == 4);
}

TEST_CASE("all halves, all of bf16 and all bytes are decoded") {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto value = static_cast<float16>(bits);
        float result = 0;
        decode_row(feature_type::f16, reinterpret_cast<const std::byte*>(&value), {&result, 1});
        if (std::bit_cast<std::uint32_t>(result) != std::bit_cast<std::uint32_t>(to_float(value))) FAIL("half ", bits);
        const auto brief = static_cast<bfloat16>(bits);
        decode_row(feature_type::bf16, reinterpret_cast<const std::byte*>(&brief), {&result, 1});
        if (std::bit_cast<std::uint32_t>(result) != bits << 16) FAIL("bfloat16 ", bits);
    }
    std::vector<std::byte> stored(4 + 256);
    const float scale = .5F;
    std::memcpy(stored.data(), &scale, sizeof scale);
    for (std::size_t i = 0; i < 256; ++i) stored[4 + i] = static_cast<std::byte>(i);
    std::vector<float> values(256);
    decode_row(feature_type::int8, stored.data(), values);
    for (int i = 0; i < 256; ++i)
        CHECK(values[static_cast<std::size_t>(i)] == .5F * static_cast<float>(i < 128 ? i : i - 256));
}

} // namespace test_storage_feature_feature_type
