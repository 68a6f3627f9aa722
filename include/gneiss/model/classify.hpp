// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/detail/vector_math.hpp>

namespace gneiss {

/// Statistics of a batch of classifications. Sums over batches are associative.
struct classification_statistics {
    double loss = 0;           ///< Σ −log p(label)
    std::uint64_t labeled = 0; ///< nodes with a label
    std::uint64_t correct = 0; ///< nodes classified correctly

    /// Returns the loss per labeled node; 0 without labels.
    [[nodiscard]] double mean_loss() const noexcept { return labeled == 0 ? 0 : loss / static_cast<double>(labeled); }
    /// Returns the share of correct classifications; 0 without labels.
    [[nodiscard]] double accuracy() const noexcept {
        return labeled == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labeled);
    }
    classification_statistics& operator+=(const classification_statistics& other) noexcept {
        loss += other.loss;
        labeled += other.labeled;
        correct += other.correct;
        return *this;
    }
    friend classification_statistics operator+(classification_statistics a, const classification_statistics& b) noexcept {
        return a += b;
    }
};

/// Returns the column of the largest score, the first among equals. Precondition: scores are not empty.
template <class T>
[[nodiscard]] class_id predicted_class(std::span<const T> scores) noexcept {
    return static_cast<class_id>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

/// Computes softmax and cross-entropy of rows of scores [n, classes] against labels [n], and replaces the scores by the
/// gradient of the *mean* loss over labeled rows; rows without a label get 0.
///
/// Cost: three passes over the scores. Results do not depend on the executor. Throws `out_of_range`, naming the row, for a
/// label that is not below the classes, before any write; `not_finite` if the loss is not a finite number.
template <class T>
classification_statistics softmax_cross_entropy(matrix_view<T> scores, std::span<const class_id> labels, executor_ref executor) {
    if (labels.size() != scores.rows()) throw error(errc::invalid_argument, "every row of scores needs a label, or unlabeled");
    const std::size_t classes = scores.columns();
    std::uint64_t labeled = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == unlabeled) continue;
        ++labeled;
        if (labels[i] >= classes)
            throw error(errc::out_of_range, "label " + std::to_string(labels[i]) + " of row " + std::to_string(i) + ", of " +
                std::to_string(classes) + " classes");
    }
    const T share = labeled == 0 ? T{0} : T{1} / static_cast<T>(labeled);
    const auto total = parallel_reduce(executor, scores.rows(), 256, classification_statistics{}, [&](std::size_t i, std::size_t end) {
        classification_statistics sum;
        for (; i < end; ++i) {
            const std::span<T> row = scores[i];
            if (labels[i] == unlabeled) {
                std::fill(row.begin(), row.end(), T{0});
                continue;
            }
            T* const x = row.data();
            const T top = detail::lane_max(x, classes), own = x[labels[i]];
            sum.correct += predicted_class<T>(row) == labels[i];
            const T all = detail::shifted_exponentials(x, classes, top);
            sum.loss += std::log(static_cast<double>(all)) - static_cast<double>(own - top);
            ++sum.labeled;
            const T by = share / all;
            for (std::size_t c = 0; c < classes; ++c) x[c] *= by;
            x[labels[i]] -= share;
        }
        return sum;
    });
    if (!std::isfinite(total.loss)) throw error(errc::not_finite, "the loss of the classes is not a finite number");
    return total;
}

} // namespace gneiss
