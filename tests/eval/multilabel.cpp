#include <gneiss/eval/multilabel.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace test_eval_multilabel {

using namespace gneiss;

namespace {

constexpr float missing = std::numeric_limits<float>::quiet_NaN();

/// Random scores with many ties, and targets of which some are missing; class 4 never occurs and is never predicted.
struct drawn_nodes {
    static constexpr std::size_t nodes = 60, classes = 5;
    std::vector<float> scores, targets;

    explicit drawn_nodes(std::uint64_t seed) {
        const random_key key(seed, random_domain::user);
        for (std::uint64_t i = 0; i < nodes * classes; ++i) {
            const bool never = i % classes == 4;
            scores.push_back(never ? -1 : static_cast<float>(below(key[3 * i], 9)) - 4);
            targets.push_back(never           ? 0
                    : key[3 * i + 1] % 5 == 0 ? missing
                                              : static_cast<float>(key[3 * i + 2] % 3 == 0));
        }
    }
    [[nodiscard]] matrix_view<const float> scores_view() const { return {scores.data(), nodes, classes}; }
    [[nodiscard]] matrix_view<const float> targets_view() const { return {targets.data(), nodes, classes}; }
};

} // namespace

TEST_CASE("micro and macro F1 equal their definitions, however nodes are grouped") {
    const drawn_nodes from(1);
    constexpr std::size_t classes = drawn_nodes::classes;
    multilabel_metrics all(classes), first(classes), second(classes);
    for (std::size_t i = 0; i < drawn_nodes::nodes; ++i) {
        all.add(from.scores_view()[i], from.targets_view()[i]);
        (i % 2 == 0 ? first : second).add(from.scores_view()[i], from.targets_view()[i]);
    }
    CHECK((second += first) == all);
    double hits = 0, wrong = 0, missed = 0, macro = 0;
    for (std::size_t c = 0; c < classes; ++c) {
        double hit = 0, said = 0, is = 0;
        for (std::size_t i = 0; i < drawn_nodes::nodes; ++i) {
            const float t = from.targets[i * classes + c];
            if (std::isnan(t)) continue;
            const bool predicted = from.scores[i * classes + c] > 0;
            hit += t == 1 && predicted;
            said += predicted;
            is += t == 1;
        }
        hits += hit;
        wrong += said - hit;
        missed += is - hit;
        const double precision = said == 0 ? 0 : hit / said, recall = is == 0 ? 0 : hit / is;
        const double f1 = precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall);
        macro += f1;
        const auto close = [](std::optional<double> got, bool exists, double expected) {
            CHECK(got.has_value() == exists);
            if (got) CHECK(*got == doctest::Approx(expected));
        };
        close(all.precision(static_cast<class_id>(c)), said != 0, precision);
        close(all.recall(static_cast<class_id>(c)), is != 0, recall);
        close(all.f1(static_cast<class_id>(c)), said + is != 0, f1);
        CHECK(all.labeled(static_cast<class_id>(c)) == is);
    }
    CHECK(all.micro_f1() == doctest::Approx(2 * hits / (2 * hits + wrong + missed)));
    CHECK(all.macro_f1() == doctest::Approx(macro / 4)); // class 4 does not occur
    CHECK_THROWS_AS(all.add(from.scores_view()[0].first(2), from.targets_view()[0]), error);
    CHECK_THROWS_AS(all += multilabel_metrics(2), error);
}

TEST_CASE("average precision and the area under the ROC curve equal brute force, with ties and missing targets") {
    for (std::uint64_t seed = 2; seed < 12; ++seed) {
        const drawn_nodes from(seed);
        double precisions = 0, areas = 0, ranked = 0;
        for (std::size_t c = 0; c < drawn_nodes::classes; ++c) {
            std::vector<float> scores;
            std::vector<bool> labels;
            for (std::size_t i = 0; i < drawn_nodes::nodes; ++i)
                if (const float t = from.targets_view()(i, c); !std::isnan(t))
                    scores.push_back(from.scores_view()(i, c)), labels.push_back(t == 1);
            double positives = 0, precision = 0, pairs = 0, wins = 0;
            for (std::size_t i = 0; i < scores.size(); ++i) {
                if (!labels[i]) continue;
                ++positives;
                double above = 0, hits = 0;
                for (std::size_t j = 0; j < scores.size(); ++j) {
                    above += scores[j] >= scores[i];
                    hits += scores[j] >= scores[i] && labels[j];
                    if (!labels[j]) ++pairs, wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? .5 : 0;
                }
                precision += hits / above;
            }
            const auto positive = [&](std::size_t i) { return bool{labels[i]}; };
            const auto got = average_precision(scores, positive);
            CHECK(got.has_value() == (positives != 0));
            if (got) CHECK(*got == doctest::Approx(precision / positives));
            if (positives == 0 || pairs == 0) continue;
            ++ranked;
            precisions += precision / positives;
            areas += wins / pairs;
        }
        const multilabel_ranking got = multilabel_ranking::of(from.scores_view(), from.targets_view()).value();
        CHECK(got.roc_auc == doctest::Approx(areas / ranked));
        CHECK(got.average_precision == doctest::Approx(precisions / ranked));
    }
    CHECK(!multilabel_ranking::of({}, {}));
}

TEST_CASE("metrics without labels are absent, and a score that is not a number is an error") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    multilabel_metrics metrics(2);
    CHECK(metrics.micro_f1() == std::nullopt);
    CHECK(metrics.macro_f1() == std::nullopt);
    const float scores[2] = {1, -1}, targets[2] = {1, 0}, bad[2] = {1, nan};
    metrics.add(scores, targets);
    CHECK(metrics.macro_f1() == 1); // of the first class alone
    CHECK(metrics.f1(1) == std::nullopt);
    CHECK_THROWS_WITH_AS(metrics.add(bad, targets), "the score of class 1 is not a number", error);
    CHECK(metrics.macro_f1() == 1);
    const float column[4] = {1, nan, 2, 3}, wanted[4] = {1, 0, 0, 1};
    CHECK_THROWS_WITH_AS((void)average_precision(column, [&](std::size_t i) { return wanted[i] > 0; }),
        "score 1 is not a number", error);
    CHECK_THROWS_AS((void)multilabel_ranking::of({column, 4, 1}, {wanted, 4, 1}), error);
}

} // namespace test_eval_multilabel
