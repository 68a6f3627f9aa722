#pragma once

#include <string>
#include <string_view>

#include "fuzz/target.hpp"

#include <gneiss/io/import/options.hpp>

namespace gneiss::fuzz {

/// One text read in small and in large chunks gives the same edges, or the same refusal, and ids within their bounds.
void check_first_pass(const import_options& options, const std::string& name, std::string_view text);

/// Options by letters, those of the first line of an input; takes the line off.
[[nodiscard]] import_options take_options(std::string_view& text);

} // namespace gneiss::fuzz
