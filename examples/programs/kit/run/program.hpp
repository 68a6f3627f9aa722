// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kit/cli/command_line.hpp"
#include "kit/report/file_names.hpp"

namespace trainers {

/// Returns the arguments; with `--resume --out RUN`, flags that neither they nor a `--config` gives come from the run's
/// config.toml.
[[nodiscard]] inline std::vector<std::string> with_run_config(int argc, char** argv) {
    std::vector<std::string> words(argv, argv + argc);
    const auto given = [&](std::string_view flag) {
        return std::ranges::find_if(
            words, [&](const std::string& w) { return w == flag || w.starts_with(std::string(flag) + "="); });
    };
    const auto out = given("--out");
    if (given("--resume") == words.end() || out == words.end()) return words;
    std::string run;
    if (const std::size_t equals = out->find('='); equals != std::string::npos)
        run = out->substr(equals + 1);
    else if (out + 1 != words.end())
        run = *(out + 1);
    const auto config = std::filesystem::path(run) / programs::config_name;
    std::error_code ignored;
    if (!run.empty() && std::filesystem::exists(config, ignored))
        words.insert(words.end(), {"--run-config", config.string()});
    return words;
}

/// Runs the program and returns the result of `main`.
[[nodiscard]] inline int run_program(programs::command_line& program, int argc, char** argv) {
    const std::vector<std::string> words = with_run_config(argc, argv);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    return program.run(static_cast<int>(arguments.size()), arguments.data());
}

} // namespace trainers
