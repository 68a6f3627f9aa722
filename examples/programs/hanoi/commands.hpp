// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace hanoi {

inline constexpr const char* program = "gneiss-hanoi";

void add_train(programs::command_line& to);

} // namespace hanoi
