// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kit/report/records.hpp"

namespace programs {

/// Facts about a run whose validations are judged.
struct validated_run {
    std::string measure;              ///< the metric that compares states, for display: "MRR"
    std::uint64_t epochs = 0;         ///< planned
    std::uint64_t examples = 0;       ///< of a validation: differences within their noise are no trend
    double largest_class = 0;         ///< its share of the validation nodes; 0: unknown, or no classes
    bool stops_early = false;         ///< with a patience
    std::vector<std::string> mends{}; ///< flags against overfitting that the run takes
};

/// Returns the flags against overfitting that a run with this configuration takes: "--dropout".
[[nodiscard]] std::vector<std::string> flags_against_overfitting(const nlohmann::ordered_json& config);

/// Returns the difference that chance explains: two standard errors of a mean of values in [0, 1]; a fiftieth of the
/// value for a metric beyond it.
[[nodiscard]] double noise_of(double value, std::uint64_t examples);

/// Returns warnings of a finished run, one line each, with what helps. None on a healthy run:
/// - validation has fallen for a third of the run, or has not improved since its first third while the loss fell;
/// - accuracy stays at the share of the largest class.
/// \param order  compares states
[[nodiscard]] std::vector<std::string> validation_warnings(
    const std::vector<epoch_record>& epochs, const metric_order& order, const validated_run& of);

} // namespace programs
