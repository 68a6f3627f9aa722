#include <gneiss/model/targets.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace test_model_targets {

using namespace gneiss;

namespace {

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> random_values(std::size_t n, std::uint64_t seed) {
    std::vector<T> values(n);
    const random_key key(seed, random_domain::user);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(8 * to_unit_float(key[i]) - 4);
    return values;
}

using loss_of = std::function<target_statistics(matrix_view<double> outputs, matrix_view<const float> targets)>;

/// Compares gradients with finite differences of the mean loss, and the loss with a sum of `by_hand`.
void check_loss(const loss_of& loss, const std::vector<float>& targets, std::size_t columns,
    const std::function<double(double x, double t, std::size_t c)>& by_hand) {
    const std::size_t rows = targets.size() / columns;
    const matrix_view<const float> wanted(targets.data(), rows, columns);
    const auto outputs = random_values<double>(targets.size(), 1);
    auto gradient = outputs;
    const target_statistics got = loss({gradient.data(), rows, columns}, wanted);
    double sum = 0;
    std::uint64_t there = 0;
    for (std::size_t k = 0; k < targets.size(); ++k)
        if (!std::isnan(targets[k])) sum += by_hand(outputs[k], static_cast<double>(targets[k]), k % columns), ++there;
    CHECK(got.loss == doctest::Approx(sum));
    CHECK(got.targets == there);
    const auto mean = [&](std::vector<double> x) { return loss({x.data(), rows, columns}, wanted).mean_loss(); };
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        auto above = outputs, below = outputs;
        above[k] += 1e-6;
        below[k] -= 1e-6;
        CHECK(gradient[k] == doctest::Approx((mean(above) - mean(below)) / 2e-6).epsilon(1e-6));
        if (std::isnan(targets[k])) CHECK(gradient[k] == 0);
    }
}

} // namespace

TEST_CASE("the gradient of the sigmoid's cross-entropy equals finite differences, with weights and missing targets") {
    const std::vector<float> targets{1, 0, 0, missing, 1, 1, missing, missing, missing, .25F, 1, 0};
    const std::vector<float> weights{1, 4, .5F};
    const auto by_hand = [](double x, double t, double w) {
        const double p = 1 / (1 + std::exp(-x));
        return -w * t * std::log(p) - (1 - t) * std::log(1 - p);
    };
    check_loss([](auto x, auto t) { return sigmoid_cross_entropy<double>(x, t, serial_executor{}); }, targets, 3,
        [&](double x, double t, std::size_t) { return by_hand(x, t, 1); });
    check_loss([&](auto x, auto t) { return sigmoid_cross_entropy<double>(x, t, serial_executor{}, weights); }, targets,
        3, [&](double x, double t, std::size_t c) { return by_hand(x, t, static_cast<double>(weights[c])); });
}

TEST_CASE("the gradient of the squared error equals finite differences; rows without a target are not counted") {
    const std::vector<float> targets{1.5F, -20, missing, 3, missing, missing, 0, 7};
    check_loss([](auto x, auto t) { return squared_error<double>(x, t, serial_executor{}); }, targets, 2,
        [](double x, double t, std::size_t) { return (x - t) * (x - t); });
    std::vector<float> outputs(8);
    const auto got = squared_error<float>({outputs.data(), 4, 2}, {targets.data(), 4, 2}, serial_executor{});
    CHECK(got.rows == 3);
    CHECK(got.mean_loss() == doctest::Approx((2.25 + 400 + 9 + 49) / 5));
    const std::vector<float> none(4, missing);
    std::vector<float> some{1, 2, 3, 4};
    const auto nothing = squared_error<float>({some.data(), 2, 2}, {none.data(), 2, 2}, serial_executor{});
    CHECK(nothing.mean_loss() == 0);
    CHECK(some == std::vector<float>(4));
}

TEST_CASE("losses of targets have the same bits at any number of threads, and large scores do not overflow") {
    constexpr std::size_t n = 3000, columns = 7;
    auto a = random_values<float>(n * columns, 2), b = a;
    std::vector<float> targets(n * columns);
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = i % 11 == 0 ? missing : static_cast<float>(i % 2);
    const matrix_view<const float> wanted(targets.data(), n, columns);
    CHECK(sigmoid_cross_entropy<float>({a.data(), n, columns}, wanted, serial_executor{}).loss ==
        sigmoid_cross_entropy<float>({b.data(), n, columns}, wanted, tbb_executor(3)).loss);
    CHECK(a == b);
    std::vector<float> large{1e30F, -1e30F};
    const std::vector<float> right{1, 0};
    CHECK(sigmoid_cross_entropy<float>({large.data(), 1, 2}, {right.data(), 1, 2}, serial_executor{}).loss == 0);
}

TEST_CASE("invalid targets and shapes are refused before a score changes, NaN outputs are an error") {
    std::vector<float> scores{1, 2, 3, 4};
    const auto before = scores;
    const std::vector<float> outside{0, 1, 1, 1.5F}, fine{0, 1, 1, 0};
    const matrix_view<float> view(scores.data(), 2, 2);
    CHECK_THROWS_WITH((void)sigmoid_cross_entropy<float>(view, {outside.data(), 2, 2}, serial_executor{}),
        doctest::Contains("row 1, column 1"));
    CHECK_THROWS_AS((void)squared_error<float>(view, {fine.data(), 1, 4}, serial_executor{}), error);
    const std::vector<float> weights{1};
    CHECK_THROWS_AS((void)sigmoid_cross_entropy<float>(view, {fine.data(), 2, 2}, serial_executor{}, weights), error);
    CHECK(scores == before);
    scores[0] = missing;
    CHECK_THROWS_AS((void)squared_error<float>(view, {fine.data(), 2, 2}, serial_executor{}), error);
}

} // namespace test_model_targets
