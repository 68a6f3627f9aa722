// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/run_flags.hpp"
#include "kit/run/untrained.hpp"
#include "trained_model.hpp"

namespace mariusgnn {

namespace {

/// Outputs of all nodes, and the memory left for further work.
struct applied {
    inferred_rows rows;
    std::uint64_t memory; ///< bytes
};

/// Runs inference with three quarters of the remaining memory.
applied apply(
    trained_model& trained, const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    const std::uint64_t left = trainers::memory_left(trained.budget, memory);
    inferred_rows rows = trained.infer(executor, left / 4 * 3, stop);
    const std::uint64_t rest = left - rows.bytes();
    return {std::move(rows), rest};
}

/// Runs inference with the neighbors that are resident in training's states.
applied apply_resident(
    trained_model& trained, const gneiss::tbb_executor& executor, std::uint64_t memory, const std::stop_token& stop) {
    inferred_rows rows = trained.infer_resident(executor, memory, stop);
    return {
        std::move(rows), trainers::memory_left(trained.budget, memory)}; // the program's memory now includes the rows
}

struct eval_flags : trainers::eval_flags, trainers::hidden_rows_flag {
    std::string eval_graph = "full";
    std::optional<std::string> eval_fanout;
};

programs::exit_code eval(const eval_flags& flags) {
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    const bool resident = flags.eval_graph == "resident";
    if (flags.eval_fanout && !resident) throw programs::usage_error(eval_fanout_needs);
    if (flags.hidden_rows && resident) throw programs::usage_error(hidden_rows_need);
    trained_model trained(flags.run, memory, flags.dataset);
    trainers::warn_if_unfinished(flags.run, trained.state);
    flags.hidden_rows_flag::change(trained.how);
    if (flags.eval_fanout) {
        trained.how.eval_fanout = trained.how.fanout_of_hops(*flags.eval_fanout);
    }
    if (!trained.how.links() && flags.change_ranking())
        throw programs::usage_error("--eval-negatives, --eval-negatives-by-degree, --eval-edges, --eval-candidates, "
                                    "--candidates and --k are for --task link");
    if (trained.how.links() && flags.split == "train")
        throw programs::usage_error("--on train is for node tasks: of edges, evaluate valid or test");
    if (trained.how.links()) flags.trainers::eval_flags::change(trained.how);
    const auto executor = flags.executor();
    const applied by = (resident ? apply_resident : apply)(trained, executor, memory, interrupts.token());
    programs::metric_values values;
    std::string scope;
    nlohmann::ordered_json per_class;
    if (trained.how.links()) {
        trainers::warn_of_untrained_edges(
            trained.data(), trained.graph->buckets(), flags.split, trained.how.uses_rows(), interrupts.token());
        const trainers::link_evaluation ranking{trained.how, trained.how.seed, trained.data(), trained.graph->buckets(),
            trained.net->scorer(), executor, by.memory, interrupts.token(), flags.k, {}, !flags.candidates};
        values = ranking(flags.split, {*by.rows.rows, interrupts.token()});
        scope = ranking.scope(flags.split);
    } else {
        const trainers::node_truth truth(trained.data());
        node_metrics metrics(trained.data().nodes_of(trainers::split_named(flags.split)), truth);
        trainers::stoppable_rows rows(*by.rows.rows, interrupts.token());
        rows.for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i) metrics.add(static_cast<gneiss::node_id>(first + i), some[i]);
        });
        values = metrics.values();
        scope = metrics.scope(flags.split);
        per_class = metrics.per_class(flags.split, trained.data());
    }
    trainers::report_metrics(program, flags, trained.state, flags.split, values,
        trained.how.links() ? "edges" : "nodes", scope, trained.how.dataset, per_class);
    return programs::exit_code::done;
}

struct predict_flags : trainers::run_flags,
                       trainers::query_flags,
                       trainers::node_flags,
                       trainers::answer_format,
                       trainers::hidden_rows_flag {
    std::optional<std::filesystem::path> graph;
};

/// Returns rows as a stream that ends on a stop.
trainers::score_stream stream_of(const applied& by, const std::stop_token& stop) {
    return [&by, stop](const gneiss::embedding_block_visitor& visit) {
        trainers::stoppable_rows(*by.rows.rows, stop).for_each_block(visit);
    };
}

programs::exit_code predict(const predict_flags& flags, const programs::command& given) {
    const std::uint64_t memory = flags.memory_bytes();
    const programs::interrupt_guard interrupts;
    trained_model trained(flags.run, memory, flags.dataset, flags.graph);
    trainers::warn_if_unfinished(flags.run, trained.state);
    flags.change(trained.how);
    const gneiss::dataset& data = trained.data();
    data.verify_labels();
    trainers::refuse_other_queries(trained.how.links(), flags, flags, given);
    const auto executor = flags.executor();
    if (!trained.how.links()) {
        const auto asked = trainers::requested_nodes(data, flags, memory); // reports unknown nodes before the work
        const applied by = apply(trained, executor, memory, interrupts.token());
        trainers::predict_classes(program,
            {data, *trained.trained_on, {data, trainers::scratch_of(flags.run), by.memory}, trained.state}, asked,
            stream_of(by, interrupts.token()), flags.format, flags.json);
        return programs::exit_code::done;
    }
    const auto queries = trainers::read_queries(data, flags, memory);
    const applied by = apply(trained, executor, memory, interrupts.token());
    const trainers::link_prediction answer{program, data, trained.graph->buckets(), trained.net->scorer(), flags,
        executor, by.memory, interrupts.token(), trained.how.uses_rows(), trained.state, flags.format};
    answer(queries, {*by.rows.rows, interrupts.token()}, flags.json);
    return programs::exit_code::done;
}

struct export_flags : trainers::run_flags, trainers::export_choice, trainers::hidden_rows_flag {
    std::filesystem::path out;
    std::optional<std::filesystem::path> graph;
    std::string format = "npy";
    bool force = false;
};

programs::exit_code export_run(const export_flags& flags) {
    trainers::export_directory out(flags.out, flags.force);
    const programs::interrupt_guard interrupts;
    const std::uint64_t memory = flags.memory_bytes();
    trained_model trained(flags.run, memory, flags.dataset, flags.graph);
    trainers::warn_if_unfinished(flags.run, trained.state);
    flags.change(trained.how);
    const std::string what = flags.what.value_or("embeddings");
    const bool predictions = what == "predictions";
    if (predictions && trained.how.links()) throw programs::usage_error(trainers::predictions_need);
    trained.net->keep_first(flags.layers(trained.net->encode.layers()));
    const gneiss::dataset& data = trained.data();
    data.verify_labels();
    if (what == "edges")
        return trainers::finish_edges(program,
            {data, trainers::scratch_of(flags.run), trainers::memory_left(trained.budget, memory)},
            trained.graph->buckets(), interrupts.token(), out, flags.json);
    const auto executor = flags.executor();
    const applied by = apply(trained, executor, memory, interrupts.token());
    trainers::stoppable_rows rows(*by.rows.rows, interrupts.token());
    if (predictions)
        trainers::export_predictions(
            {data, *trained.trained_on, {data, trainers::scratch_of(flags.run), by.memory}, trained.state},
            stream_of(by, interrupts.token()), trained.net->weights, flags.format, out.begin());
    else
        trainers::export_embeddings({data, trainers::scratch_of(flags.run), by.memory}, rows,
            {trained.net->relations.values(), &trained.net->weights}, flags.format, out.begin());
    trainers::finish_rows(program, what, rows.rows(), rows.dim(), trained.state, out, flags.json);
    return programs::exit_code::done;
}

void add_eval(programs::command_line& to) {
    const auto flags = std::make_shared<eval_flags>();
    programs::command& command =
        to.add("eval", "Evaluates a trained run on a split.", [flags](programs::command&) { return eval(*flags); });
    flags->trainers::eval_flags::add_to(
        command, "split of edges or nodes; train: of nodes", {"train", "valid", "test"});
    add_eval_graph(command, flags->eval_graph, flags->eval_fanout);
    flags->hidden_rows_flag::add_to(command);
    command.example("gneiss-mariusgnn eval runs/mine --on valid");
}

void add_predict(programs::command_line& to) {
    const auto flags = std::make_shared<predict_flags>();
    programs::command& command =
        to.add("predict", "Predicts node labels, the best tails or heads of edges, or similar nodes.",
            [flags](programs::command& given) { return predict(*flags, given); });
    flags->run_flags::add_to(command);
    flags->answer_format::add_to(command);
    flags->node_flags::add_to(command);
    command.group("Edges");
    flags->query_flags::add_to(command);
    command.group("Graph");
    command.option("graph", flags->graph, trainers::graph_help).value_name("DATASET");
    flags->hidden_rows_flag::add_to(command);
    command.common({"dataset", "memory", "threads", "json", "format", "node", "node-file", "head", "tail", "relation",
        "queries", "similar", "k", "candidates", "graph"});
    command.example("gneiss-mariusgnn predict runs/mine --node ann,bob");
}

void add_export(programs::command_line& to) {
    const auto flags = std::make_shared<export_flags>();
    programs::command& command = to.add("export", "Writes the GNN's outputs for all nodes, with their names.",
        [flags](programs::command&) { return export_run(*flags); });
    flags->run_flags::add_to(command);
    command.option("out", flags->out, "output directory").value_name("DIR").required();
    flags->export_choice::add_to(command, "embeddings");
    command
        .option("format", flags->format,
            "npy: arrays and name tables; safetensors: these arrays and the weights in one file; tsv: a name and its "
            "values per line")
        .choices({"npy", "safetensors", "tsv"});
    command.option("graph", flags->graph, trainers::graph_help).value_name("DATASET");
    flags->hidden_rows_flag::add_to(command);
    command.option("force", flags->force, "replace an existing export at --out").transient();
    command.example("gneiss-mariusgnn export runs/mine --out embeddings");
}

} // namespace

void add_run_commands(programs::command_line& to) {
    add_eval(to);
    add_predict(to);
    add_export(to);
}

} // namespace mariusgnn
