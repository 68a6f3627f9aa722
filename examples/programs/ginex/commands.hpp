// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace ginex {

inline constexpr const char* program = "gneiss-ginex";

void add_train(programs::command_line& to);

} // namespace ginex
