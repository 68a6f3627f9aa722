// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace programs {

/// Completions of a value on the command line.
enum class completed_value : std::uint8_t { none, any, file, directory };

/// A flag or positional argument, as a shell completes it.
struct completed_flag {
    std::string name{}; ///< "--memory"; of a positional argument its name in the help, "DATASET"
    std::string help{};
    std::string value_name{}, initial{};          ///< in the help: the word for the value, the default
    completed_value value = completed_value::any; ///< none: the flag needs no value; `words` complete one after '='
    std::vector<std::string> words{};             ///< values; empty: any
    bool positional = false, list = false;        ///< list: the argument takes all further words
};

/// A command with its flags and positional arguments, each in the order of addition.
struct completed_command {
    std::string name{}, help{};
    std::vector<completed_flag> flags{};
};

/// Returns a script for bash 4.4 or newer that completes commands, flags and their values. It needs no other file.
[[nodiscard]] std::string bash_completion(std::string_view program, std::span<const completed_command> commands);

/// Returns a script for zsh 5 with descriptions of commands and flags: a file _PROGRAM in a directory of `fpath`, or
/// sourced after `compinit`.
[[nodiscard]] std::string zsh_completion(std::string_view program, std::span<const completed_command> commands);

} // namespace programs
