// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/cli/command_line.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace joestar {

inline constexpr const char* program = "gneiss-joestar";
inline constexpr const char* purpose = "Trains GNNs on macro-batches that are sampled (Joestar).";

/// Adds all commands to the program.
void add_commands(programs::command_line& to);

/// Trains a GNN for node classification on macro-batches that are sampled.
/// This is `gneiss-joestar train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace joestar
