#include <gneiss/model/classify.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <vector>

namespace test_model_classify {

using namespace gneiss;

namespace {

template <class T>
std::vector<T> random_scores(std::size_t n, std::uint64_t seed) {
    std::vector<T> scores(n);
    const random_key key(seed, random_domain::user);
    for (std::size_t i = 0; i < n; ++i) scores[i] = static_cast<T>(8 * to_unit_float(key[i]) - 4);
    return scores;
}

} // namespace

TEST_CASE("the gradient of the cross-entropy equals finite differences of the mean loss; unlabeled rows get none") {
    constexpr std::size_t n = 7, classes = 5;
    const std::vector<std::uint32_t> labels{0, 4, unlabeled, 2, 2, unlabeled, 1};
    const auto scores = random_scores<double>(n * classes, 1);
    const auto loss = [&](std::vector<double> x) {
        return softmax_cross_entropy<double>({x.data(), n, classes}, labels, serial_executor{}).mean_loss();
    };
    auto gradient = scores;
    const auto got = softmax_cross_entropy<double>({gradient.data(), n, classes}, labels, serial_executor{});
    CHECK(got.labeled == 5);
    double by_hand = 0;
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (labels[i] == unlabeled) continue;
        double all = 0;
        std::size_t best = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            all += std::exp(scores[i * classes + c]);
            if (scores[i * classes + c] > scores[i * classes + best]) best = c;
        }
        by_hand -= std::log(std::exp(scores[i * classes + labels[i]]) / all);
        right += best == labels[i];
    }
    CHECK(got.loss == doctest::Approx(by_hand));
    CHECK(got.correct == right);
    for (std::size_t k = 0; k < scores.size(); ++k) {
        auto above = scores, below = scores;
        above[k] += 1e-6;
        below[k] -= 1e-6;
        CHECK(gradient[k] == doctest::Approx((loss(above) - loss(below)) / 2e-6).epsilon(1e-6));
        if (labels[k / classes] == unlabeled) CHECK(gradient[k] == 0);
    }
}

TEST_CASE("with weights of classes the gradient equals finite differences of the weighted mean, and equal weights "
          "change nothing") {
    constexpr std::size_t n = 7, classes = 4;
    const std::vector<std::uint32_t> labels{0, 3, unlabeled, 2, 2, 0, 1};
    const std::vector<float> weights{.5F, 3, 1, 2};
    const auto scores = random_scores<double>(n * classes, 3);
    const auto weighted_mean = [&](const std::vector<double>& x) {
        double sum = 0, weight = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (labels[i] == unlabeled) continue;
            double all = 0;
            for (std::size_t c = 0; c < classes; ++c) all += std::exp(x[i * classes + c]);
            const double w = static_cast<double>(weights[labels[i]]);
            sum -= w * std::log(std::exp(x[i * classes + labels[i]]) / all);
            weight += w;
        }
        return sum / weight;
    };
    auto gradient = scores;
    const auto got = softmax_cross_entropy<double>({gradient.data(), n, classes}, labels, serial_executor{}, weights);
    CHECK(got.loss == doctest::Approx(weighted_mean(scores) * (.5 + 2 + 1 + 1 + .5 + 3))); // Σ weight · loss
    for (std::size_t k = 0; k < scores.size(); ++k) {
        auto above = scores, below = scores;
        above[k] += 1e-6;
        below[k] -= 1e-6;
        CHECK(gradient[k] == doctest::Approx((weighted_mean(above) - weighted_mean(below)) / 2e-6).epsilon(1e-6));
    }
    const std::vector<float> equal(classes, 1), few(classes - 1, 1);
    auto plain = scores, same = scores;
    (void)softmax_cross_entropy<double>({plain.data(), n, classes}, labels, serial_executor{});
    (void)softmax_cross_entropy<double>({same.data(), n, classes}, labels, serial_executor{}, equal);
    for (std::size_t k = 0; k < scores.size(); ++k) CHECK(same[k] == doctest::Approx(plain[k]));
    CHECK_THROWS_AS(
        (void)softmax_cross_entropy<double>({same.data(), n, classes}, labels, serial_executor{}, few), error);
}

TEST_CASE("balanced weights give every class that occurs the same total") {
    const std::vector<std::uint32_t> labels{0, 0, 0, 0, 2, 2, unlabeled, 3};
    const auto weights = balanced_class_weights(labels, 5);
    const double wanted[] = {7.0 / 12, 1, 7.0 / 6, 7.0 / 3, 1}; // 7 labeled rows, 3 classes that occur
    REQUIRE(weights.size() == std::size(wanted));
    for (std::size_t c = 0; c < weights.size(); ++c)
        CHECK(static_cast<double>(weights[c]) == doctest::Approx(wanted[c]));
    CHECK(balanced_class_weights({}, 2) == std::vector<float>(2, 1));
    CHECK_THROWS_AS((void)balanced_class_weights(labels, 3), error);
}

TEST_CASE("loss and gradient have the same bits at any number of threads, and large scores do not overflow") {
    constexpr std::size_t n = 3000, classes = 11;
    auto a = random_scores<float>(n * classes, 2), b = a;
    std::vector<std::uint32_t> labels(n);
    for (std::size_t i = 0; i < n; ++i)
        labels[i] = static_cast<std::uint32_t>(i % (classes + 1) == classes ? unlabeled : i % classes);
    const auto one = softmax_cross_entropy<float>({a.data(), n, classes}, labels, serial_executor{});
    const auto two = softmax_cross_entropy<float>({b.data(), n, classes}, labels, tbb_executor(3));
    CHECK(one.loss == two.loss);
    CHECK(a == b);
    std::vector<float> large{1e30F, -1e30F, 0};
    const std::vector<std::uint32_t> first{0};
    CHECK(softmax_cross_entropy<float>({large.data(), 1, 3}, first, serial_executor{}).loss == 0);
}

TEST_CASE("invalid labels are named, without labels the loss is zero, NaN is an error") {
    std::vector<float> scores{1, 2, 3, 4};
    const auto before = scores;
    const std::vector<std::uint32_t> outside{0, 2}, none{unlabeled, unlabeled}, short_of{0}, fine{0, 1};
    const matrix_view<float> view(scores.data(), 2, 2);
    CHECK_THROWS_WITH_AS((void)softmax_cross_entropy<float>(view, outside, serial_executor{}),
        doctest::Contains("label 2 of row 1"), error);
    CHECK_THROWS_AS((void)softmax_cross_entropy<float>(view, short_of, serial_executor{}), error);
    CHECK(scores == before);
    const auto nothing = softmax_cross_entropy<float>(view, none, serial_executor{});
    CHECK(nothing.mean_loss() == 0);
    CHECK(nothing.accuracy() == 0);
    CHECK(scores == std::vector<float>(4, 0));
    scores[2] = std::nanf("");
    CHECK_THROWS_AS((void)softmax_cross_entropy<float>(view, fine, serial_executor{}), error);
}

} // namespace test_model_classify
