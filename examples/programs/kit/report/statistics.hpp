// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Statistics of repeated measurements.
namespace programs {

/// A mean with its 95 % confidence interval.
struct estimate {
    std::size_t count = 0;
    double mean = 0;              ///< 0 without values
    std::optional<double> half{}; ///< half the interval mean ± half; absent with fewer than two values
};

/// Mean of independent, about normally distributed values and its interval by Student's t. O(values).
[[nodiscard]] estimate estimate_mean(std::span<const double> values);

/// Returns the median; of an even number the mean of the middle two, 0 without values. O(n log n).
[[nodiscard]] double median(std::vector<double> values);

/// "0.9123 ± 0.0012"; empty without values. A difference has a sign.
[[nodiscard]] std::string to_text(const estimate& of, bool difference = false);

/// Returns the t for which a variable of Student's distribution with `freedom` ≥ 1 degrees of freedom is in [−t, t]
/// with probability `confidence` < 1; accurate to 6 digits. About 10⁵ evaluations of a power.
[[nodiscard]] double student_t(std::size_t freedom, double confidence = .95);

} // namespace programs
