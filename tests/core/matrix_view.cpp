#include <gneiss/core/matrix_view.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <type_traits>
#include <vector>

namespace test_core_matrix_view {

using namespace gneiss;

static_assert(std::is_trivially_copyable_v<matrix_view<float>>);
static_assert(std::is_convertible_v<matrix_view<float>, matrix_view<const float>>);
static_assert(!std::is_convertible_v<matrix_view<const float>, matrix_view<float>>, "const is not lost");
static_assert(!std::is_convertible_v<matrix_view<float>, matrix_view<const double>>);

TEST_CASE("every accessor finds element (r, c) r strides and c elements from the start") {
    constexpr std::size_t rows = 5, columns = 4, stride = 7;
    std::vector<int> data(rows * stride);
    std::iota(data.begin(), data.end(), 0);
    const matrix_view<int> view(data.data(), rows, columns, stride);
    for (std::size_t r = 0; r < rows; ++r) {
        CHECK(view[r].size() == columns);
        for (std::size_t c = 0; c < columns; ++c) {
            CHECK(view(r, c) == static_cast<int>(r * stride + c));
            CHECK(&view[r][c] == &view(r, c));
        }
    }
}

TEST_CASE("a part of a view is a view of the same elements") {
    std::vector<int> data(6 * 5);
    std::iota(data.begin(), data.end(), 0);
    const matrix_view<const int> view(data.data(), 6, 5);
    for (std::size_t first = 0; first <= 6; ++first)
        for (std::size_t count = 0; first + count <= 6; ++count) {
            const auto part = view.middle_rows(first, count);
            REQUIRE(part.rows() == count);
            for (std::size_t r = 0; r < count; ++r) CHECK(&part(r, 2) == &view(first + r, 2));
        }
    const auto block = view.middle_columns(1, 3).middle_rows(2, 2);
    CHECK(block.columns() == 3);
    CHECK(block.stride() == 5);
    CHECK(&block(1, 2) == &view(3, 3));
    CHECK(view.middle_columns(5, 0).empty());
}

TEST_CASE("writes go through to the owner; a view of const sees them") {
    std::vector<float> data(6);
    const matrix_view<float> view(data.data(), 2, 3);
    const matrix_view<const float> seen = view;
    view(1, 2) = 7;
    CHECK(data[5] == 7);
    CHECK(seen[1][2] == 7);
    CHECK(matrix_view<float>{}.empty());
}

} // namespace test_core_matrix_view
