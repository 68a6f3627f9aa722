// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/gnn_commands.hpp"

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/signals.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/link_queries.hpp"
#include "kit/run/untrained.hpp"

namespace trainers {

namespace {

/// A run of a network on given features.
class trained_on_features final : public trained_gnn {
public:
    /// Opens the run's best state, or the last one if none was kept; `other` is a graph to use instead of its own.
    trained_on_features(const network_opener& open, const run_flags& flags, const hidden_rows_flag& rows,
        const std::optional<std::filesystem::path>& other)
        : trained_gnn(flags.memory_bytes()) {
        trained_network opened = open(flags.run, flags.dataset, memory);
        scratch = scratch_of(flags.run);
        how_ = std::move(opened.flags);
        state = std::move(opened.state);
        warn_of_state(flags.run, state);
        rows.change(how_);
        own_ = std::move(opened.data);
        links_ = std::move(opened.links);
        features_ = opened.features;
        if (opened.learned != 0) {
            if (other)
                throw programs::usage_error("--graph is for runs whose inputs are features: this run learned a row for "
                                            "each node of its own graph");
            learned_.emplace(budget.charge(classifier::rows_need(how_, own_->manifest().nodes, opened.learned)));
        }
        net_.emplace(how_, links(), input_of(*own_, opened.learned, opened.features), own_->manifest());
        net_->learned = opened.learned;
        net_->add_rows(how_, own_->manifest().nodes);
        net_->take(opened.saved);
        if (const auto partitioned = flags.run / programs::checkpoint_directory / partitioned_name;
            std::filesystem::exists(partitioned))
            own_ = std::make_unique<gneiss::dataset>(partitioned);
        if (other) {
            programs::check_dataset(*other);
            other_ = std::make_unique<gneiss::dataset>(*other);
            refuse_other_features(own_->features(), other_->features(), *other);
        }
    }

    [[nodiscard]] const gnn_options& flags() const override { return how_; }
    [[nodiscard]] link_options* links() override { return links_ ? &*links_ : nullptr; }
    [[nodiscard]] network& net() override { return *net_; }
    [[nodiscard]] bool learns_rows() const override { return learned_.has_value(); }
    [[nodiscard]] const gneiss::dataset& trained_on() const override { return *own_; }
    [[nodiscard]] const gneiss::dataset& data() const override { return other_ ? *other_ : *own_; }
    [[nodiscard]] const gneiss::bucket_store& buckets() override {
        if (!buckets_) buckets_.emplace(data().buckets());
        return *buckets_;
    }

    void with_outputs(const gneiss::tbb_executor& on, const std::stop_token& stop,
        const std::function<void(stoppable_rows rows, std::uint64_t bytes)>& use) override {
        const std::uint64_t bytes = left();
        const gneiss::node_features features = inputs();
        const network_outputs outputs = infer(source(features, on, bytes / 4 * 3, stop));
        use(stoppable_rows(outputs.rows(), stop), bytes - outputs.bytes());
    }
    void for_each_block(const gneiss::tbb_executor& on, const std::stop_token& stop,
        const gneiss::embedding_block_visitor& visit) override {
        const gneiss::node_features features = inputs();
        trainers::for_each_block(source(features, on, left(), stop), visit);
    }

private:
    [[nodiscard]] gneiss::node_features inputs() const {
        if (!features_) return {};
        gneiss::node_features features = data().features();
        if (*how_.normalize_features) features.normalize_rows();
        return features;
    }
    [[nodiscard]] classifier_source source(const gneiss::node_features& features, const gneiss::tbb_executor& on,
        std::uint64_t bytes, const std::stop_token& stop) {
        return {how_, *net_, data(), features, choose_engine(how_).make, scratch, on, bytes, stop};
    }

    node_classification_options how_;
    std::optional<link_options> links_;
    bool features_ = true;                         // of inputs
    std::optional<gneiss::memory_charge> learned_; // of its rows; none: it has none
    std::optional<network> net_;
    std::unique_ptr<gneiss::dataset> own_, other_;
    std::optional<gneiss::bucket_store> buckets_;
};

/// Evaluates the edges of a split, whose scope it adds to.
programs::metric_values rank(
    const gnn_eval_flags& flags, trained_gnn& trained, const std::stop_token& stop, std::string& scope) {
    const gneiss::bucket_store& buckets = trained.buckets();
    warn_of_untrained_edges(trained.data(), buckets, flags.split, trained.learns_rows(), stop);
    programs::metric_values values;
    const gneiss::tbb_executor on = flags.executor();
    trained.with_outputs(on, stop, [&](stoppable_rows rows, std::uint64_t bytes) {
        const link_evaluation ranking{*trained.links(), trained.flags().seed, trained.data(), buckets,
            trained.net().scorer(), on, bytes, stop, flags.k, {}, !flags.candidates};
        values = ranking(flags.split, std::move(rows));
        scope = ranking.scope(flags.split);
    });
    return values;
}

struct predict_flags : run_flags, node_flags, query_flags, answer_format, hidden_rows_flag {
    std::optional<std::filesystem::path> graph;
};

programs::exit_code predict(const gnn_program& of, const predict_flags& flags, const programs::command& given) {
    const programs::interrupt_guard interrupts;
    const std::stop_token stop = interrupts.token();
    const std::unique_ptr<trained_gnn> trained = of.open(flags, flags, flags.graph);
    const gneiss::dataset& data = trained->data();
    data.verify_labels();
    if (of.predicts_links) refuse_other_queries(trained->links() != nullptr, flags, flags, given);
    const gneiss::tbb_executor on = flags.executor();
    if (trained->links() == nullptr) {
        const auto asked = requested_nodes(data, flags, trained->memory); // reports unknown nodes before the work
        predict_classes(
            of.program, {data, trained->trained_on(), {data, trained->scratch, trained->left() / 4}, trained->state},
            asked, [&](const gneiss::embedding_block_visitor& visit) { trained->for_each_block(on, stop, visit); },
            flags.format, flags.json);
        return programs::exit_code::done;
    }
    const auto queries = read_queries(data, flags, trained->memory);
    const gneiss::bucket_store& buckets = trained->buckets();
    trained->with_outputs(on, stop, [&](stoppable_rows rows, std::uint64_t bytes) {
        const link_prediction answer{of.program, data, buckets, trained->net().scorer(), flags, on, bytes, stop,
            trained->learns_rows(), trained->state, flags.format};
        answer(queries, std::move(rows), flags.json);
    });
    return programs::exit_code::done;
}

struct export_flags : run_flags, export_choice, hidden_rows_flag {
    std::filesystem::path out;
    std::optional<std::filesystem::path> graph;
    std::string format = "npy";
    bool force = false;
};

programs::exit_code export_run(const gnn_program& of, const export_flags& flags) {
    export_directory out(flags.out, flags.force);
    const programs::interrupt_guard interrupts;
    const std::stop_token stop = interrupts.token();
    const std::unique_ptr<trained_gnn> trained = of.open(flags, flags, flags.graph);
    network& net = trained->net();
    const gneiss::dataset& data = trained->data();
    const std::string what = flags.what.value_or(trained->links() != nullptr ? "embeddings" : of.what_of_nodes);
    if (what == "predictions" && trained->links() != nullptr) throw programs::usage_error(predictions_need);
    net.keep_first(flags.layers(net.encode.layers()));
    data.verify_labels();
    if (what == "edges")
        return finish_edges(
            of.program, {data, trained->scratch, trained->left()}, trained->buckets(), stop, out, flags.json);
    const gneiss::tbb_executor on = flags.executor();
    if (what == "predictions")
        export_predictions(
            {data, trained->trained_on(), {data, trained->scratch, trained->left() / 4}, trained->state},
            [&](const gneiss::embedding_block_visitor& visit) { trained->for_each_block(on, stop, visit); },
            net.weights, flags.format, out.begin());
    else
        trained->with_outputs(on, stop, [&](stoppable_rows rows, std::uint64_t bytes) {
            export_embeddings({data, trained->scratch, bytes}, std::move(rows), {net.relations.values(), &net.weights},
                flags.format, out.begin());
        });
    finish_rows(of.program, what, data.manifest().nodes, net.encode.outputs(), trained->state, out, flags.json);
    return programs::exit_code::done;
}

void add_predict(programs::command_line& to, const gnn_program& of) {
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

void add_export(programs::command_line& to, const gnn_program& of) {
    const auto flags = std::make_shared<export_flags>();
    programs::command& command =
        to.add("export", of.exports, [of, flags](programs::command&) { return export_run(of, *flags); });
    flags->run_flags::add_to(command);
    command.option("out", flags->out, "output directory").value_name("DIR").required();
    const bool by_task = of.predicts_links && of.what_of_nodes != "embeddings";
    flags->export_choice::add_to(command, by_task ? "by the task" : of.what_of_nodes);
    command.option("format", flags->format, of.formats).choices({"npy", "safetensors", "tsv"});
    command.option("graph", flags->graph, graph_help).value_name("DATASET");
    flags->hidden_rows_flag::add_to(command);
    command.option("force", flags->force, "replace an existing export at --out").transient();
    command.example(of.program + " export runs/mine --out " + of.exported);
}

} // namespace

programs::exit_code evaluate(
    const std::string& program, const gnn_eval_flags& flags, trained_gnn& trained, const std::stop_token& stop) {
    programs::metric_values values;
    std::string scope;
    nlohmann::ordered_json per_class;
    link_options* const links = trained.links();
    if (links != nullptr) {
        if (flags.split == "train")
            throw programs::usage_error("--on train is for node tasks: of edges, evaluate valid or test");
        flags.eval_flags::change(*links);
        values = rank(flags, trained, stop, scope);
    } else {
        if (flags.change_ranking())
            throw programs::usage_error("--eval-negatives, --eval-negatives-by-degree, --eval-edges, "
                                        "--eval-candidates, --candidates and --k are for --task link");
        const node_truth truth(trained.data());
        node_metrics metrics(trained.data().nodes_of(split_named(flags.split)), truth);
        trained.for_each_block(flags.executor(), stop, [&](std::uint64_t first, gneiss::matrix_view<const float> some) {
            for (std::size_t i = 0; i < some.rows(); ++i) metrics.add(static_cast<gneiss::node_id>(first + i), some[i]);
        });
        values = metrics.values();
        scope = metrics.scope(flags.split);
        per_class = metrics.per_class(flags.split, trained.data());
    }
    report_metrics(program, flags, trained.state, flags.split, values, links != nullptr ? "edges" : "nodes", scope,
        trained.flags().dataset, per_class);
    return programs::exit_code::done;
}

void add_predict_and_export(programs::command_line& to, const gnn_program& of) {
    add_predict(to, of);
    add_export(to, of);
}

void add_gnn_commands(
    programs::command_line& to, const std::string& program, bool predicts_links, const network_opener& open) {
    const auto flags = std::make_shared<gnn_eval_flags>();
    programs::command& command =
        to.add("eval", "Evaluates a trained run on a split, with all neighbors in the whole graph.",
            [program, open, flags](programs::command&) {
                const programs::interrupt_guard interrupts;
                trained_on_features trained(open, *flags, *flags, {});
                return evaluate(program, *flags, trained, interrupts.token());
            });
    if (predicts_links) {
        flags->eval_flags::add_to(command, "split of edges or nodes; train: of nodes", {"train", "valid", "test"});
    } else {
        flags->run_flags::add_to(command);
        command.option("on", flags->split, "split to evaluate").choices({"train", "valid", "test"}).formerly("split");
    }
    flags->hidden_rows_flag::add_to(command);
    command.example(program + " eval runs/mine --on valid");
    add_predict_and_export(to,
        {.program = program,
            .predicts_links = predicts_links,
            .open = [open](const run_flags& of, const hidden_rows_flag& rows,
                        const std::optional<std::filesystem::path>& graph) {
                return std::make_unique<trained_on_features>(open, of, rows, graph);
            }});
}

} // namespace trainers
