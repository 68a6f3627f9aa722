#include "options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/machine.hpp"

namespace hanoi {

void options::add_to(programs::command& to) {
    add_dataset(to);
    to.group("Model");
    add_layers(to);
    add_dropout(to);
    to.group("Training");
    to.option("epochs", epochs, "passes over the training nodes").range(1).default_text("from the graph");
    to.option("batch", batch, "nodes of a batch").range(1).default_text("1000");
    to.option("sampler", sampler, "neighbour: anew at every hop; dense: a node's neighbours once per batch").choices({"neighbour", "dense"});
    add_neighbours(to);
    add_optimizer(to, "adam", "0.01");
    to.option("lr-schedule", lr_schedule, "how rates change from epoch to epoch").choices({"constant", "linear", "cosine", "step"}).default_text("constant");
    to.option("seed", seed, "of all randomness");
    to.group("Macro-batches");
    to.option("partitioner", partitioner, "given: the dataset's partitions; random: others; file: --assignment").choices({"given", "random", "file"}).default_text("given where a partitioner made them, else random");
    to.option("assignment", assignment, "integers [nodes], .npy: the partition of each node, as gneiss-data partition writes them").value_name("FILE");
    to.option("partitions", partitions, "of --partitioner random").range(1, 16383).default_text("the dataset's");
    to.option("hubs", hubs, "integers, .npy: nodes that stay in memory all run; 0: none").value_name("FILE|0").default_text("the dataset's");
    to.option("macro", macro, "partitions that come and go together").range(1).default_text("as many as memory holds twice");
    to.option("reuse", reuse, "passes over a macro-batch at most, while the next one is on its way; 1: never again").range(1, 4);
    to.option("reuse-plan", reuse_plan, "passes as an earlier run's reuse.json recorded them, whatever the disk does").value_name("FILE");
    to.group("Memory and disk");
    to.option("memory", memory, "budget; kept, or refused with exit code 3").default_text("what is free");
    to.option("io-engine", io_engine, "auto tries io_uring").choices({"auto", "uring", "threads"});
    to.option("throttle", throttle, "bytes a second at most: stands for a slower disk").default_text("no limit");
    add_execution(to);
    to.group("Evaluation");
    to.option("eval-every", eval_every, "epochs between validations; 0: at the end only").default_text("from the graph");
    to.option("no-eval", no_eval, "no validation, no test");
    to.option("early-stop", stop_early, "stop after N validations without a better one and take the best; 0: never").default_text("from the graph");
    add_output(to, "gneiss-hanoi");
}

void options::resolve(const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const auto need = [&](bool there, const char* what, const char* field) {
        if (!there) throw gneiss::error(gneiss::errc::invalid_argument, what, {.path = data.directory(), .field = field});
    };
    need(graph.node_data.classes != 0, "has no classes of nodes: gneiss-data import --labels", "labels");
    need(graph.node_data.train != 0, "has no nodes to train on", "split");
    need(graph.node_data.features != 0, "has no features of nodes", "features");
    if (!partitioner) partitioner = assignment ? "file" : graph.partition_sizes.empty() || partitions ? "random" : "given";
    if (assignment.has_value() != (*partitioner == "file")) throw programs::usage_error("--assignment FILE.npy is for --partitioner file, which needs it");
    if (partitions && *partitioner != "random") throw programs::usage_error("--partitions is for --partitioner random: others say how many there are");
    if (!partitions && *partitioner == "random") partitions = std::max(graph.partitions - graph.pinned, 1U);
    if (!normalize_features) normalize_features = data.has("features.indptr");
    resolve_direction(data);
    resolve_classes(graph, epochs, batch, eval_every);
    if (!attention_dropout) attention_dropout = 0;
    if (!lr_schedule) lr_schedule = "constant";
    resolve_fanout(graph);
    early_stop = *stop_early;
    if (threads == 0) threads = programs::usable_cpus();
    try { // a fan-out and layers that do not fit, a layer that cannot be
        gneiss::validate(hops(), gneiss::hops_of(layer_options(1)));
    } catch (const gneiss::error& e) {
        throw programs::usage_error(e.what());
    }
}

gneiss::graph_training_options options::training_options() const {
    gneiss::graph_training_options made;
    made.batch = *batch;
    made.neighbours = {.fanout = hops(), .replace = false, .relations = false, .edge_ids = false};
    made.sampler = sampler == "dense" ? gneiss::neighbour_sampling::dense : gneiss::neighbour_sampling::layered;
    made.pipeline = pipeline_options();
    made.seed = seed;
    return made;
}

} // namespace hanoi
