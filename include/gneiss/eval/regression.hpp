// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Mean squared error, mean absolute error and R² of predicted numbers, by column and as the mean over columns, as
/// scikit-learn's. NaN among the targets is not counted. Sums are floating-point: the same order of `add` gives the
/// same bits. Memory O(columns).
///
///     regression_metrics metrics(columns);
///     for (std::size_t i = 0; i < nodes; ++i) metrics.add(outputs[i], targets[i]);
///     const double error = metrics.mse(), explained = metrics.r2();
class regression_metrics {
public:
    /// Starts without predictions.
    explicit regression_metrics(std::size_t columns = 0) : of_(columns) {}

    /// Adds a node by its outputs [columns] and targets [columns]. Throws `invalid_argument` for other lengths,
    /// `not_finite`, before any change, for an output that is not finite.
    void add(std::span<const float> outputs, std::span<const float> targets) {
        if (outputs.size() != of_.size() || targets.size() != of_.size())
            throw error(errc::invalid_argument, "a node has another number of targets");
        for (std::size_t c = 0; c < of_.size(); ++c)
            if (!std::isfinite(outputs[c]))
                throw error(errc::not_finite, "output " + std::to_string(c) + " is not a finite number");
        for (std::size_t c = 0; c < of_.size(); ++c) {
            if (std::isnan(targets[c])) continue;
            column& to = of_[c];
            const double target = static_cast<double>(targets[c]),
                         difference = static_cast<double>(outputs[c]) - target;
            to.squared += difference * difference;
            to.absolute += std::abs(difference);
            const double before = target - to.mean; // Welford's update
            to.mean += before / static_cast<double>(++to.count);
            to.variation += before * (target - to.mean);
        }
    }

    /// Returns the number of columns.
    [[nodiscard]] std::size_t columns() const noexcept { return of_.size(); }
    /// Returns the number of targets of column `c`.
    [[nodiscard]] std::uint64_t count(std::size_t c) const noexcept { return of_[c].count; }
    /// Returns the mean squared error of column `c`; absent without targets.
    [[nodiscard]] std::optional<double> mse(std::size_t c) const noexcept { return of_[c].mean_of(of_[c].squared); }
    /// Returns the mean absolute error of column `c`; absent without targets.
    [[nodiscard]] std::optional<double> mae(std::size_t c) const noexcept { return of_[c].mean_of(of_[c].absolute); }
    /// Returns 1 − Σ (output − target)² / Σ (target − mean)² of column `c`; absent with fewer than two targets. If all
    /// targets are equal, 1 for outputs that are too, else 0.
    [[nodiscard]] std::optional<double> r2(std::size_t c) const noexcept {
        const column& of = of_[c];
        if (of.count < 2) return std::nullopt;
        if (of.variation == 0) return of.squared == 0 ? 1.0 : 0.0;
        return 1 - of.squared / of.variation;
    }
    /// Returns the mean over columns that have it; absent if none has.
    [[nodiscard]] std::optional<double> mse() const noexcept {
        return mean([this](std::size_t c) { return mse(c); });
    }
    /// Returns the mean over columns that have it; absent if none has.
    [[nodiscard]] std::optional<double> mae() const noexcept {
        return mean([this](std::size_t c) { return mae(c); });
    }
    /// Returns the mean over columns that have it; absent if none has.
    [[nodiscard]] std::optional<double> r2() const noexcept {
        return mean([this](std::size_t c) { return r2(c); });
    }

private:
    struct column {
        std::uint64_t count = 0;
        double squared = 0, absolute = 0;
        double mean = 0, variation = 0; ///< of the targets; variation: Σ (target − mean)²

        [[nodiscard]] std::optional<double> mean_of(double sum) const noexcept {
            if (count == 0) return std::nullopt;
            return sum / static_cast<double>(count);
        }
    };
    template <class Of>
    [[nodiscard]] std::optional<double> mean(const Of& of) const noexcept {
        double sum = 0;
        std::size_t with = 0;
        for (std::size_t c = 0; c < of_.size(); ++c)
            if (const auto own = of(c)) sum += *own, ++with;
        if (with == 0) return std::nullopt;
        return sum / static_cast<double>(with);
    }

    std::vector<column> of_;
};

} // namespace gneiss
