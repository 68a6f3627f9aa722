// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/model/statistics.hpp>

namespace gneiss {

/// Returns the column of the largest score, the first among equals. Precondition: scores are not empty.
template <class T>
[[nodiscard]] class_id predicted_class(std::span<const T> scores) noexcept {
    return static_cast<class_id>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

/// Returns weights of classes that give each class the same total among the labeled rows: labeled / (occurring classes
/// · rows of the class), 1 for a class without rows. scikit-learn calls them "balanced". Throws `out_of_range` for a
/// label beyond the classes. O(labels).
[[nodiscard]] inline std::vector<float> balanced_class_weights(std::span<const class_id> labels, std::size_t classes) {
    std::vector<std::uint64_t> counts(classes);
    std::uint64_t labeled = 0, occurring = 0;
    for (const class_id label : labels) {
        if (label == unlabeled) continue;
        if (label >= classes)
            throw error(
                errc::out_of_range, "label " + std::to_string(label) + ", of " + std::to_string(classes) + " classes");
        ++labeled;
        occurring += counts[label]++ == 0;
    }
    std::vector<float> weights(classes, 1);
    for (std::size_t c = 0; c < classes; ++c)
        if (counts[c] != 0)
            weights[c] = static_cast<float>(
                static_cast<double>(labeled) / (static_cast<double>(occurring) * static_cast<double>(counts[c])));
    return weights;
}

/// Computes softmax and cross-entropy of rows of scores [n, classes] against labels [n], and replaces the scores by the
/// gradient of the *mean* loss over labeled rows; rows without a label get 0. With `class_weights` [classes], finite
/// and at least 0, a row counts as the weight of its class: the mean is Σ weight · loss / Σ weight, as PyTorch's
/// `CrossEntropyLoss`.
///
/// Cost: three passes over the scores. Results do not depend on the executor. Throws `out_of_range`, naming the row,
/// for a label that is not below the classes, before any write; `not_finite` if the loss is not a finite number.
template <class T>
classification_statistics softmax_cross_entropy(matrix_view<T> scores, std::span<const class_id> labels,
    executor_ref executor, std::span<const float> class_weights = {}) {
    if (labels.size() != scores.rows())
        throw error(errc::invalid_argument, "every row of scores needs a label, or unlabeled");
    const std::size_t classes = scores.columns();
    if (!class_weights.empty() && class_weights.size() != classes)
        throw error(errc::invalid_argument, "every class needs a weight");
    std::uint64_t labeled = 0;
    double weight = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == unlabeled) continue;
        ++labeled;
        if (labels[i] >= classes)
            throw error(errc::out_of_range,
                "label " + std::to_string(labels[i]) + " of row " + std::to_string(i) + ", of " +
                    std::to_string(classes) + " classes");
        if (!class_weights.empty()) weight += static_cast<double>(class_weights[labels[i]]);
    }
    const T share = class_weights.empty() ? (labeled == 0 ? T{0} : T{1} / static_cast<T>(labeled))
                                          : (weight == 0 ? T{0} : static_cast<T>(1 / weight));
    const auto total =
        parallel_reduce(executor, scores.rows(), 256, classification_statistics{}, [&](std::size_t i, std::size_t end) {
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
                const T mine = class_weights.empty() ? share : share * static_cast<T>(class_weights[labels[i]]);
                const double loss = std::log(static_cast<double>(all)) - static_cast<double>(own - top);
                sum.loss += class_weights.empty() ? loss : loss * static_cast<double>(class_weights[labels[i]]);
                ++sum.labeled;
                const T by = mine / all;
                for (std::size_t c = 0; c < classes; ++c) x[c] *= by;
                x[labels[i]] -= mine;
            }
            return sum;
        });
    if (!std::isfinite(total.loss)) throw error(errc::not_finite, "the loss of the classes is not a finite number");
    return total;
}

} // namespace gneiss
