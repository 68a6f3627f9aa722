// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace mariusgnn {

inline constexpr const char* program = "gneiss-mariusgnn";
inline constexpr const char* purpose =
    "Trains GNNs on graphs larger than memory, for link prediction and node classification (MariusGNN).";

/// Adds all commands.
void add_commands(programs::command_line& to);

void add_train(programs::command_line& to);
void add_eval(programs::command_line& to);
void add_predict(programs::command_line& to);
void add_export(programs::command_line& to);

} // namespace mariusgnn
