#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/command_line.hpp"
#include "common/training/node_classification_options.hpp"

namespace trainers {

/// A design for node classification on given features, as far as reading its runs goes.
struct node_classification_program {
    std::string program;
    std::function<std::unique_ptr<node_classification_options>()> options;
};

/// Where a run keeps its dataset in partitions of its own, if it does.
inline constexpr const char* partitioned_name = "graph";

/// Adds the commands that read a run, by all neighbors of the whole graph: `eval`, `predict`, `export`.
void add_node_classification_commands(programs::command_line& to, const node_classification_program& of);
/// The same for a program whose flags of `train` are `Options`.
template <class Options>
void add_node_classification_commands(programs::command_line& to, const std::string& program) {
    add_node_classification_commands(to, node_classification_program{program, [] { return std::make_unique<Options>(); }});
}

} // namespace trainers
