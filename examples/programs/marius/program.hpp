// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/cli/command_line.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace marius {

inline constexpr const char* program = "gneiss-marius";
inline constexpr const char* purpose = "Trains graph embeddings larger than memory for link prediction (Marius).";

/// Adds all commands to the program.
void add_commands(programs::command_line& to);
/// Adds the commands that read a run: `eval`, `predict`, `export`.
void add_run_commands(programs::command_line& to);

/// Trains embeddings of a dataset's nodes and relations.
/// This is `gneiss-marius train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace marius
