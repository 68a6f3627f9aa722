#include <gneiss/inference/detail/layerwise_hidden_rows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <storage/support.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/serial.hpp>

namespace test_inference_layerwise_hidden_rows {

using namespace gneiss;

TEST_CASE("rows in a file of f32, f16 or bf16 read back as the values of their type, and take its bytes") {
    const test::temporary_directory folder;
    const serial_executor serial;
    for (const std::size_t columns : {1U, 3U, 64U})
        for (const feature_type type : {feature_type::f32, feature_type::f16, feature_type::bf16})
            for (const row_partitioning& cut : {row_partitioning{50, 7}, row_partitioning{512, 2}}) {
                CAPTURE(columns);
                CAPTURE(to_string(type));
                std::vector<float> all(static_cast<std::size_t>(cut.nodes) * columns), expected(all.size());
                for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i % 1999) * 0.37F - 300;
                const auto view = [&](std::vector<float>& rows, std::uint64_t first, std::uint64_t count) {
                    return matrix_view<float>(rows.data() + first * columns, static_cast<std::size_t>(count), columns);
                };
                detail::round_hidden_rows(view(all, 0, cut.nodes), type, view(expected, 0, cut.nodes), serial);
                const float step = type == feature_type::f32 ? 0 : type == feature_type::f16 ? 1.0F / 2048 : 1.0F / 256;
                for (std::size_t i = 0; i < all.size(); ++i) {
                    REQUIRE(std::abs(expected[i] - all[i]) <= step * std::abs(all[i]));
                    float stored = 0;
                    std::byte bytes[sizeof(float)];
                    REQUIRE(encode_row({&all[i], 1}, type, bytes) == 1);
                    decode_row(type, bytes, {&stored, 1});
                    REQUIRE(expected[i] == stored);
                }
                for (const auto& [name, engines] : storage_test::all_engines()) {
                    detail::hidden_rows rows(cut, columns, type, engines, folder.path());
                    for (partition_id p = 0; p < cut.partitions; ++p) {
                        const std::uint64_t half = cut.size(p) / 2;
                        rows.fill(p, 0, view(all, cut.begin(p), half), serial);
                        rows.fill(p, static_cast<std::size_t>(half), view(all, cut.begin(p) + half, cut.size(p) - half),
                            serial);
                        rows.put(p);
                    }
                    aligned_buffer<float> to;
                    for (partition_id p = cut.partitions; p-- > 0;) {
                        const auto found = rows.read(p, to);
                        REQUIRE(found.rows() == cut.size(p));
                        for (std::size_t i = 0; i < found.rows(); ++i)
                            REQUIRE(std::ranges::equal(found[i], view(expected, cut.begin(p) + i, 1)[0]));
                        CHECK(to.size_bytes() == detail::hidden_rows::buffer_bytes(cut, columns));
                    }
                    if (columns == 64 && cut.nodes == 512)
                        CHECK(rows.statistics().written_bytes == 512 * row_bytes(type, 64));
                }
            }
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a value that f16 or bf16 cannot hold is refused, as hidden rows and by its type") {
    const serial_executor serial;
    const auto refused = [&](float value, feature_type type) {
        std::vector<float> row{1, value}, to(2);
        std::string message;
        try {
            detail::round_hidden_rows({row.data(), 1, 2}, type, {to.data(), 1, 2}, serial);
        } catch (const error& e) {
            CHECK(e.code() == errc::not_finite);
            message = e.what();
        }
        return message;
    };
    CHECK(refused(65504, feature_type::f16).empty());
    CHECK(refused(65520, feature_type::f16) ==
        "hidden rows: a value is NaN or beyond the range of f16: store them as bf16 or f32");
    CHECK(refused(65520, feature_type::bf16).empty());
    CHECK(refused(std::numeric_limits<float>::quiet_NaN(), feature_type::bf16) ==
        "hidden rows: a value is NaN or beyond the range of bf16: store them as f32");
    CHECK(refused(std::numeric_limits<float>::infinity(), feature_type::f32).empty());
}

} // namespace test_inference_layerwise_hidden_rows
