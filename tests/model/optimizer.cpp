#include <gneiss/model/optimizer.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/embedding_table.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace test_model_optimizer {

using namespace gneiss;

namespace {

std::vector<float> noise(std::size_t size, std::uint64_t seed) {
    const random_key key(seed, random_domain::user);
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = to_unit_float(key[i]) - 0.5F;
    return values;
}

} // namespace

TEST_CASE("optimizers follow their formulas over many steps, in double") {
    constexpr std::size_t dim = 21;
    for (const std::string name : {"sgd", "adagrad", "adam"}) {
        const any_row_optimizer optimizer = make_row_optimizer(name, 0.05F);
        const std::size_t width = dim + optimizer.state_floats(dim);
        std::vector<float> row = noise(width, 1);
        std::fill(row.begin() + dim, row.end(), optimizer.initial_state());
        std::vector<double> x(row.begin(), row.begin() + dim), first(dim), second(dim);
        for (std::uint64_t t = 1; t <= 50; ++t) {
            std::vector<float> g = noise(dim, 100 + t);
            g[3] = 0; // never changes
            optimizer.step_rows(
                {row.data(), 1, width}, matrix_view<const float>(g.data(), 1, dim), t, serial_executor{});
            for (std::size_t k = 0; k < dim; ++k) {
                const double d = static_cast<double>(g[k]);
                if (name == "sgd") x[k] -= 0.05 * d;
                if (name == "adagrad") {
                    second[k] += d * d;
                    x[k] -= 0.05 * d / (std::sqrt(second[k]) + 1e-10);
                }
                if (name == "adam") {
                    first[k] = 0.9 * first[k] + 0.1 * d;
                    second[k] = 0.999 * second[k] + 0.001 * d * d;
                    const double n = static_cast<double>(t);
                    x[k] -= 0.05 * (first[k] / (1 - std::pow(0.9, n))) /
                        (std::sqrt(second[k] / (1 - std::pow(0.999, n))) + 1e-8);
                }
                CHECK(std::abs(static_cast<double>(row[k]) - x[k]) < 2e-5);
            }
        }
    }
}

TEST_CASE("steps of chosen rows, all rows and any threads give the same bits; other rows stay") {
    constexpr std::size_t rows = 1000, dim = 7;
    for (const auto name : optimizer_names) {
        const any_row_optimizer optimizer = make_row_optimizer(name, 0.1F);
        const row_layout layout{dim, static_cast<std::uint32_t>(optimizer.state_floats(dim))};
        embedding_table one(rows, layout), two(rows, layout);
        const std::vector<float> start = noise(rows * dim, 1);
        std::vector<std::uint32_t> ids;
        for (std::uint32_t i = 0; i < rows; ++i) {
            for (std::size_t k = 0; k < dim; ++k) one.values()(i, k) = two.values()(i, k) = start[i * dim + k];
            if (i % 3 != 0) ids.push_back(i + 500);
        }
        const std::vector<float> g = noise(ids.size() * dim, 2);
        const matrix_view<const float> gradients(g.data(), ids.size(), dim);
        for (std::uint64_t t = 1; t < 4; ++t) {
            optimizer.step_rows_at(one.table(), ids, gradients, t, tbb_executor(2), 500);
            for (std::size_t i = 0; i < ids.size(); ++i)
                optimizer.step_rows(
                    two.table().middle_rows(ids[i] - 500, 1), gradients.middle_rows(i, 1), t, serial_executor{});
        }
        for (std::size_t i = 0; i < rows; ++i) {
            CHECK(std::equal(one.table()[i].begin(), one.table()[i].end(), two.table()[i].begin()));
            if (i % 3 == 0)
                CHECK(std::equal(one.values()[i].begin(), one.values()[i].end(),
                    start.begin() + static_cast<std::ptrdiff_t>(i * dim)));
        }
    }
}

TEST_CASE("unknown optimizers, invalid rates and inconsistent rows are refused") {
    CHECK_THROWS_AS((void)make_row_optimizer("lion", 0.1F), error);
    CHECK_THROWS_AS((void)make_row_optimizer("sgd", 0.0F), error);
    CHECK_THROWS_AS((void)make_row_optimizer("sgd", std::nanf("")), error);
    std::vector<float> row(10);
    const any_row_optimizer optimizer = make_row_optimizer("adam", 0.1F);
    CHECK_THROWS_AS(
        optimizer.step_rows({row.data(), 1, 10}, matrix_view<const float>(row.data(), 1, 5), 1, serial_executor{}),
        error);
}

TEST_CASE("a row without space for the optimizer's state is refused, and the memory after it stays") {
    std::vector<float> rows(12, 1);
    const std::vector<float> g(4, 1);
    const any_row_optimizer optimizer = make_row_optimizer("adagrad", 0.1F);
    CHECK(test::code_of([&] { optimizer.step_row(std::span(rows).first(4), g, 1); }) == errc::invalid_argument);
    CHECK(rows == std::vector<float>(12, 1));
    optimizer.step_row(std::span(rows).first(8), g, 1);

    check_state_floats(optimizer, {4, 4}, "nodes");
    check_state_floats(make_row_optimizer("sgd", 1), {4, 0}, "nodes");
    CHECK_THROWS_WITH_AS(check_state_floats(make_row_optimizer("adam", 1), {4, 4}, "nodes"),
        "rows of nodes have 4 floats of optimizer state, the optimizer needs 8 for 4 of value", error);
    CHECK(test::code_of([&] { check_state_floats(optimizer, {4, 0}, "nodes"); }) == errc::invalid_argument);
}

} // namespace test_model_optimizer
