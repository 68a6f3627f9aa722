#include <gneiss/model/initialize.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/embedding_table.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace test_model_initialize {

using namespace gneiss;

TEST_CASE("a row is a function of seed, table and row: blocks and threads change nothing") {
    constexpr std::size_t rows = 3000, dim = 5;
    const initializer values = initializer::normal(0, 0.1F);
    embedding_table whole(rows, {dim, 2}), parts(rows, {dim, 2});
    initialize_rows(values, 0.25F, 7, embedding_kind::nodes, 100, dim, whole.table(), tbb_executor(2));
    for (std::size_t first = 0; first < rows; first += 700)
        initialize_rows(values, 0.25F, 7, embedding_kind::nodes, 100 + first, dim,
            parts.table().middle_rows(first, std::min<std::size_t>(700, rows - first)), serial_executor{});
    for (std::size_t i = 0; i < rows; ++i) {
        CHECK(std::equal(whole.table()[i].begin(), whole.table()[i].end(), parts.table()[i].begin()));
        CHECK(whole.table()(i, dim) == 0.25F);
    }
    std::vector<float> a(dim), b(dim);
    values.fill(7, embedding_kind::nodes, 100, a);
    CHECK(std::equal(a.begin(), a.end(), whole.values()[0].begin()));
    values.fill(7, embedding_kind::relations, 100, b);
    CHECK(a != b);
    values.fill(8, embedding_kind::nodes, 100, b);
    CHECK(a != b);
}

TEST_CASE("moments and bounds match the distribution") {
    const auto moments = [](const initializer& of) {
        double sum = 0, square = 0, fourth = 0, low = 1e9, high = -1e9;
        std::vector<float> row(50);
        for (std::uint64_t i = 0; i < 4000; ++i) {
            of.fill(1, embedding_kind::nodes, i, row);
            for (const float f : row) {
                const double x = static_cast<double>(f);
                sum += x;
                square += x * x;
                fourth += x * x * x * x;
                low = std::min(low, x);
                high = std::max(high, x);
            }
        }
        return std::vector{sum / 2e5, square / 2e5, fourth / 2e5, low, high};
    };
    const auto normal = moments(initializer::normal(0, 1));
    CHECK(std::abs(normal[0]) < 0.012);
    CHECK(normal[1] == doctest::Approx(1).epsilon(0.02));
    CHECK(normal[2] == doctest::Approx(3).epsilon(0.06));
    CHECK(moments(initializer::normal(2, 0.1F))[0] == doctest::Approx(2).epsilon(0.001));
    const auto uniform = moments(initializer::uniform(-1, 3));
    CHECK(uniform[0] == doctest::Approx(1).epsilon(0.02));
    CHECK(uniform[3] >= -1);
    CHECK(uniform[4] <= 3);
    CHECK(uniform[4] - uniform[3] > 3.99);
    CHECK(initializer::glorot(2, 4) == initializer::uniform(-1, 1));
    CHECK(moments(initializer::zeros())[1] == 0);
}

} // namespace test_model_initialize
