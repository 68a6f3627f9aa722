#include <gneiss/model/loss.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <model/oracle.hpp>

namespace test_model_loss {

using namespace gneiss;

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

/// The formulas of the doc comments, over unmasked negatives only.
double formula(const softmax_loss&, double positive, const std::vector<double>& negatives) {
    double sum = std::exp(positive);
    for (const double x : negatives) sum += std::exp(x);
    return -positive + std::log(sum);
}
double formula(const marius_loss&, double positive, const std::vector<double>& negatives) {
    double sum = 0;
    for (const double x : negatives) sum += std::exp(x);
    return negatives.empty() ? 0 : -(positive - std::log(sum));
}
double formula(const logistic_loss&, double positive, const std::vector<double>& negatives) {
    double sum = 0;
    for (const double x : negatives) sum += softplus(x) / static_cast<double>(negatives.size());
    return softplus(-positive) + sum;
}
double formula(const margin_loss& of, double positive, const std::vector<double>& negatives) {
    double sum = 0;
    for (const double x : negatives)
        sum += std::max(0.0, static_cast<double>(of.margin) - positive + x) / static_cast<double>(negatives.size());
    return sum;
}

template <class Loss>
void check(Loss of) {
    for (const std::size_t n : {0U, 1U, 2U, 15U, 16U, 40U, 1100U})
        for (const bool mask : {false, true}) {
            oracle::table scores(1, n + 1, n + 7, 2.0);
            double positive = scores.values[n];
            scores.values.resize(n);
            if (mask)
                for (std::size_t i = 0; i < n; i += 3) scores.values[i] = minus_infinity;
            const auto unmasked = [&] {
                std::vector<double> kept;
                for (const double x : scores.values)
                    if (x != minus_infinity) kept.push_back(x);
                return kept;
            };
            const auto exact = [&] { return formula(of, positive, unmasked()); };
            std::vector<double> gradient(n);
            const loss_and_gradient<double> got = of(positive, scores.values, std::span(gradient));
            CHECK(got.loss == doctest::Approx(exact()).epsilon(1e-9));
            CHECK(got.grad_positive == doctest::Approx(oracle::slope(positive, exact)).epsilon(1e-5));
            for (std::size_t i = 0; i < n; i += n > 100 ? 37 : 1) {
                if (scores.values[i] == minus_infinity)
                    CHECK(gradient[i] == 0);
                else
                    CHECK(std::abs(gradient[i] - oracle::slope(scores.values[i], exact)) < 1e-7);
            }
            std::vector<float> narrow(scores.values.begin(), scores.values.end()), apart(n);
            const auto separate = of(static_cast<float>(positive), narrow, std::span(apart));
            const auto in_place = of(static_cast<float>(positive), narrow, std::span(narrow));
            CHECK(separate.loss == in_place.loss);
            CHECK(separate.grad_positive == in_place.grad_positive);
            CHECK(apart == narrow);
            CHECK(std::abs(separate.loss - got.loss) < 1e-4 * (1 + std::abs(got.loss)));
            for (std::size_t i = 0; i < n; ++i) CHECK(std::abs(static_cast<double>(apart[i]) - gradient[i]) < 1e-5);
        }
}

template <class Loss>
void check_extremes(Loss of) {
    for (const float positive : {-3e4F, 0.0F, 3e4F})
        for (const float negative : {-3e4F, 3e4F}) {
            std::vector<float> scores = {negative, 0, -std::numeric_limits<float>::infinity()};
            const auto got = of(positive, scores, std::span(scores));
            CHECK(std::isfinite(got.loss));
            CHECK(std::isfinite(got.grad_positive));
            for (const float g : scores) CHECK(std::isfinite(g));
        }
    std::vector<float> bad(20, 0.5F);
    bad[17] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(of(0.0F, bad, std::span(bad)).loss));
    std::vector<float> good(20, 0.5F);
    CHECK(std::isnan(of(std::numeric_limits<float>::quiet_NaN(), good, std::span(good)).loss));
}

} // namespace

TEST_CASE("losses equal their formulas and gradients equal finite differences, with any mask") {
    check(softmax_loss{});
    check(marius_loss{});
    check(logistic_loss{});
    check(margin_loss{0.7F});
}

TEST_CASE("huge scores stay finite and NaN propagates") {
    check_extremes(softmax_loss{});
    check_extremes(marius_loss{});
    check_extremes(logistic_loss{});
    check_extremes(margin_loss{});
}

} // namespace test_model_loss
