// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kit/cli/completion.hpp"

namespace programs {

/// Returns a program's manual page, for `man`: its commands with all their flags.
/// \param description  a sentence
[[nodiscard]] std::string man_page(std::string_view program, std::string_view description, std::string_view version,
    std::span<const completed_command> commands);

} // namespace programs
