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
///     plateau   1                                            times the factor of a `plateau_decay`
///
/// With a warm-up of w steps, steps 0 … w − 1 have the factors 1 / (w + 1), …, w / (w + 1), and the curve begins after
/// them. A pure function of the batch's number, so a resumed run continues identically.
struct schedule {
    /// Shape of the curve.
    enum class shape : std::uint8_t { constant, linear, cosine, step, plateau };

    shape form = shape::constant; ///< shape of the curve
    double floor = 0;             ///< final factor of linear and cosine
    double decay = 0.1;           ///< factor per piece of step
    std::uint64_t pieces = 3;     ///< number of pieces of step
    std::uint64_t warmup = 0;     ///< steps of warm-up

    friend bool operator==(const schedule&, const schedule&) = default;

    /// Returns the factor of batch number `step`, from 0, of `total_steps`: at most 1, positive for the defaults.
    /// Batches past the end are treated as the last one. O(1). Does not throw.
    [[nodiscard]] double factor(std::uint64_t step, std::uint64_t total_steps) const noexcept {
        if (step < warmup) return (static_cast<double>(step) + 1) / (static_cast<double>(warmup) + 1);
        if (form == shape::constant || form == shape::plateau || total_steps <= warmup) return 1;
        step = std::min(step, total_steps - 1) - warmup;
        total_steps -= warmup;
        const double t = static_cast<double>(step) / static_cast<double>(total_steps);
        switch (form) {
        case shape::linear: return 1 - (1 - floor) * t;
        case shape::cosine: return floor + (1 - floor) * (1 + std::cos(std::numbers::pi * t)) / 2;
        default: return std::pow(decay, std::floor(static_cast<double>(pieces) * t));
        }
    }
};

/// Learning-rate factor that falls when validations stop improving: after `patience` of them in a row without a better
/// one it is multiplied by `decay`, and the count begins again.
///
/// A pure function of the validations, so a resumed run that adds those of its records continues identically. Source:
/// known as "reduce on plateau".
class plateau_decay {
public:
    /// Starts with the factor 1. Throws `invalid_argument` unless 0 < decay ≤ 1 and patience > 0.
    explicit plateau_decay(double decay = 0.1, std::uint64_t patience = 5) : decay_(decay), patience_(patience) {
        if (!(decay > 0 && decay <= 1) || patience == 0)
            throw error(errc::invalid_argument, "a decay is above 0 and at most 1, a patience at least 1");
    }
    /// Adds a validation; `better`: than all before it.
    void add(bool better) noexcept {
        without_better_ = better ? 0 : without_better_ + 1;
        if (without_better_ < patience_) return;
        factor_ *= decay_;
        without_better_ = 0;
    }
    /// Returns the factor after the validations so far.
    [[nodiscard]] double factor() const noexcept { return factor_; }

private:
    double decay_;
    std::uint64_t patience_;
    std::uint64_t without_better_ = 0;
    double factor_ = 1;
};

/// Names of shapes, by value.
inline constexpr std::array<std::string_view, 5> schedule_names = {"constant", "linear", "cosine", "step", "plateau"};

/// Returns the schedule of that name with default settings. Throws `invalid_argument` for an unknown name.
[[nodiscard]] inline schedule make_schedule(std::string_view name) {
    for (std::size_t i = 0; i < schedule_names.size(); ++i)
        if (name == schedule_names[i]) return {.form = static_cast<schedule::shape>(i)};
    throw error(
        errc::invalid_argument, "no schedule \"" + std::string(name) + "\": constant, linear, cosine, step or plateau");
}

} // namespace gneiss
