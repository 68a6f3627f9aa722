// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace joestar {

inline constexpr const char* program = "gneiss-joestar";
inline constexpr const char* purpose = "Trains GNNs on macro-batches that are sampled (Joestar).";

/// Adds all commands.
void add_commands(programs::command_line& to);

void add_train(programs::command_line& to);

} // namespace joestar
