// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
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

/// A run of a network on given features.
struct trained_network : trained_run<node_classification_options> {
    std::optional<link_options> links{}; ///< of link prediction; none: node classification
};

/// Interface of a program that trains on given features, for commands that read its runs.
struct node_classification_program {
    std::string program;
    bool predicts_links = false; ///< there are runs of link prediction, too
    /// Opens a run for reading, as `open_trained`.
    std::function<trained_network(
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
    constexpr bool links = std::derived_from<Options, link_options>;
    add_node_classification_commands(to,
        {program, links,
            [program](const std::filesystem::path& run, const std::optional<std::filesystem::path>& moved,
                std::uint64_t memory) {
                auto opened = open_trained<Options>(program, run, moved, memory);
                trained_network result{{std::move(opened.saved), std::move(opened.data),
                    static_cast<const node_classification_options&>(opened.flags), std::move(opened.state)}};
                if constexpr (links)
                    if (opened.flags.links()) result.links = static_cast<const link_options&>(opened.flags);
                return result;
            }});
}

} // namespace trainers
