// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/cli/command_line.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace mariusgnn {

inline constexpr const char* program = "gneiss-mariusgnn";
inline constexpr const char* purpose =
    "Trains GNNs on graphs larger than memory, for link prediction and node classification (MariusGNN).";

/// Adds all commands to the program.
void add_commands(programs::command_line& to);
/// Adds the commands that read a run: `eval`, `predict`, `export`.
void add_run_commands(programs::command_line& to);

/// Trains a GNN for link prediction or node classification on the partitions of a buffer.
/// This is `gneiss-mariusgnn train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace mariusgnn
