// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace programs {

/// Most bytes of a configuration file.
inline constexpr std::uint64_t longest_config = std::uint64_t{1} << 20;

/// One `key = value` of a configuration file.
struct config_item {
    std::string key;
    std::vector<std::string> values; ///< one for a scalar, as on the command line; any number for a list
    bool list = false;
    std::uint64_t line = 0; ///< from 1
};

/// Parses the subset of TOML that flags need: comments, bare and quoted keys, strings, numbers, booleans, arrays of
/// them over any number of lines. CLI11's reader loses line numbers and cuts strings at '#'.
///
/// Throws `gneiss::error` (invalid_format) that names file, line and column; tables and repeated keys are errors.
[[nodiscard]] std::vector<config_item> parse_toml(std::string_view text, const std::filesystem::path& name);
/// Reads and parses a file of at most `longest_config` bytes. Throws `gneiss::io_error` if it cannot be read.
[[nodiscard]] std::vector<config_item> read_toml(const std::filesystem::path& path);

/// Formats a flat object as TOML, one key per line, without nulls. `parse_toml` reads back the same values.
[[nodiscard]] std::string to_toml(const nlohmann::ordered_json& object);

} // namespace programs
