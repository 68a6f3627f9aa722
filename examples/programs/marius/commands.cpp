// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <memory>

#include <fmt/format.h>

#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/run_flags.hpp"
#include "kit/run/untrained.hpp"
#include "trained_model.hpp"

namespace marius {

namespace {

programs::exit_code eval(const trainers::eval_flags& flags) {
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory, flags.dataset);
    flags.change(trained.how);
    const auto executor = flags.executor();
    const trainers::link_evaluation evaluate{trained.how, trained.how.seed, *trained.data, *trained.buckets,
        trained.scorer(), executor, trainers::memory_left(trained.budget, memory), interrupts.token(), flags.k, {},
        !flags.candidates};
    trainers::warn_of_untrained_edges(*trained.data, *trained.buckets, flags.split, true, interrupts.token());
    trainers::report_metrics(program, flags, trained.state, flags.split,
        evaluate(flags.split, {*trained.rows, interrupts.token()}), "edges", evaluate.scope(flags.split),
        trained.how.dataset);
    return programs::exit_code::done;
}

struct predict_flags : trainers::run_flags, trainers::query_flags, trainers::answer_format {};

programs::exit_code predict(const predict_flags& flags) {
    const std::uint64_t memory = flags.memory_bytes();
    const programs::interrupt_guard interrupts;
    trained_model trained(flags.run, memory, flags.dataset);
    const gneiss::dataset& data = *trained.data;
    data.verify_labels();
    const auto queries = trainers::read_queries(data, flags, memory);
    const auto executor = flags.executor();
    const trainers::link_prediction answer{program, data, *trained.buckets, trained.scorer(), flags, executor,
        trainers::memory_left(trained.budget, memory), interrupts.token(), true, trained.state, flags.format};
    answer(queries, {*trained.rows, interrupts.token()}, flags.json);
    return programs::exit_code::done;
}

struct export_flags : trainers::run_flags {
    std::filesystem::path out;
    std::string what = "embeddings", format = "npy";
    bool force = false;
};

programs::exit_code export_run(const export_flags& flags) {
    trainers::export_directory out(flags.out, flags.force);
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory, flags.dataset);
    trained.data->verify_labels();
    const trainers::exported_nodes exported{
        *trained.data, trainers::scratch_of(flags.run), trainers::memory_left(trained.budget, memory)};
    if (flags.what == "edges")
        return trainers::finish_edges(program, exported, *trained.buckets, interrupts.token(), out, flags.json);
    const std::uint64_t nodes = trainers::export_embeddings(
        exported, {*trained.rows, interrupts.token()}, {trained.relations.values()}, flags.format, out.begin());
    out.finish();
    const std::uint64_t relations = trained.relations.values().rows();
    if (flags.json) {
        nlohmann::ordered_json result{{"program", program}, {"out", out.path().string()}, {"nodes", nodes},
            {"relations", relations}, {"dim", trained.rows->dim()}};
        trained.state.add_to(result);
        programs::print_json(result);
    } else {
        programs::print_text("{} nodes and {} relations of {} floats are in {} ({})\n{}\n", nodes, relations,
            trained.rows->dim(), out.path().string(), trained.state.text(), out.rows_by_name());
    }
    return programs::exit_code::done;
}

void add_eval(programs::command_line& to) {
    const auto flags = std::make_shared<trainers::eval_flags>();
    programs::command& command = to.add(
        "eval", "Ranks a split's edges with a trained run.", [flags](programs::command&) { return eval(*flags); });
    flags->add_to(command, "split whose edges are ranked");
    command.example("gneiss-marius eval runs/mine --on valid");
}

void add_predict(programs::command_line& to) {
    const auto flags = std::make_shared<predict_flags>();
    programs::command& command =
        to.add("predict", "Predicts the best tails or heads for a head or a tail and a relation, or similar nodes.",
            [flags](programs::command&) { return predict(*flags); });
    flags->run_flags::add_to(command);
    flags->query_flags::add_to(command);
    flags->answer_format::add_to(command);
    command.example("gneiss-marius predict runs/mine --head ann --relation likes --k 5");
}

void add_export(programs::command_line& to) {
    const auto flags = std::make_shared<export_flags>();
    programs::command& command = to.add(
        "export", "Writes embeddings with their names.", [flags](programs::command&) { return export_run(*flags); });
    flags->add_to(command);
    command.option("out", flags->out, "output directory").value_name("DIR").required();
    command.option("what", flags->what, "embeddings, or edges: training edges as an array")
        .choices({"embeddings", "edges"});
    command
        .option("format", flags->format,
            "npy: arrays and name tables; safetensors: these arrays in one file; tsv: a name and its floats per line")
        .choices({"npy", "safetensors", "tsv"});
    command.option("force", flags->force, "replace an existing export at --out").transient();
    command.example("gneiss-marius export runs/mine --out embeddings");
}

} // namespace

void add_run_commands(programs::command_line& to) {
    add_eval(to);
    add_predict(to);
    add_export(to);
}

} // namespace marius
