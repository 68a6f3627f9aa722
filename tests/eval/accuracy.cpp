#include <gneiss/eval/accuracy.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace test_eval_accuracy {

using namespace gneiss;

TEST_CASE("accuracy and macro-F1 equal their definitions, however counts are grouped") {
    constexpr std::uint32_t classes = 6; // class 5 never occurs and is never predicted
    const random_key key(3, random_domain::user);
    std::vector<std::uint32_t> labels, predicted;
    classification_metrics all(classes), first(classes), second(classes);
    for (std::uint64_t i = 0; i < 200; ++i) {
        labels.push_back(static_cast<std::uint32_t>(below(key[2 * i], 5)));
        predicted.push_back(i % 3 == 0 ? labels.back() : static_cast<std::uint32_t>(below(key[2 * i + 1], 4)));
        all.add(labels.back(), predicted.back());
        (i % 2 == 0 ? first : second).add(labels.back(), predicted.back());
    }
    CHECK((second += first) == all);
    double right = 0, f1 = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) right += labels[i] == predicted[i];
    for (std::uint32_t c = 0; c < 5; ++c) {
        double hit = 0, said = 0, is = 0;
        for (std::size_t i = 0; i < labels.size(); ++i) {
            hit += labels[i] == c && predicted[i] == c;
            said += predicted[i] == c;
            is += labels[i] == c;
        }
        const double precision = said == 0 ? 0 : hit / said, recall = hit / is;
        CHECK(all.labeled(c) == is);
        CHECK(all.predicted(c) == said);
        CHECK(all.precision(c).value() == doctest::Approx(precision));
        CHECK(all.recall(c).value() == doctest::Approx(recall));
        CHECK(all.f1(c).value() ==
            doctest::Approx(precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall)));
        f1 += precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall);
    }
    CHECK(all.count() == 200);
    CHECK(all.accuracy() == doctest::Approx(right / 200));
    CHECK(all.macro_f1() == doctest::Approx(f1 / 5));
    CHECK(classification_metrics(3).accuracy() == 0);
    CHECK(classification_metrics(3).macro_f1() == 0);
    CHECK_THROWS_AS(all.add(6, 0), error);
    CHECK_THROWS_AS(all += classification_metrics(2), error);
}

TEST_CASE("a confusion matrix counts pairs of label and prediction, and its sums are those of the metrics") {
    constexpr std::uint32_t classes = 4;
    const random_key key(5, random_domain::user);
    std::vector<std::uint64_t> pairs(classes * classes);
    confusion_matrix matrix(classes);
    classification_metrics metrics(classes);
    for (std::uint64_t i = 0; i < 200; ++i) {
        const auto label = static_cast<std::uint32_t>(below(key[2 * i], classes)),
                   predicted = static_cast<std::uint32_t>(below(key[2 * i + 1], classes));
        ++pairs[label * classes + predicted];
        matrix.add(label, predicted);
        metrics.add(label, predicted);
    }
    for (std::uint32_t c = 0; c < classes; ++c) {
        std::uint64_t labeled = 0, predicted = 0;
        for (std::uint32_t p = 0; p < classes; ++p) {
            CHECK(matrix.row(c)[p] == pairs[c * classes + p]);
            labeled += matrix.row(c)[p];
            predicted += matrix.row(p)[c];
        }
        CHECK(labeled == metrics.labeled(c));
        CHECK(predicted == metrics.predicted(c));
        CHECK(static_cast<double>(matrix.row(c)[c]) / static_cast<double>(labeled) == metrics.recall(c));
    }
    CHECK_THROWS_AS(matrix.add(classes, 0), error);
}

TEST_CASE("the area under the ROC curve is the fraction of pairs in order, ties counting half") {
    const random_key key(4, random_domain::user);
    for (std::uint64_t round = 0; round < 30; ++round) {
        std::vector<float> scores;
        std::vector<bool> positive;
        for (std::uint64_t i = 0; i < 40; ++i) {
            scores.push_back(static_cast<float>(below(key.with(round)[2 * i], 12))); // many ties
            positive.push_back(key.with(round)[2 * i + 1] % 3 == 0);
        }
        double pairs = 0, wins = 0;
        for (std::size_t i = 0; i < 40; ++i)
            for (std::size_t j = 0; j < 40; ++j)
                if (positive[i] && !positive[j]) {
                    ++pairs;
                    wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
                }
        CHECK(roc_auc(scores, [&](std::size_t i) { return positive[i]; }).value() == doctest::Approx(wins / pairs));
    }
    const std::vector<float> some{1, 2, 2};
    for (const bool all : {false, true}) CHECK(roc_auc(some, [&](std::size_t) { return all; }) == std::nullopt);
    CHECK(roc_auc({}, [](std::size_t) { return true; }) == std::nullopt);
}

TEST_CASE("metrics of a class that does not occur are absent, and the mean leaves it out") {
    classification_metrics metrics(4); // class 2 is only a label, 3 only a prediction; 1 does not occur
    metrics.add(0, 0);
    metrics.add(2, 0);
    metrics.add(0, 3);
    CHECK(metrics.precision(1) == std::nullopt);
    CHECK(metrics.recall(1) == std::nullopt);
    CHECK(metrics.f1(1) == std::nullopt);
    CHECK(metrics.precision(2) == std::nullopt);
    CHECK(metrics.recall(2) == 0);
    CHECK(metrics.f1(2) == 0);
    CHECK(metrics.precision(3) == 0);
    CHECK(metrics.recall(3) == std::nullopt);
    CHECK(metrics.macro_f1() == doctest::Approx(0.5 / 3));
}

TEST_CASE("a score that is not a number is an error, in any place") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto code_of = [](const auto& rank) {
        try {
            (void)rank();
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    for (std::size_t at = 0; at < 6; ++at) {
        std::vector<float> scores{1, 2, 3, 4, 5, 6};
        for (const float bad : {nan, std::numeric_limits<float>::infinity()}) {
            scores[at] = bad;
            const std::vector<class_id> labels{0, 1, 1};
            CHECK(code_of([&] { return macro_roc_auc({scores.data(), 3, 2}, labels); }) == errc::not_finite);
            if (std::isnan(bad))
                CHECK(
                    code_of([&] { return roc_auc(scores, [](std::size_t i) { return i < 3; }); }) == errc::not_finite);
        }
    }
}

namespace {

/// Returns the fraction of (positive, negative) pairs in order by softmax probability, one class against the rest, as a
/// mean over the classes for which both occur; absent without one. Values equal within 1e-9 tie. O(classes · n²).
std::optional<double> pairs_in_order(
    const std::vector<std::vector<double>>& logits, const std::vector<class_id>& labels) {
    const std::size_t classes = logits[0].size();
    double sum = 0;
    std::size_t counted = 0;
    for (std::size_t c = classes == 2 ? 1 : 0; c < classes; ++c) {
        std::vector<double> share;
        for (const auto& row : logits) {
            double all = 0;
            for (const double x : row) all += std::exp(x);
            share.push_back(std::exp(row[c]) / all);
        }
        double pairs = 0, wins = 0;
        for (std::size_t i = 0; i < labels.size(); ++i)
            for (std::size_t j = 0; j < labels.size(); ++j)
                if (labels[i] == c && labels[j] != c) {
                    ++pairs;
                    wins += std::abs(share[i] - share[j]) < 1e-9 ? 0.5 : share[i] > share[j] ? 1 : 0;
                }
        if (pairs == 0) continue;
        sum += wins / pairs;
        ++counted;
    }
    if (counted == 0) return std::nullopt;
    return sum / static_cast<double>(counted);
}

} // namespace

TEST_CASE("the area uses softmax probabilities: a constant added to a row does not change it") {
    const random_key key(5, random_domain::user);
    for (std::uint64_t round = 0; round < 120; ++round) {
        CAPTURE(round);
        random_stream draw(key.with(round));
        const std::size_t classes = 2 + draw.below(4), nodes = 1 + draw.below(40);
        std::vector<std::vector<double>> logits;
        std::vector<class_id> labels;
        std::vector<float> plain, shifted;
        for (std::size_t i = 0; i < nodes; ++i) {
            logits.emplace_back();
            const float by = static_cast<float>(draw.below(64)) - 32; // shift of a row: exact in f32
            for (std::size_t c = 0; c < classes; ++c) {
                plain.push_back(static_cast<float>(draw.below(5)) / 2); // many ties
                shifted.push_back(plain.back() + by);
                logits.back().push_back(plain.back());
            }
            labels.push_back(static_cast<class_id>(draw.below(classes)));
        }
        const std::optional<double> expected = pairs_in_order(logits, labels);
        for (const std::vector<float>& scores : {plain, shifted}) {
            const auto area = macro_roc_auc({scores.data(), nodes, classes}, labels);
            REQUIRE(area.has_value() == expected.has_value());
            if (area) CHECK(*area == doctest::Approx(*expected).epsilon(1e-12));
        }
    }
}

TEST_CASE("probabilities that a float rounds to 0 or 1 are still ranked") {
    const std::vector<class_id> labels{0, 1, 1};
    std::vector<float> two{0, 50, 0, 60, 0, 55};
    CHECK(macro_roc_auc({two.data(), 3, 2}, labels) == 1);
    std::vector<float> three{-2000, 0, -900, -1000, 0, -900, -3000, 0, -900}; // class 0: rarest, but in order
    CHECK(macro_roc_auc({three.data(), 3, 3}, std::vector<class_id>{1, 0, 2}).value() ==
        doctest::Approx((1 + .5 + .5) / 3));
    const std::vector<float> one{3, 4};
    CHECK(macro_roc_auc({one.data(), 2, 1}, std::vector<class_id>{0, 0}) == std::nullopt);
}

TEST_CASE("with several classes the area is the mean over those that occur; with two it is that of the second") {
    std::vector<float> scores{9, 1, 0, 2, 3, 0, 4, 8, 0}; // 3 nodes, 3 classes; class 2 does not occur
    const std::vector<std::uint32_t> labels{0, 1, 1};
    CHECK(macro_roc_auc({scores.data(), 3, 3}, labels).value() == doctest::Approx((1.0 + 1.0) / 2));
    std::vector<float> two{0, 5, 0, 7, 0, 6};
    CHECK(macro_roc_auc({two.data(), 3, 2}, labels).value() == doctest::Approx(1));
    const std::vector<std::uint32_t> same{1, 1, 1};
    CHECK(macro_roc_auc({two.data(), 3, 2}, same) == std::nullopt);
    CHECK_THROWS_AS((void)macro_roc_auc({two.data(), 2, 2}, labels), error);
}

} // namespace test_eval_accuracy
