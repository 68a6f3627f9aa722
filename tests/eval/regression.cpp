#include <gneiss/eval/regression.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace test_eval_regression {

using namespace gneiss;

TEST_CASE("squared error, absolute error and R² equal their definitions, without the missing targets") {
    constexpr std::size_t nodes = 50, columns = 3; // column 2 has no targets
    const random_key key(3, random_domain::user);
    std::vector<float> outputs, targets;
    regression_metrics metrics(columns);
    for (std::uint64_t i = 0; i < nodes; ++i) {
        for (std::uint64_t c = 0; c < columns; ++c) {
            outputs.push_back(1000 + 10 * to_unit_float(key[6 * i + c]));
            const bool there = c != 2 && key[6 * i + 3 + c] % 4 != 0;
            targets.push_back(there ? outputs.back() + 4 * to_unit_float(key.with(1)[6 * i + c]) - 1
                                    : std::numeric_limits<float>::quiet_NaN());
        }
        metrics.add(std::span(outputs).last(columns), std::span(targets).last(columns));
    }
    double squares = 0, absolutes = 0, explained = 0;
    for (std::size_t c = 0; c < 2; ++c) {
        double count = 0, mean = 0, squared = 0, absolute = 0, variation = 0;
        for (std::size_t i = 0; i < nodes; ++i)
            if (const double t = static_cast<double>(targets[i * columns + c]); !std::isnan(t)) ++count, mean += t;
        mean /= count;
        for (std::size_t i = 0; i < nodes; ++i) {
            const double t = static_cast<double>(targets[i * columns + c]),
                         x = static_cast<double>(outputs[i * columns + c]);
            if (std::isnan(t)) continue;
            squared += (x - t) * (x - t);
            absolute += std::abs(x - t);
            variation += (t - mean) * (t - mean);
        }
        CHECK(static_cast<double>(metrics.count(c)) == count);
        CHECK(metrics.mse(c).value() == doctest::Approx(squared / count));
        CHECK(metrics.mae(c).value() == doctest::Approx(absolute / count));
        CHECK(metrics.r2(c).value() == doctest::Approx(1 - squared / variation));
        squares += squared / count / 2;
        absolutes += absolute / count / 2;
        explained += (1 - squared / variation) / 2;
    }
    CHECK(metrics.mse().value() == doctest::Approx(squares));
    CHECK(metrics.mae().value() == doctest::Approx(absolutes));
    CHECK(metrics.r2().value() == doctest::Approx(explained));
    CHECK(metrics.mse(2) == std::nullopt); // no target
    CHECK(metrics.r2(2) == std::nullopt);
    CHECK(regression_metrics(2).mse() == std::nullopt);
    CHECK_THROWS_AS(metrics.add(std::span(outputs).first(2), std::span(targets).first(3)), error);
    regression_metrics constant(1);
    const float one = 1, two = 2;
    constant.add({&one, 1}, {&one, 1});
    constant.add({&one, 1}, {&one, 1});
    CHECK(constant.r2() == 1);
    regression_metrics off(1);
    off.add({&two, 1}, {&one, 1});
    CHECK(off.r2() == std::nullopt); // one node has no variation
    CHECK(off.mse() == 1);
    off.add({&two, 1}, {&one, 1});
    CHECK(off.r2() == 0);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_WITH_AS(off.add({&nan, 1}, {&one, 1}), "output 0 is not a finite number", error);
    CHECK(off.mse() == 1);
}

} // namespace test_eval_regression
