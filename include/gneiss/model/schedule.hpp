// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// Learning-rate schedule of a run: a factor of the rate. With t = step / total_steps in [0, 1):
///
///     constant  1
///     linear    1 − (1 − floor) · t
///     cosine    floor + (1 − floor) · (1 + cos πt) / 2       Source: Loshchilov and Hutter, ICLR 2017
///     step      decay ^ ⌊pieces · t⌋                         the run in equal pieces, each slower than the last
///
/// A pure function of the batch's number, so a resumed run continues identically.
struct schedule {
    /// Shape of the curve.
    enum class shape : std::uint8_t { constant, linear, cosine, step };

    shape form = shape::constant; ///< shape of the curve
    double floor = 0;             ///< final factor of linear and cosine
    double decay = 0.1;           ///< factor per piece of step
    std::uint64_t pieces = 3;     ///< number of pieces of step

    friend bool operator==(const schedule&, const schedule&) = default;

    /// Returns the factor of batch number `step`, from 0, of `total_steps`: within [floor, 1], positive for the defaults.
    /// Batches past the end are treated as the last one. O(1). Does not throw.
    [[nodiscard]] double factor(std::uint64_t step, std::uint64_t total_steps) const noexcept {
        if (form == shape::constant || total_steps == 0) return 1;
        step = std::min(step, total_steps - 1);
        const double t = static_cast<double>(step) / static_cast<double>(total_steps);
        switch (form) {
        case shape::linear: return 1 - (1 - floor) * t;
        case shape::cosine: return floor + (1 - floor) * (1 + std::cos(std::numbers::pi * t)) / 2;
        default: return std::pow(decay, std::floor(static_cast<double>(pieces) * t));
        }
    }
};

/// Names of shapes, by value.
inline constexpr std::array<std::string_view, 4> schedule_names = {"constant", "linear", "cosine", "step"};

/// Returns the schedule of that name with default settings. Throws `invalid_argument` for an unknown name.
[[nodiscard]] inline schedule make_schedule(std::string_view name) {
    for (std::size_t i = 0; i < schedule_names.size(); ++i)
        if (name == schedule_names[i]) return {.form = static_cast<schedule::shape>(i)};
    throw error(errc::invalid_argument, "no schedule \"" + std::string(name) + "\": constant, linear, cosine or step");
}

} // namespace gneiss
