// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Accuracy and F1 from per-class counts of correct and wrong predictions. Counts are integers: the result is
/// independent of the order and grouping of `add` and `+=`. Memory O(classes).
///
///     classification_metrics metrics(classes);
///     for (std::size_t i = 0; i < labels.size(); ++i) metrics.add(labels[i], predicted[i]);
///     const double accuracy = metrics.accuracy(), f1 = metrics.macro_f1();
class classification_metrics {
public:
    /// Starts without predictions.
    explicit classification_metrics(std::size_t classes = 0) : of_(classes) {}

    /// Throws `out_of_range` for an invalid class.
    void add(class_id label, class_id predicted) {
        if (label >= of_.size() || predicted >= of_.size())
            throw error(errc::out_of_range, "a label or a prediction is not a class");
        ++count_;
        ++of_[label].labeled;
        ++of_[predicted].predicted;
        of_[label].right += label == predicted;
    }
    /// Throws `invalid_argument` for metrics with a different number of classes.
    classification_metrics& operator+=(const classification_metrics& other) {
        if (of_.size() != other.of_.size())
            throw error(errc::invalid_argument, "metrics of different numbers of classes");
        count_ += other.count_;
        for (std::size_t c = 0; c < of_.size(); ++c) {
            of_[c].labeled += other.of_[c].labeled;
            of_[c].predicted += other.of_[c].predicted;
            of_[c].right += other.of_[c].right;
        }
        return *this;
    }
    friend bool operator==(const classification_metrics&, const classification_metrics&) = default;

    /// Returns the number of predictions.
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    /// Fraction of correct predictions; 0 if empty. Equals micro-F1.
    [[nodiscard]] double accuracy() const noexcept {
        std::uint64_t right = 0;
        for (const per_class& c : of_) right += c.right;
        return count_ == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count_);
    }
    /// Returns the number of classes.
    [[nodiscard]] std::size_t classes() const noexcept { return of_.size(); }
    /// Returns the number of predictions whose label is class `c`.
    [[nodiscard]] std::uint64_t labeled(class_id c) const noexcept { return of_[c].labeled; }
    /// Returns the number of predictions of class `c`.
    [[nodiscard]] std::uint64_t predicted(class_id c) const noexcept { return of_[c].predicted; }
    /// Returns the share of the predictions of class `c` that are correct; absent without any.
    [[nodiscard]] std::optional<double> precision(class_id c) const noexcept {
        return share(of_[c].right, of_[c].predicted);
    }
    /// Returns the share of the nodes of class `c` that are predicted as such; absent without any.
    [[nodiscard]] std::optional<double> recall(class_id c) const noexcept {
        return share(of_[c].right, of_[c].labeled);
    }
    /// Returns the harmonic mean of precision and recall of class `c`; absent if it is neither a label nor a
    /// prediction.
    [[nodiscard]] std::optional<double> f1(class_id c) const noexcept {
        return share(2 * of_[c].right, of_[c].labeled + of_[c].predicted);
    }
    /// Mean over classes of F1 = 2 · right / (labeled + predicted), over classes that occur as a label or a prediction.
    [[nodiscard]] double macro_f1() const noexcept {
        double sum = 0;
        std::size_t classes = 0;
        for (std::size_t c = 0; c < of_.size(); ++c)
            if (const auto own = f1(static_cast<class_id>(c))) ++classes, sum += *own;
        return classes == 0 ? 0 : sum / static_cast<double>(classes);
    }

private:
    struct per_class {
        std::uint64_t labeled = 0, predicted = 0, right = 0;
        friend bool operator==(const per_class&, const per_class&) = default;
    };
    [[nodiscard]] static std::optional<double> share(std::uint64_t part, std::uint64_t whole) noexcept {
        if (whole == 0) return std::nullopt;
        return static_cast<double>(part) / static_cast<double>(whole);
    }

    std::uint64_t count_ = 0;
    std::vector<per_class> of_;
};

/// Counts of predictions by label and predicted class. Memory: 8 · classes² bytes.
class confusion_matrix {
public:
    /// Starts without predictions.
    explicit confusion_matrix(std::size_t classes = 0) : classes_(classes), counts_(classes * classes) {}

    /// Throws `out_of_range` for an invalid class.
    void add(class_id label, class_id predicted) {
        if (label >= classes_ || predicted >= classes_)
            throw error(errc::out_of_range, "a label or a prediction is not a class");
        ++counts_[label * classes_ + predicted];
    }
    /// Returns the number of classes.
    [[nodiscard]] std::size_t classes() const noexcept { return classes_; }
    /// Returns the counts of a label by predicted class [classes]. Precondition: label < classes.
    [[nodiscard]] std::span<const std::uint64_t> row(class_id label) const noexcept {
        return std::span(counts_).subspan(label * classes_, classes_);
    }
    friend bool operator==(const confusion_matrix&, const confusion_matrix&) = default;

private:
    std::size_t classes_;
    std::vector<std::uint64_t> counts_;
};

namespace detail {

/// Returns the scores with their kind. Throws `not_finite`, naming the row, for a NaN, which has no place in an order.
template <class T, class Positive>
[[nodiscard]] std::vector<std::pair<T, bool>> labeled_scores(std::span<const T> scores, Positive&& positive) {
    std::vector<std::pair<T, bool>> result(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (std::isnan(scores[i])) throw error(errc::not_finite, "score " + std::to_string(i) + " is not a number");
        result[i] = {scores[i], static_cast<bool>(positive(i))};
    }
    return result;
}

template <class T, class Positive>
[[nodiscard]] std::optional<double> roc_auc_of(std::span<const T> scores, Positive&& positive) {
    auto order = labeled_scores(scores, positive);
    std::sort(order.begin(), order.end());
    double wins = 0;
    std::uint64_t negatives = 0, positives = 0;
    for (std::size_t i = 0; i < order.size();) { // one run of equal scores at a time
        std::uint64_t equal_negatives = 0, equal_positives = 0;
        std::size_t j = i;
        for (; j < order.size() && order[j].first == order[i].first; ++j)
            ++(order[j].second ? equal_positives : equal_negatives);
        wins += static_cast<double>(equal_positives) *
            (static_cast<double>(negatives) + static_cast<double>(equal_negatives) / 2);
        negatives += equal_negatives;
        positives += equal_positives;
        i = j;
    }
    if (positives == 0 || negatives == 0) return std::nullopt;
    return wins / (static_cast<double>(positives) * static_cast<double>(negatives));
}

/// Log-odds of single classes under the softmax of logit rows: log p / (1 − p). They ascend with the probability and
/// differ even if probabilities round to 0 or 1. Rows that give a class the same probability by the same differences of
/// logits, in any columns, give it the same bits. Memory: 24 bytes per row.
class softmax_log_odds {
public:
    /// Logits [n, classes], classes ≥ 2; they must outlive this. O(n · classes · log classes). Throws `not_finite`,
    /// naming the row, for a logit that is not finite.
    explicit softmax_log_odds(matrix_view<const float> logits) : logits_(logits), rows_(logits.rows()) {
        std::vector<float> x(logits.columns());
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            std::ranges::copy(logits[i], x.begin());
            if (!std::ranges::all_of(x, [](float score) { return std::isfinite(score); }))
                throw error(errc::not_finite, "a score of row " + std::to_string(i) + " is not a finite number");
            std::ranges::sort(x, std::greater<>{}); // makes sums independent of the order of columns
            double all = 1, others = 0;
            for (std::size_t c = 1; c < x.size(); ++c) {
                all += std::exp(difference(x[c], x[0]));
                others += std::exp(difference(x[c], x[1]));
            }
            rows_[i] = {x[0], difference(x[0], x[1]) - std::log(others), all};
        }
    }

    [[nodiscard]] double operator()(std::size_t i, std::size_t c) const noexcept {
        const row& of = rows_[i];
        const double below = difference(logits_(i, c), of.top);
        return below == 0 ? of.top_odds : below - std::log(of.all - std::exp(below)); // all ≥ 1 + exp(below)
    }

private:
    struct row {
        float top = 0;       ///< largest logit
        double top_odds = 0; ///< log-odds of a class with that logit
        double all = 0;      ///< Σ exp(logit − top)
    };
    static double difference(float a, float b) noexcept { return static_cast<double>(a) - static_cast<double>(b); }

    matrix_view<const float> logits_;
    std::vector<row> rows_;
};

} // namespace detail

/// Area under the ROC curve: the probability that a random positive scores above a random negative, ties counting half.
/// `positive(i)` is true for the scores of positives. Absent if either kind is. O(n log n) time, O(n) memory. Throws
/// `not_finite`, naming the score, for a NaN.
template <class Positive>
[[nodiscard]] std::optional<double> roc_auc(std::span<const float> scores, Positive&& positive) {
    return detail::roc_auc_of(scores, positive);
}

/// Mean over classes of the area under the ROC curve of that class against the rest, over classes for which both occur;
/// for two classes, that of class 1. Absent if there is none. Nodes are ranked by softmax probability, so adding a
/// constant to a row has no effect. Equals scikit-learn's `roc_auc_score(labels, softmax(logits), multi_class="ovr")`,
/// and for two classes `roc_auc_score(labels, softmax(logits)[:, 1])`.
///
/// Logits [n, classes], labels [n]. O(classes · n · log(classes · n)) time, O(n) memory. Throws `not_finite`, naming
/// the row, for a logit that is not finite.
[[nodiscard]] inline std::optional<double> macro_roc_auc(
    matrix_view<const float> logits, std::span<const class_id> labels) {
    if (labels.size() != logits.rows()) throw error(errc::invalid_argument, "every row of scores needs a label");
    if (logits.columns() < 2) return std::nullopt;
    const detail::softmax_log_odds odds(logits);
    std::vector<double> column(logits.rows());
    double sum = 0;
    std::size_t classes = 0;
    for (std::size_t c = logits.columns() == 2 ? 1 : 0; c < logits.columns(); ++c) {
        const auto own = std::count(labels.begin(), labels.end(), static_cast<std::uint32_t>(c));
        if (own == 0 || own == std::ssize(labels)) continue;
        ++classes;
        for (std::size_t i = 0; i < column.size(); ++i) column[i] = odds(i, c);
        sum += *detail::roc_auc_of(std::span<const double>(column), [&](std::size_t i) { return labels[i] == c; });
    }
    if (classes == 0) return std::nullopt;
    return sum / static_cast<double>(classes);
}

} // namespace gneiss
