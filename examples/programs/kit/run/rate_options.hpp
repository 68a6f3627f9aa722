// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/model/schedule.hpp>

#include "kit/cli/command_line.hpp"

namespace trainers {

/// Flags of the schedule of learning rates, the same for all trainers.
struct rate_options {
    std::optional<std::string> lr_schedule;
    std::uint64_t lr_warmup = 0;              ///< epochs
    std::optional<double> lr_decay;           ///< factor of step and plateau
    std::optional<std::uint64_t> lr_patience; ///< validations of plateau

    /// Adds the flags; `default_schedule` is the help's text for that of --lr-schedule.
    void add_schedule(programs::command& to, const std::string& default_schedule);
    /// Sets the default schedule. Throws usage_error for flags that the schedule does not use, and for a plateau
    /// without validations.
    void resolve_schedule(const std::string& default_schedule, bool validates);
    /// Returns the factor of an epoch of `epochs`, without that of a plateau.
    [[nodiscard]] double rate_factor(std::uint64_t epoch, std::uint64_t epochs) const;
    /// Returns the plateau of --lr-schedule plateau before any validation; empty for other schedules.
    [[nodiscard]] std::optional<gneiss::plateau_decay> plateau() const;
};

} // namespace trainers
