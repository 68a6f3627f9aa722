#pragma once

#include "common/command_line.hpp"

namespace ginex {

inline constexpr const char* program = "gneiss-ginex";

void add_train(programs::command_line& to);
void add_eval(programs::command_line& to);
void add_predict(programs::command_line& to);
void add_export(programs::command_line& to);

} // namespace ginex
