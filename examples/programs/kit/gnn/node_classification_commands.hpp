// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kit/cli/command_line.hpp"
#include "kit/gnn/node_classification_options.hpp"
#include "kit/report/file_names.hpp"
#include "kit/run/run_flags.hpp"

namespace trainers {

/// Interface of a node classification program for commands that read its runs.
struct node_classification_program {
    std::string program;
    /// Opens a run for reading, as `open_trained`.
    std::function<trained_run<node_classification_options>(
        const std::filesystem::path& run, const std::optional<std::filesystem::path>& moved, std::uint64_t memory)>
        open;
};

/// Directory of a run's own partitioned dataset, if any.
inline constexpr const char* partitioned_name = programs::graph_directory;

/// Adds the commands that read a run: `eval`, `predict`, `export`. They use all neighbors in the whole graph.
void add_node_classification_commands(programs::command_line& to, const node_classification_program& of);
/// Adds the same commands for a program whose flags of `train` are `Options`.
template <class Options>
void add_node_classification_commands(programs::command_line& to, const std::string& program) {
    add_node_classification_commands(to,
        {program,
            [program](const std::filesystem::path& run, const std::optional<std::filesystem::path>& moved,
                std::uint64_t memory) {
                auto opened = open_trained<Options>(program, run, moved, memory);
                return trained_run<node_classification_options>{std::move(opened.saved), std::move(opened.data),
                    static_cast<const node_classification_options&>(opened.flags), std::move(opened.state)};
            }});
}

} // namespace trainers
