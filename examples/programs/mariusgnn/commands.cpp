// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "kit/cli/signals.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "program.hpp"
#include "trained_model.hpp"

namespace mariusgnn {

namespace {

struct eval_flags : trainers::gnn_eval_flags {
    std::string eval_graph = "full";
    std::optional<std::string> eval_fanout;
};

std::unique_ptr<trained_model> open(const trainers::run_flags& flags, const trainers::hidden_rows_flag& rows,
    const std::optional<std::filesystem::path>& graph = {}) {
    auto trained = std::make_unique<trained_model>(flags.run, flags.memory_bytes(), flags.dataset, graph);
    trainers::warn_of_state(flags.run, trained->state);
    rows.change(trained->how);
    return trained;
}

programs::exit_code eval(const eval_flags& flags) {
    const programs::interrupt_guard interrupts;
    const bool resident = flags.eval_graph == "resident";
    if (flags.eval_fanout && !resident) throw programs::usage_error(eval_fanout_needs);
    if (flags.hidden_rows && resident) throw programs::usage_error(hidden_rows_need);
    const std::unique_ptr<trained_model> trained = open(flags, flags);
    trained->resident = resident;
    if (flags.eval_fanout) trained->how.eval_fanout = trained->how.fanout_of_hops(*flags.eval_fanout);
    return trainers::evaluate(program, flags, *trained, interrupts.token());
}

} // namespace

void add_run_commands(programs::command_line& to) {
    const auto flags = std::make_shared<eval_flags>();
    programs::command& command =
        to.add("eval", "Evaluates a trained run on a split.", [flags](programs::command&) { return eval(*flags); });
    flags->trainers::eval_flags::add_to(
        command, "split of edges or nodes; train: of nodes", {"train", "valid", "test"});
    add_eval_graph(command, flags->eval_graph, flags->eval_fanout);
    flags->hidden_rows_flag::add_to(command);
    command.example("gneiss-mariusgnn eval runs/mine --on valid");
    trainers::add_predict_and_export(to,
        {.program = program,
            .predicts_links = true,
            .open = open,
            .what_of_nodes = "embeddings",
            .exports = "Writes the GNN's outputs for all nodes, with their names.",
            .formats = "npy: arrays and name tables; safetensors: these arrays and the weights in one file; tsv: a "
                       "name and its values per line",
            .exported = "embeddings"});
}

} // namespace mariusgnn
