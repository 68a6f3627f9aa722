// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>

#include "kit/report/records.hpp"

namespace trainers {

/// Phases of a run. Training, validation and, with a new best state, test alternate.
enum class run_phase : std::uint8_t { planning, preparing, training, validation, test };
[[nodiscard]] const char* name_of(run_phase phase) noexcept;

/// Progress of the current epoch.
struct epoch_progress {
    std::uint64_t epoch = 0, epochs = 0;           ///< the current one, from 1; all
    double loss = 0;                               ///< mean per example so far
    double rate = 0;                               ///< examples per second
    std::string state_name{};                      ///< if passes over a state may repeat: "macro-batch"
    std::uint64_t state = 0, states = 0, pass = 0; ///< the current one, from 1; all; from 1
    std::optional<double> read_rate{};             ///< bytes per second; absent if all data is in memory
    std::optional<double> hit_rate{};              ///< of the row cache, if there is one
    double wait_share = 0;                         ///< share of the compute stage's time in which it waits for input
    std::uint64_t budget_bytes = 0;
    std::optional<double> seconds_left{}; ///< of all epochs
    std::string more{};                   ///< further fields of the live line, with two blanks between them
};

/// Progress of a phase.
struct progress_report {
    run_phase phase = run_phase::planning;
    std::string step{}; ///< part of planning or preparing: "first values"; empty in training
    /// In training examples of the epoch, otherwise in the unit of the step; total 0: unknown.
    std::uint64_t done = 0, total = 0;
    std::string unit{};                    ///< of examples: "edges"
    std::optional<epoch_progress> epoch{}; ///< in training
};

/// Observer of a run. Members may be empty. They are called one at a time, by any thread of the run, and not after its
/// end; an exception of a member ends the run with that exception, as a crash would: its last checkpoint stays.
struct run_events {
    std::function<void(run_phase)> on_phase{}; ///< a phase begins
    /// The run is assembled: its plan, and what its components have charged to the budget.
    std::function<void(const programs::plan_record&, const std::vector<gneiss::memory_need>& charges)> on_plan{};
    std::function<void(const progress_report&)> on_progress{};
    std::function<void(const programs::epoch_record&)> on_epoch{}; ///< an epoch is trained, validated and recorded
    std::function<void(const std::string&)> on_message{};          ///< a line about the run, for people
    std::function<void(const std::string&)> on_warning{};          ///< also kept in the run's record
    double progress_seconds = 0.2;                                 ///< least time between two calls of on_progress
    std::vector<std::string> warnings{}; ///< given before the run began; its record begins with them
};

} // namespace trainers
