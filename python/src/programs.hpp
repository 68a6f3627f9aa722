// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kit/cli/command_line.hpp"

namespace gneiss_python {

/// Values of flags by name: a word, or the elements of a list.
using flag_values = std::map<std::string, std::variant<std::string, std::vector<std::string>>>;

/// Returns a program of gneiss, such as "gneiss-data", with its commands. Throws `std::invalid_argument` for another
/// name.
[[nodiscard]] std::unique_ptr<programs::command_line> program_named(const std::string& name);

/// Sets the flags of a command. Throws `programs::usage_error`.
void set_flags(programs::command& of, const flag_values& values);

} // namespace gneiss_python
