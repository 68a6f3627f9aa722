// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_classification_commands.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/gnn/network.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/run_flags.hpp"
#include "kit/run/untrained.hpp"

namespace trainers {

namespace {

/// A trained run, opened read-only.
class trained_model {
public:
    /// Opens the run's best state, or the last one if none was kept; `other` is a graph to use instead of its own.
    trained_model(const node_classification_program& of, const run_flags& flags, const hidden_rows_flag& rows,
        const std::optional<std::filesystem::path>& other = {})
        : memory(flags.memory_bytes()),
          on(flags.executor()),
          run_(flags.run) {
        const std::filesystem::path& run = run_;
        trained_network opened = of.open(run, flags.dataset, flags.memory_bytes());
        how = std::move(opened.flags);
        state = std::move(opened.state);
        warn_if_unfinished(run, state);
        rows.change(how);
        own_ = std::move(opened.data);
        links = std::move(opened.links);
        net.emplace(how, links ? &*links : nullptr, input_of(*own_), own_->manifest());
        net->take(opened.saved);
        if (const auto partitioned = run / programs::checkpoint_directory / partitioned_name;
            std::filesystem::exists(partitioned))
            own_ = std::make_unique<gneiss::dataset>(partitioned);
        if (other) {
            programs::check_dataset(*other);
            other_ = std::make_unique<gneiss::dataset>(*other);
            refuse_other_features(own_->features(), other_->features(), *other);
        }
    }

    [[nodiscard]] const gneiss::dataset& trained_on() const { return *own_; }
    [[nodiscard]] const gneiss::dataset& data() const { return other_ ? *other_ : *own_; }

    /// Computes the scores of all nodes.
    void operator()(const gneiss::embedding_block_visitor& visit, const std::stop_token& stop) {
        const gneiss::node_features features = inputs();
        for_each_block(source(features, memory_left(gneiss::memory_budget(memory), memory), stop), visit);
    }

    /// Calls use(rows, memory) with the outputs of all nodes, and the bytes left besides them.
    template <class Use>
    void with_outputs(const std::stop_token& stop, Use&& use) {
        const std::uint64_t left = memory_left(gneiss::memory_budget(memory), memory);
        const gneiss::node_features features = inputs();
        const network_outputs outputs = infer(source(features, left / 4 * 3, stop));
        use(stoppable_rows(outputs.rows(), stop), left - outputs.bytes());
    }

    /// Returns the order of exported nodes.
    [[nodiscard]] id_order order() const {
        return {data(), scratch_of(run_), memory_left(gneiss::memory_budget(memory), memory) / 4};
    }

    node_classification_options how;
    std::optional<link_options> links; ///< none: the run classifies nodes
    run_state state;
    std::optional<network> net;
    std::uint64_t memory;
    gneiss::tbb_executor on;

private:
    [[nodiscard]] gneiss::node_features inputs() const {
        gneiss::node_features features = data().features();
        if (*how.normalize_features) features.normalize_rows();
        return features;
    }
    [[nodiscard]] classifier_source source(
        const gneiss::node_features& features, std::uint64_t bytes, const std::stop_token& stop) {
        return {how, *net, data(), features, choose_engine(how).make, scratch_of(run_), on, bytes, stop};
    }

    std::filesystem::path run_;
    std::unique_ptr<gneiss::dataset> own_, other_;
};

struct split_flags : eval_flags, hidden_rows_flag {};

programs::exit_code eval_links(const node_classification_program& of, const split_flags& flags, trained_model& trained,
    const std::stop_token& stop) {
    if (flags.split == "train")
        throw programs::usage_error("--on train is for node tasks: of edges, evaluate valid or test");
    flags.eval_flags::change(*trained.links);
    const gneiss::bucket_store buckets = trained.data().buckets();
    warn_of_untrained_edges(trained.data(), buckets, flags.split, false, stop);
    programs::metric_values values;
    std::string scope;
    trained.with_outputs(stop, [&](stoppable_rows rows, std::uint64_t memory) {
        const link_evaluation ranking{*trained.links, trained.how.seed, trained.data(), buckets, trained.net->scorer(),
            trained.on, memory, stop, flags.k, {}, !flags.candidates};
        values = ranking(flags.split, std::move(rows));
        scope = ranking.scope(flags.split);
    });
    report_metrics(of.program, flags, trained.state, flags.split, values, "edges", scope, trained.how.dataset);
    return programs::exit_code::done;
}

programs::exit_code eval(const node_classification_program& of, const split_flags& flags) {
    const programs::interrupt_guard interrupts;
    trained_model trained(of, flags, flags);
    if (trained.links) return eval_links(of, flags, trained, interrupts.token());
    if (flags.change_ranking())
        throw programs::usage_error("--eval-negatives, --eval-negatives-by-degree, --eval-edges, --eval-candidates, "
                                    "--candidates and --k are for --task link");
    const node_truth truth(trained.data());
    node_metrics metrics(trained.data().nodes_of(split_named(flags.split)), truth);
    trained(
        [&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i) metrics.add(static_cast<gneiss::node_id>(first + i), some[i]);
        },
        interrupts.token());
    report_metrics(of.program, flags, trained.state, flags.split, metrics.values(), "nodes", metrics.scope(flags.split),
        trained.how.dataset, metrics.per_class(flags.split, trained.data()));
    return programs::exit_code::done;
}

struct predict_flags : run_flags, node_flags, query_flags, answer_format, hidden_rows_flag {
    std::optional<std::filesystem::path> graph;
};

programs::exit_code predict(
    const node_classification_program& of, const predict_flags& flags, const programs::command& given) {
    const programs::interrupt_guard interrupts;
    trained_model trained(of, flags, flags, flags.graph);
    trained.data().verify_labels();
    if (of.predicts_links) refuse_other_queries(trained.links.has_value(), flags, flags, given);
    if (trained.links) {
        const auto queries = read_queries(trained.data(), flags, flags.memory_bytes());
        const gneiss::bucket_store buckets = trained.data().buckets();
        trained.with_outputs(interrupts.token(), [&](stoppable_rows rows, std::uint64_t memory) {
            const link_prediction answer{of.program, trained.data(), buckets, trained.net->scorer(), flags, trained.on,
                memory, interrupts.token(), false, trained.state, flags.format};
            answer(queries, std::move(rows), flags.json);
        });
        return programs::exit_code::done;
    }
    const auto asked = requested_nodes(trained.data(), flags, flags.memory_bytes());
    predict_classes(
        of.program, {trained.data(), trained.trained_on(), trained.order(), trained.state}, asked,
        [&](const gneiss::embedding_block_visitor& visit) { trained(visit, interrupts.token()); }, flags.format,
        flags.json);
    return programs::exit_code::done;
}

struct export_flags : run_flags, export_choice, hidden_rows_flag {
    std::filesystem::path out;
    std::optional<std::filesystem::path> graph;
    std::string format = "npy";
    bool force = false;
};

programs::exit_code export_run(const node_classification_program& of, const export_flags& flags) {
    export_directory out(flags.out, flags.force);
    const programs::interrupt_guard interrupts;
    trained_model trained(of, flags, flags, flags.graph);
    const std::string what = flags.what.value_or(trained.links ? "embeddings" : "predictions");
    if (what == "predictions" && trained.links) throw programs::usage_error(predictions_need);
    trained.net->keep_first(flags.layers(trained.net->encode.layers()));
    trained.data().verify_labels();
    if (what == "edges")
        return finish_edges(of.program,
            {trained.data(), scratch_of(flags.run), memory_left(gneiss::memory_budget(trained.memory), trained.memory)},
            trained.data().buckets(), interrupts.token(), out, flags.json);
    const std::size_t dim = trained.net->encode.outputs();
    if (what == "predictions")
        export_predictions(
            {trained.data(), trained.trained_on(), trained.order(), trained.state},
            [&](const gneiss::embedding_block_visitor& visit) { trained(visit, interrupts.token()); },
            trained.net->weights, flags.format, out.begin());
    else
        trained.with_outputs(interrupts.token(), [&](stoppable_rows rows, std::uint64_t memory) {
            export_embeddings({trained.data(), scratch_of(flags.run), memory}, std::move(rows),
                {trained.net->relations.values(), &trained.net->weights}, flags.format, out.begin());
        });
    finish_rows(of.program, what, trained.data().manifest().nodes, dim, trained.state, out, flags.json);
    return programs::exit_code::done;
}

void add_eval(programs::command_line& to, const node_classification_program& of) {
    const auto flags = std::make_shared<split_flags>();
    programs::command& command =
        to.add("eval", "Evaluates a trained run on a split, with all neighbors in the whole graph.",
            [of, flags](programs::command&) { return eval(of, *flags); });
    if (of.predicts_links) {
        flags->eval_flags::add_to(command, "split of edges or nodes; train: of nodes", {"train", "valid", "test"});
    } else {
        flags->run_flags::add_to(command);
        command.option("on", flags->split, "split to evaluate").choices({"train", "valid", "test"}).formerly("split");
    }
    flags->hidden_rows_flag::add_to(command);
    command.example(of.program + " eval runs/mine --on valid");
}

void add_predict(programs::command_line& to, const node_classification_program& of) {
    const auto flags = std::make_shared<predict_flags>();
    programs::command& command = to.add("predict",
        of.predicts_links ? "Predicts node labels, the best tails or heads of edges, or similar nodes."
                          : "Predicts node labels.",
        [of, flags](programs::command& given) { return predict(of, *flags, given); });
    flags->run_flags::add_to(command);
    flags->answer_format::add_to(command);
    flags->node_flags::add_to(command);
    if (of.predicts_links) {
        command.group("Edges");
        flags->query_flags::add_to(command);
    }
    command.group("Graph");
    command.option("graph", flags->graph, graph_help).value_name("DATASET");
    flags->hidden_rows_flag::add_to(command);
    if (of.predicts_links)
        command.common({"dataset", "memory", "threads", "json", "format", "node", "node-file", "head", "tail",
            "relation", "queries", "similar", "k", "candidates", "graph"});
    command.example(of.program + " predict runs/mine --node ann,bob");
}

void add_export(programs::command_line& to, const node_classification_program& of) {
    const auto flags = std::make_shared<export_flags>();
    programs::command& command =
        to.add("export", "Writes class probabilities, embeddings or hidden outputs of all nodes, with their names.",
            [of, flags](programs::command&) { return export_run(of, *flags); });
    flags->run_flags::add_to(command);
    command.option("out", flags->out, "output directory").value_name("DIR").required();
    flags->export_choice::add_to(command, of.predicts_links ? "by the task" : "predictions");
    command
        .option("format", flags->format,
            "npy: an array and a table of names; safetensors: it and the weights in one file; tsv: a name and its "
            "values "
            "per line")
        .choices({"npy", "safetensors", "tsv"});
    command.option("graph", flags->graph, graph_help).value_name("DATASET");
    flags->hidden_rows_flag::add_to(command);
    command.option("force", flags->force, "replace an existing export at --out").transient();
    command.example(of.program + " export runs/mine --out classes");
}

} // namespace

void add_node_classification_commands(programs::command_line& to, const node_classification_program& of) {
    add_eval(to, of);
    add_predict(to, of);
    add_export(to, of);
}

} // namespace trainers
