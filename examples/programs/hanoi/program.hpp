// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/cli/command_line.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace hanoi {

inline constexpr const char* program = "gneiss-hanoi";
inline constexpr const char* purpose =
    "Trains GNNs on graphs and features larger than memory, macro-batch by macro-batch (Hanoi).";

/// Adds all commands to the program.
void add_commands(programs::command_line& to);

/// Trains a GNN for node classification on macro-batches.
/// This is `gneiss-hanoi train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace hanoi
