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
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/model/statistics.hpp>

// Losses of outputs against rows of targets: several labels per node, or numbers. A NaN among the targets is a missing
// one.
namespace gneiss {

namespace detail {

/// Replaces outputs by the gradient of the mean of `loss(output, target, column, gradient)` over the targets that are
/// not missing.
/// Precondition: shapes are equal.
template <class T, class Loss>
target_statistics differentiate_targets(
    matrix_view<T> outputs, matrix_view<const float> targets, executor_ref executor, const Loss& loss) {
    std::uint64_t present = 0;
    for (std::size_t i = 0; i < targets.rows(); ++i)
        for (const float t : targets[i]) present += !std::isnan(t);
    const T share = present == 0 ? T{0} : T{1} / static_cast<T>(present);
    const auto total =
        parallel_reduce(executor, outputs.rows(), 256, target_statistics{}, [&](std::size_t i, std::size_t end) {
            target_statistics sum;
            for (; i < end; ++i) {
                const std::span<T> row = outputs[i];
                const std::span<const float> wanted = targets[i];
                std::uint64_t here = 0;
                for (std::size_t c = 0; c < row.size(); ++c) {
                    if (std::isnan(wanted[c])) {
                        row[c] = T{0};
                        continue;
                    }
                    T gradient{};
                    sum.loss += loss(row[c], static_cast<T>(wanted[c]), c, gradient);
                    row[c] = gradient * share;
                    ++here;
                }
                sum.targets += here;
                sum.rows += here != 0;
            }
            return sum;
        });
    if (!std::isfinite(total.loss)) throw error(errc::not_finite, "the loss of the targets is not a finite number");
    return total;
}

template <class T>
void check_shapes(matrix_view<T> outputs, matrix_view<const float> targets) {
    if (outputs.rows() != targets.rows() || outputs.columns() != targets.columns())
        throw error(errc::invalid_argument, "every output needs a target, or NaN");
}

} // namespace detail

/// Computes the cross-entropy of the sigmoid of each score [n, classes] against its target in [0, 1], a class at a
/// time, and replaces the scores by the gradient of the *mean* loss over the targets that are not NaN; these get 0. A
/// positive counts `positive_weights[class]` times: the loss is −w · t · log σ(x) − (1 − t) · log(1 − σ(x)), as
/// PyTorch's `BCEWithLogitsLoss`.
///
/// Cost: two passes over the targets, one over the scores. Results do not depend on the executor. Throws
/// `invalid_argument` for shapes that differ, `out_of_range`, naming row and column, for a target outside [0, 1],
/// before any write; `not_finite` if the loss is not a finite number.
template <class T>
target_statistics sigmoid_cross_entropy(matrix_view<T> scores, matrix_view<const float> targets, executor_ref executor,
    std::span<const float> positive_weights = {}) {
    detail::check_shapes(scores, targets);
    if (!positive_weights.empty() && positive_weights.size() != scores.columns())
        throw error(errc::invalid_argument, "every class needs a weight");
    for (std::size_t i = 0; i < targets.rows(); ++i)
        for (std::size_t c = 0; c < targets.columns(); ++c)
            if (targets(i, c) < 0 || targets(i, c) > 1)
                throw error(errc::out_of_range,
                    "target " + std::to_string(targets(i, c)) + " of row " + std::to_string(i) + ", column " +
                        std::to_string(c) + ", is not within 0 and 1");
    return detail::differentiate_targets(scores, targets, executor, [&](T x, T t, std::size_t c, T& gradient) {
        const T w = positive_weights.empty() ? T{1} : static_cast<T>(positive_weights[c]);
        const T small = std::exp(-std::abs(x)), inverse = T{1} / (T{1} + small);
        const T sigmoid = x > T{0} ? inverse : small * inverse,
                opposite = x > T{0} ? small * inverse : inverse; // σ(x), σ(−x)
        gradient = (T{1} - t) * sigmoid - w * t * opposite;
        const double soft = std::log1p(static_cast<double>(small)); // log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|)
        return static_cast<double>(w * t) * (soft + std::max(-static_cast<double>(x), 0.0)) +
            static_cast<double>(T{1} - t) * (soft + std::max(static_cast<double>(x), 0.0));
    });
}

/// Computes the squared error of outputs [n, columns] against targets, and replaces the outputs by the gradient of the
/// *mean* over the targets that are not NaN; these get 0. Cost and errors as `sigmoid_cross_entropy`, at any target.
template <class T>
target_statistics squared_error(matrix_view<T> outputs, matrix_view<const float> targets, executor_ref executor) {
    detail::check_shapes(outputs, targets);
    return detail::differentiate_targets(outputs, targets, executor, [](T x, T t, std::size_t, T& gradient) {
        const double difference = static_cast<double>(x) - static_cast<double>(t);
        gradient = static_cast<T>(2 * difference);
        return difference * difference;
    });
}

} // namespace gneiss
