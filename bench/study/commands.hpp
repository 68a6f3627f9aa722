// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

/// The study program: one function per command, which adds it to the program.
namespace study {

void add_draw(programs::command_line& to);
void add_report(programs::command_line& to);
void add_caches(programs::command_line& to);
void add_runs(programs::command_line& to);
void add_orders(programs::command_line& to);
void add_curves(programs::command_line& to);
void add_grem(programs::command_line& to);
void add_macro(programs::command_line& to);
void add_drop(programs::command_line& to);
void add_stages(programs::command_line& to);
void add_gradients(programs::command_line& to);

} // namespace study
