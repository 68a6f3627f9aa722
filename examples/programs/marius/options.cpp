#include "options.hpp"

#include <algorithm>

#include "common/machine.hpp"

namespace marius {

void options::add_to(programs::command& to) {
    add_dataset(to);
    to.group("Model");
    add_model(to, "n3; none for dot, transe");
    to.group("Training");
    to.option("epochs", epochs, "passes over the edges").range(1).default_text("from the graph");
    to.option("batch", batch, "edges of a batch").range(1).default_text("from the graph");
    add_negatives(to);
    to.option("optimizer", optimizer, "of rows and relations").choices({"sgd", "adagrad", "adam"});
    to.option("lr", lr, "learning rate");
    to.option("lr-schedule", lr_schedule, "how it changes from epoch to epoch, to 0 at the end or not").choices({"constant", "linear", "cosine", "step"});
    to.option("step-at", step_at, "rows step when applied, or on the batch's copy as the paper does").choices({"update", "compute"});
    to.option("async-relations", async_relations, "relations are as stale as nodes; loses accuracy");
    to.option("batch-from", batch_from, "batches mix a state's buckets, or take one after the other").choices({"state", "bucket"});
    to.option("seed", seed, "of all randomness");
    add_memory(to, "of edge buckets: beta, beta-randomized, comet, comet-balanced, comet-beta, hilbert, hilbert-symmetric, row-major, searched, memory, or a file of \"i j\" lines", "beta-randomized");
    add_execution(to);
    add_validation(to, "a fifth of the epochs");
    add_ranking(to);
    to.option("early-stop", early_stop, "stop after N validations without a better MRR; 0: never");
    add_output(to, "gneiss-marius");
}

void options::resolve(const gneiss::dataset_manifest& graph) {
    const std::uint64_t edges = graph.train_edges;
    resolve_model(graph, "n3");
    make_absolute(init);
    make_order_absolute();
    if (!dim) dim = 100;
    if (*decoder == "complex" && *dim % 2 != 0)
        throw programs::usage_error("--dim " + std::to_string(*dim) + " is odd: ComplEx rows are pairs of floats");
    if (async_relations && device == "cuda") throw programs::usage_error("--async-relations is for --device cpu");
    if (!batch) batch = edges < 4'000'000 ? 1000 : edges < 100'000'000 ? 10'000 : 50'000;
    // About ten million examples: small graphs are passed many times, huge ones a few.
    if (!epochs) epochs = std::clamp<std::uint64_t>(edges == 0 ? 1 : 10'000'000 / edges, 3, 40);
    resolve_staleness(gneiss::ceil_div(edges, *batch));
    resolve_negatives(graph, *batch, *dim);
    if (node_init.empty()) node_init = "normal:0,0.1";
    if (!eval_every) eval_every = std::max<std::uint64_t>(1, *epochs / 5);
    if (threads == 0) threads = programs::usable_cpus();
    (void)node_initializer();
    (void)relation_initializer();
}

gneiss::embedding_trainer_options options::training_options() const {
    gneiss::embedding_trainer_options result;
    result.batch_edges = *batch;
    result.batch_from = batch_from == "state" ? gneiss::batch_scope::state : gneiss::batch_scope::bucket;
    result.negatives = negative_options();
    result.step_at = step_at == "update" ? gneiss::step_place::update : gneiss::step_place::compute;
    result.async_relations = async_relations;
    result.pipeline = pipeline_options();
    result.seed = seed;
    return result;
}

} // namespace marius
