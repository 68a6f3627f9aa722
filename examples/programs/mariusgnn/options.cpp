// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "kit/gnn/node_metrics.hpp"
#include "kit/run/configuration.hpp"
#include "kit/run/warm_start.hpp"

namespace mariusgnn {

namespace {

constexpr const char* of_links[] = {"decoder", "loss", "reduction", "margin", "regularizer", "regularizer-weight",
    "reciprocal", "relation-init", "negatives", "chunks", "negatives-by-degree", "filter-negatives", "log-q-correction",
    "batch-from", "exclude-target-edges", "eval-negatives", "eval-edges", "valid-edges", "eval-negatives-by-degree",
    "eval-candidates", "candidates"};
constexpr const char* of_rows[] = {"node-init", "init"};
constexpr const char* of_rows_and_links[] = {"dim", "row-optimizer", "row-lr"};

bool has_features(const gneiss::dataset_manifest& graph) { return graph.node_attributes.features != 0; }

} // namespace

void options::add_to(programs::command& to) {
    add_dataset(to);
    add_freeze(to, {"nodes", "relations", "weights"});
    to.option("task", task, "link prediction or node classification")
        .choices({"link", "node"})
        .default_text("node if nodes have labels");
    add_node_task(to);
    to.group("Model");
    add_layers(to);
    to.option("inputs", inputs, "rows: learned embeddings; features; or both, concatenated")
        .choices({"rows", "features", "both"})
        .default_text("features if there are any");
    add_dropout(to);
    add_model(to, "none");
    to.group("Training");
    to.option("epochs", epochs, "passes over the edges, or the training nodes").range(1).default_text("from the graph");
    to.option("batch", batch, "edges or nodes per batch").range(1).default_text("from the graph");
    add_sampling(to);
    to.option("exclude-target-edges", exclude_target_edges, "exclude the edges that the batch predicts from sampling")
        .formerly("hide-batch-edges")
        .default_text("with --task link, unless a GPU samples");
    add_coverage(to, "with --task node, if few nodes train, on the CPU");
    add_negatives(to);
    add_optimizer(
        to, "adam; with --task link adagrad", "0.01; links 0.1, warm start 0.025", "constant; with --task link linear");
    add_class_weights(to);
    add_row_optimizer(to, "embeddings and relations");
    to.option("batch-from", batch_from, "batches of edges mix a state's buckets, or take them one by one")
        .choices({"state", "bucket"});
    to.option("seed", seed, "random seed");
    add_memory(to,
        "comet, comet-balanced, beta, beta-randomized, … or a file of \"i j\" lines; training-first for node "
        "classification",
        "comet; training-first");
    to.option("training-first", training_first,
          "node classification: copy the graph with training nodes in the first partitions")
        .default_text("on disk, if it saves reads");
    to.option("reshuffle", reshuffle,
          "epochs between new random partitions of the nodes, each a pass over graph and embeddings; 0: never")
        .value_name("N")
        .default_text("1 with --task link, if the buffer holds some partitions only, and they cut many edges");
    add_execution(to);
    add_placement(to);
    add_validation(to, "from the graph");
    add_eval_graph(to, eval_graph, eval_fanout);
    add_hidden_rows(to);
    add_ranking(to);
    add_early_stop(to);
    add_output(to, "gneiss-mariusgnn");
    to.common({"task", "layers", "fanout", "dim", "epochs", "batch", "negatives", "lr", "memory", "store", "device",
        "threads", "out", "resume", "force", "dry-run"});
    to.example("gneiss-mariusgnn train data/mine --layers sage:128,sage:128 --fanout 10,10 --out runs/mine");
}

void add_eval_graph(programs::command& to, std::string& graph, std::optional<std::string>& fanout) {
    to.option("eval-graph", graph, "neighbors from the whole graph, or those in the buffer")
        .choices({"full", "resident"})
        .neutral();
    to.option("eval-fanout", fanout, "neighbors per hop, for resident").value_name("N,N").default_text("all").neutral();
}

namespace {

/// Throws usage_error for flags that neither task nor inputs use.
void refuse_unused(const options& o) {
    const trainers::configuration<options> given("", o), fresh("", {});
    const auto refuse = [&](std::span<const char* const> flags, const std::string& why) {
        for (const char* name : flags)
            if (given.command().at(name).value() != fresh.command().at(name).value())
                throw programs::usage_error(fmt::format("--{} is for {}", name, why));
    };
    if (!o.links()) refuse(of_links, "--task link");
    if (!o.uses_rows()) refuse(of_rows, "embeddings: give --inputs rows or both");
    if (!o.uses_rows() && !o.links()) refuse(of_rows_and_links, "embeddings: give --inputs rows or both");
    if (!o.uses_features() && o.normalize_features)
        throw programs::usage_error("--normalize-features is for --inputs features or both");
    if (o.links() && o.node_task) throw programs::usage_error("--node-task is for --task node");
    if (o.links() && o.class_weights) throw programs::usage_error("--class-weights is for --task node");
    if (o.links() && o.training_first) throw programs::usage_error("--training-first is for --task node");
    if (o.training_first.value_or(false) && o.init)
        throw programs::usage_error("--training-first reorders nodes, which --init does not support: leave one out");
    if (o.eval_graph == "resident" && o.hidden_rows != "f32") throw programs::usage_error(hidden_rows_need);
    if (o.eval_fanout && o.eval_graph != "resident") throw programs::usage_error(eval_fanout_needs);
}

} // namespace

options resolve(const options& given, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    options o = given;
    o.resolve_placement(data);
    if (o.init && o.warm_start) throw programs::usage_error(trainers::init_and_warm_start);
    trainers::warm_flags before(o);
    before.take("task", o.task);
    before.take("inputs", o.inputs);
    before.take("layers", o.layers);
    before.take("direction", o.direction);
    if (!o.task) o.task = graph.node_attributes.classes != 0 && graph.node_attributes.train != 0 ? "node" : "link";
    if (!o.links() && graph.node_attributes.classes == 0)
        throw gneiss::error(gneiss::errc::invalid_argument,
            "has no node labels: --task node needs them (gneiss-data import --labels)", {.path = data.directory()});
    if (!o.links() && graph.node_attributes.train == 0)
        throw gneiss::error(
            gneiss::errc::invalid_argument, "has no training nodes", {.path = data.directory(), .field = "split"});
    if (o.links() && graph.train_edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = data.directory()});
    if (!o.inputs) o.inputs = has_features(graph) ? "features" : "rows";
    if (o.uses_features() && !has_features(graph))
        throw gneiss::error(gneiss::errc::invalid_argument, "has no features: use --inputs rows to learn embeddings",
            {.path = data.directory()});
    if (o.uses_features()) before.take("normalize-features", o.normalize_features);
    if (o.uses_rows() || o.links()) before.take("dim", o.dim);
    if (o.links()) {
        before.take("decoder", o.decoder);
        before.take("reciprocal", o.reciprocal);
    }
    refuse_unused(o);
    if (o.candidates != "all" && o.reshuffles() != 0)
        throw programs::usage_error(
            "--candidates " + o.candidates + " does not work with --reshuffle: candidates keep their ids");
    if (o.order && *o.order != "memory" && (*o.order == training_first) == o.links())
        throw programs::usage_error(fmt::format("--order {} is not for --task {}{}", *o.order, *o.task,
            o.links() ? "" : ": use training-first, or memory (all partitions at once)"));
    if (o.feature_place != "host") {
        if (!o.uses_features())
            throw programs::usage_error(
                fmt::format("--feature-place {} is for --inputs features or both", o.feature_place));
        if (o.uses_rows() && o.store != "device")
            throw programs::usage_error(fmt::format(
                "--feature-place {} needs --store device for the embeddings of --inputs both", o.feature_place));
        if (o.eval_graph == "resident")
            throw programs::usage_error(
                fmt::format("--feature-place {} does not go with --eval-graph resident", o.feature_place));
    }
    if (o.uses_features() && !o.normalize_features) o.normalize_features = data.has("features.indptr");
    o.resolve_direction(data);
    o.resolve_coverage(!o.links() && trainers::few_train(graph));
    if (o.links() && !o.exclude_target_edges) o.exclude_target_edges = true;
    if (o.uses_rows() || o.links()) {
        if (!o.dim) o.dim = o.links() ? 100 : 64;
        if (!o.row_optimizer) o.row_optimizer = "adagrad";
        if (!o.row_lr) o.row_lr = 0.1 * (o.links() && o.warm_start ? trainers::warm_rate : 1);
    }
    o.keep_input(o.init);
    o.keep_input(o.eval_candidates);
    o.make_order_absolute();
    o.check_logical(o.links() ? "comet" : training_first);
    if (o.uses_rows()) {
        if (o.node_init.empty()) o.node_init = o.links() ? "normal:0,0.1" : "glorot";
        (void)o.node_initializer();
    }
    if (o.links())
        o.resolve_links(o, graph);
    else
        o.resolve_classes(graph);
    if (!o.links()) o.resolve_node_task(graph);
    o.check_stop_metric(
        o.links() ? std::vector<std::string>{"mrr", "hits@1", "hits@3", "hits@10"} : trainers::metrics_of(graph));
    if (!o.links()) o.select_states_by(data);
    if (!o.reshuffle && (!o.links() || o.candidates != "all" || *o.epochs == 1)) o.reshuffle = 0;
    o.resolve_staleness(
        o.uses_rows() ? gneiss::ceil_div(o.links() ? graph.train_edges : graph.node_attributes.train, *o.batch) : 0);
    o.resolve_sampling(
        graph, o.links() ? "linear" : "constant", (o.links() ? graph.valid_edges : graph.node_attributes.valid) != 0);
    if (o.eval_fanout) o.eval_fanout = o.fanout_of_hops(*o.eval_fanout);
    std::vector<std::string> trained{"weights"};
    if (o.uses_rows()) trained.emplace_back("nodes");
    if (o.links() && *o.decoder != "dot") trained.emplace_back("relations");
    o.resolve_freeze(trained);
    return o;
}

gneiss::gnn_options options::training_options() const {
    gneiss::gnn_options result = gnn_options::training_options();
    if (links()) {
        result.batch_from = batch_from == "state" ? gneiss::batch_scope::state : gneiss::batch_scope::bucket;
        result.negatives = negative_options();
        result.exclude_target_edges = exclude_target_edges.value_or(false);
    }
    return result;
}

} // namespace mariusgnn
