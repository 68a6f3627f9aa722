#pragma once

#include "common/command_line.hpp"

namespace hanoi {

inline constexpr const char* program = "gneiss-hanoi";

void add_train(programs::command_line& to);
void add_eval(programs::command_line& to);
void add_predict(programs::command_line& to);
void add_export(programs::command_line& to);

} // namespace hanoi
