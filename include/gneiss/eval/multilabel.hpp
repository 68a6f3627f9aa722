// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/eval/accuracy.hpp>

// Metrics of nodes that may be in several classes. Targets are 1 (in the class), 0 (not in it) or NaN (unknown: not
// counted).
namespace gneiss {

/// Precision, recall and F1 of several labels per node, by class and over all. A class is predicted if its score is
/// positive, hence its probability above ½. Counts are integers: the result is independent of the order and grouping of
/// `add` and `+=`. Memory O(classes).
///
///     multilabel_metrics metrics(classes);
///     for (std::size_t i = 0; i < nodes; ++i) metrics.add(scores[i], targets[i]);
///     const double micro = metrics.micro_f1(), macro = metrics.macro_f1();
class multilabel_metrics {
public:
    /// Starts without predictions.
    explicit multilabel_metrics(std::size_t classes = 0) : of_(classes) {}

    /// Adds a node by its scores [classes] and targets [classes]. Throws `invalid_argument` for other lengths,
    /// `not_finite`, before any change, for a score that is NaN.
    void add(std::span<const float> scores, std::span<const float> targets) {
        if (scores.size() != of_.size() || targets.size() != of_.size())
            throw error(errc::invalid_argument, "a node has another number of classes");
        for (std::size_t c = 0; c < of_.size(); ++c)
            if (std::isnan(scores[c]))
                throw error(errc::not_finite, "the score of class " + std::to_string(c) + " is not a number");
        for (std::size_t c = 0; c < of_.size(); ++c) {
            if (std::isnan(targets[c])) continue;
            const bool label = targets[c] > 0.5F, predicted = scores[c] > 0;
            of_[c].labeled += label;
            of_[c].predicted += predicted;
            of_[c].right += label && predicted;
        }
    }
    /// Throws `invalid_argument` for metrics with a different number of classes.
    multilabel_metrics& operator+=(const multilabel_metrics& other) {
        if (of_.size() != other.of_.size())
            throw error(errc::invalid_argument, "metrics of different numbers of classes");
        for (std::size_t c = 0; c < of_.size(); ++c) of_[c] += other.of_[c];
        return *this;
    }
    friend bool operator==(const multilabel_metrics&, const multilabel_metrics&) = default;

    /// Returns the number of classes.
    [[nodiscard]] std::size_t classes() const noexcept { return of_.size(); }
    /// Returns the number of nodes of class `c`.
    [[nodiscard]] std::uint64_t labeled(class_id c) const noexcept { return of_[c].labeled; }
    /// Returns the number of predictions of class `c`.
    [[nodiscard]] std::uint64_t predicted(class_id c) const noexcept { return of_[c].predicted; }
    /// Returns the share of the predictions of class `c` that are correct; absent without any.
    [[nodiscard]] std::optional<double> precision(class_id c) const noexcept { return of_[c].precision(); }
    /// Returns the share of the nodes of class `c` that are predicted as such; absent without any.
    [[nodiscard]] std::optional<double> recall(class_id c) const noexcept { return of_[c].recall(); }
    /// Returns the harmonic mean of precision and recall of class `c`; absent if it is neither a label nor a
    /// prediction.
    [[nodiscard]] std::optional<double> f1(class_id c) const noexcept { return of_[c].f1(); }
    /// Returns F1 of all pairs of node and class together; absent without labels and predictions.
    [[nodiscard]] std::optional<double> micro_f1() const noexcept {
        counts sum;
        for (const counts& c : of_) sum += c;
        return sum.f1();
    }
    /// Mean over classes of F1, over classes that occur as a label or a prediction; absent without any.
    [[nodiscard]] std::optional<double> macro_f1() const noexcept {
        double sum = 0;
        std::size_t occurring = 0;
        for (const counts& c : of_)
            if (const auto own = c.f1()) ++occurring, sum += *own;
        if (occurring == 0) return std::nullopt;
        return sum / static_cast<double>(occurring);
    }

private:
    struct counts {
        std::uint64_t labeled = 0, predicted = 0, right = 0;

        static std::optional<double> share(std::uint64_t part, std::uint64_t whole) noexcept {
            if (whole == 0) return std::nullopt;
            return static_cast<double>(part) / static_cast<double>(whole);
        }
        [[nodiscard]] std::optional<double> precision() const noexcept { return share(right, predicted); }
        [[nodiscard]] std::optional<double> recall() const noexcept { return share(right, labeled); }
        [[nodiscard]] std::optional<double> f1() const noexcept { return share(2 * right, labeled + predicted); }
        counts& operator+=(const counts& other) noexcept {
            labeled += other.labeled;
            predicted += other.predicted;
            right += other.right;
            return *this;
        }
        friend bool operator==(const counts&, const counts&) = default;
    };
    std::vector<counts> of_;
};

/// Average precision: the mean, over positives, of the precision among all that score at least as high. Ties count as
/// one step. `positive(i)` is true for the scores of positives. Absent without positives. Equals scikit-learn's
/// `average_precision_score`. O(n log n) time, O(n) memory. Throws `not_finite`, naming the score, for a NaN.
template <class Positive>
[[nodiscard]] std::optional<double> average_precision(std::span<const float> scores, Positive&& positive) {
    auto order = detail::labeled_scores(scores, positive);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    double sum = 0;
    std::uint64_t positives = 0;
    for (std::size_t i = 0, j = 0; i < order.size(); i = j) { // one run of equal scores at a time
        std::uint64_t here = 0;
        for (; j < order.size() && order[j].first == order[i].first; ++j) here += order[j].second;
        positives += here;
        sum += static_cast<double>(here) * static_cast<double>(positives) / static_cast<double>(j);
    }
    if (positives == 0) return std::nullopt;
    return sum / static_cast<double>(positives);
}

/// Ranking metrics of several labels per node.
struct multilabel_ranking {
    double roc_auc = 0;           ///< mean over classes of the area under the ROC curve
    double average_precision = 0; ///< mean over classes of the average precision

    /// Ranks the nodes of each class by their scores [n, classes], over classes with both positives and negatives among
    /// the targets [n, classes]; absent without such a class. O(classes · n log n) time, O(n) memory. Throws
    /// `invalid_argument` for shapes that differ, `not_finite` for a score that is NaN.
    [[nodiscard]] static std::optional<multilabel_ranking> of(
        matrix_view<const float> scores, matrix_view<const float> targets) {
        if (scores.rows() != targets.rows() || scores.columns() != targets.columns())
            throw error(errc::invalid_argument, "every score needs a target, or NaN");
        std::vector<float> column;
        std::vector<bool> labels;
        multilabel_ranking sum;
        std::size_t classes = 0;
        for (std::size_t c = 0; c < scores.columns(); ++c) {
            column.clear();
            labels.clear();
            for (std::size_t i = 0; i < scores.rows(); ++i) {
                if (std::isnan(targets(i, c))) continue;
                column.push_back(scores(i, c));
                labels.push_back(targets(i, c) > 0.5F);
            }
            const auto positives = std::count(labels.begin(), labels.end(), true);
            if (positives == 0 || positives == std::ssize(labels)) continue;
            ++classes;
            const auto positive = [&](std::size_t i) { return bool{labels[i]}; };
            sum.roc_auc += *gneiss::roc_auc(column, positive);
            sum.average_precision += *gneiss::average_precision(column, positive);
        }
        if (classes == 0) return std::nullopt;
        return multilabel_ranking{
            sum.roc_auc / static_cast<double>(classes), sum.average_precision / static_cast<double>(classes)};
    }
};

} // namespace gneiss
