// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/cli/command_line.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace armada {

inline constexpr const char* program = "gneiss-armada";
inline constexpr const char* purpose =
    "Trains GNNs from the batches of workers that hold disjoint partitions, by replicas of the model (Armada).";

/// Adds all commands to the program.
void add_commands(programs::command_line& to);

/// Trains a GNN for node classification from the batches of workers, all in this process.
/// This is `gneiss-armada train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace armada
