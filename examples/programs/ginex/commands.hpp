// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace ginex {

inline constexpr const char* program = "gneiss-ginex";
inline constexpr const char* purpose = "Trains GNNs on graphs and features larger than memory (Ginex).";

/// Adds all commands.
void add_commands(programs::command_line& to);

void add_train(programs::command_line& to);

} // namespace ginex
