// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "kit/run/warm_start.hpp"

namespace marius {

void options::add_to(programs::command& to) {
    add_dataset(to);
    add_freeze(to, {"nodes", "relations"});
    to.group("Model");
    add_model(to, "n3; none for dot, transe");
    to.at("dim").default_text("100; 200 for small knowledge graphs");
    to.group("Training");
    to.option("epochs", epochs, "passes over the edges").range(1).default_text("from the graph");
    to.option("batch", batch, "edges per batch").range(1).default_text("from the graph");
    add_negatives(to);
    to.option("optimizer", optimizer, "optimizer of embeddings and relations").choices({"sgd", "adagrad", "adam"});
    to.option("lr", lr, "learning rate").default_text("0.2; dot 0.05; warm start: a quarter");
    add_schedule(to, "linear");
    to.option("step-at", step_at, "optimizer steps when updates are applied, or on the batch's copy (as in the paper)")
        .choices({"update", "compute"});
    to.removed("replayed-queries", 0);
    to.option("async-relations", async_relations, "update relations as late as nodes; loses accuracy");
    to.option("batch-from", batch_from, "batches mix a state's buckets, or take them one by one")
        .choices({"state", "bucket"});
    to.option("seed", seed, "random seed");
    add_memory(to,
        "order of edge buckets: beta, beta-randomized, comet, comet-balanced, comet-beta, hilbert, hilbert-symmetric, "
        "row-major, searched, memory, or a file of \"i j\" lines",
        "comet-beta, or beta-randomized where comet-beta reads over an eighth more");
    add_execution(to);
    to.option("record", record, "--device cuda: from the second epoch on, launch each step as a recorded graph")
        .neutral();
    add_validation(to, "a tenth of the epochs");
    add_ranking(to);
    to.option("early-stop", early_stop,
          "stop after N validations without a better MRR; 0: never. The best state is kept anyway")
        .default_text(std::to_string(trainers::link_patience));
    add_output(to, "gneiss-marius");
    to.common({"decoder", "dim", "epochs", "batch", "negatives", "lr", "seed", "memory", "store", "partitions",
        "buffer", "device", "threads", "eval-every", "early-stop", "out", "resume", "force", "dry-run"});
    to.example("gneiss-marius train data/mine --epochs 20 --memory 2GiB --out runs/mine");
}

namespace {

/// Sets the floats per embedding and the negatives of a graph that no flag gives. Twice the width gained 0.007 MRR on
/// FB15k-237 and on WN18RR. Larger graphs keep the time of 100 floats: twice the width with half of the negatives
/// gained 0.029 on the graph of Debian packages (docs/results/defaults.md).
void resolve_width(options& o, const gneiss::dataset_manifest& graph) {
    if (o.dim) return;
    const bool relations = graph.relations > 1, small = relations && graph.nodes <= 50'000;
    if (small && graph.train_edges <= 500'000) {
        o.dim = graph.train_edges <= 100'000 ? 400 : 200;
    } else if (relations && graph.train_edges <= 2'000'000 && !o.negatives) {
        o.dim = 200;
        o.negatives = programs::count_or_all{.count = 500};
    } else {
        o.dim = 100;
    }
}

} // namespace

options resolve(const options& given, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const std::uint64_t edges = graph.train_edges;
    if (edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = data.directory()});
    options o = given;
    if (o.init && o.warm_start) throw programs::usage_error(trainers::init_and_warm_start);
    trainers::warm_flags before(o);
    before.take("decoder", o.decoder);
    before.take("dim", o.dim);
    before.take("reciprocal", o.reciprocal);
    o.resolve_model(graph, "n3");
    o.keep_input(o.init);
    o.keep_input(o.eval_candidates);
    o.make_order_absolute();
    o.check_logical("comet-beta");
    resolve_width(o, graph);
    if (*o.decoder == "complex" && *o.dim % 2 != 0)
        throw programs::usage_error("--dim " + std::to_string(*o.dim) + " is odd: ComplEx rows are pairs of floats");
    if (o.record && o.device == "cpu") {
        if (!o.resume) throw programs::usage_error("--record is for --device cuda");
        o.record = false; // of a run on a device
    }
    if (o.async_relations && o.device == "cuda") throw programs::usage_error("--async-relations is for --device cpu");
    if (!o.lr) o.lr = (*o.decoder == "dot" ? 0.05 : 0.2) * (o.warm_start ? trainers::warm_rate : 1);
    if (!o.batch) o.batch = edges < 4'000'000 ? 1000 : edges < 100'000'000 ? 10'000 : 50'000;
    // About ten million examples: many epochs for small graphs, few for huge ones.
    if (!o.epochs) o.epochs = std::clamp<std::uint64_t>(10'000'000 / edges, 3, 40);
    o.resolve_staleness(gneiss::ceil_div(edges, *o.batch));
    o.resolve_negatives(graph, *o.batch, *o.dim);
    if (o.node_init.empty()) o.node_init = "normal:0,0.1";
    if (!o.eval_every) o.eval_every = std::max<std::uint64_t>(1, *o.epochs / trainers::validations);
    const bool validates = o.validates(graph.valid_edges != 0);
    if (o.early_stop.value_or(0) != 0 && !validates)
        throw programs::usage_error(fmt::format("--early-stop compares validations, and {}",
            graph.valid_edges == 0 ? "the dataset has no edges for them: import it with --valid or --fractions"
                                   : "there are none: leave --no-eval and --eval-every 0 out"));
    o.resolve_schedule("linear", validates);
    o.resolve_validation(graph, *o.eval_every, o.early_stop.value_or(0) != 0 || o.lr_schedule == "plateau");
    if (!o.early_stop) o.early_stop = validates ? trainers::link_patience : 0;
    o.resolve_machine();
    o.resolve_freeze(
        *o.decoder == "dot" ? std::vector<std::string>{"nodes"} : std::vector<std::string>{"nodes", "relations"});
    (void)o.node_initializer();
    (void)o.relation_initializer();
    return o;
}

gneiss::marius_options options::training_options() const {
    gneiss::marius_options result;
    result.batch_edges = *batch;
    result.batch_from = batch_from == "state" ? gneiss::batch_scope::state : gneiss::batch_scope::bucket;
    result.negatives = negative_options();
    result.step_at = step_at == "update" ? gneiss::step_place::update : gneiss::step_place::compute;
    result.async_relations = async_relations;
    result.pipeline = pipeline_options();
    result.seed = seed;
    return result;
}

gneiss::any_link_model options::model() const {
    return gneiss::make_link_model(*decoder, loss, *dim, model_options(), static_cast<float>(margin));
}

double options::learning_rate(std::uint64_t epoch, double plateau) const {
    return *lr * (rate_factor(epoch, *epochs) * plateau);
}

gneiss::any_row_optimizer options::row_optimizer(std::uint64_t epoch, double plateau) const {
    return gneiss::make_row_optimizer(optimizer, static_cast<float>(learning_rate(epoch, plateau)));
}

} // namespace marius
