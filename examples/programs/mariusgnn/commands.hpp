// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace mariusgnn {

inline constexpr const char* program = "gneiss-mariusgnn";

void add_train(programs::command_line& to);
void add_eval(programs::command_line& to);
void add_predict(programs::command_line& to);
void add_export(programs::command_line& to);

} // namespace mariusgnn
