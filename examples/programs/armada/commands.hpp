// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace armada {

inline constexpr const char* program = "gneiss-armada";
inline constexpr const char* purpose =
    "Trains GNNs from the batches of workers that hold disjoint partitions, by replicas of the model (Armada).";

/// Adds all commands.
void add_commands(programs::command_line& to);

void add_train(programs::command_line& to);

} // namespace armada
