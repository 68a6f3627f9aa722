#pragma once

#include <string>
#include <string_view>

#include "fuzz/target.hpp"

#include <gneiss/io/import/options.hpp>

namespace gneiss::fuzz {

/// Checks that small and large chunks of a text give the same edges or the same refusal, and ids within their bounds.
void check_first_pass(const import_options& options, const std::string& name, std::string_view text);

/// Parses the letters of an input's first line into options and removes the line.
[[nodiscard]] import_options take_options(std::string_view& text);

} // namespace gneiss::fuzz
