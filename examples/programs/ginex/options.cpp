// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kit/cli/machine.hpp"
#include "kit/run/configuration.hpp"
#include "kit/run/warm_start.hpp"

namespace ginex {

namespace {

/// The systems that Ginex is compared with (VLDB'22, section 5.1), and unnamed ones of ours: the plan chooses what a
/// preset leaves open.
struct preset {
    std::string_view name, topology, feature_cache, pipeline;
    bool carry;
};
constexpr std::array<preset, 5> presets{{
    {"pyg+", "mmap", "mmap", "conventional", true},
    {"ali+pg", "disk", "static", "conventional", true},
    {"ginex-pg", "disk", "static", "alternate", false},
    {"ginex", "disk", "belady", "alternate", false},
    {"memory", "memory", "memory", "conventional", true},
}};

void take(std::optional<std::string>& flag, std::string_view value, std::string_view name, std::string_view preset) {
    if (flag && *flag != value)
        throw programs::usage_error(fmt::format("--preset {} is --{} {}, not {}", preset, name, value, *flag));
    flag = value;
}

/// Flags of link prediction, with their values if they are not given. Runs from before they were there have none.
const std::vector<std::pair<const char*, nlohmann::ordered_json>> of_links{{"decoder", nullptr}, {"dim", nullptr},
    {"loss", "softmax"}, {"reduction", "sum"}, {"margin", 1.0}, {"regularizer", nullptr},
    {"regularizer-weight", nullptr}, {"reciprocal", nullptr}, {"relation-init", ""}, {"negatives", nullptr},
    {"chunks", nullptr}, {"negatives-by-degree", 0.0}, {"candidates", "all"}, {"filter-negatives", false},
    {"log-q-correction", nullptr}, {"row-optimizer", nullptr}, {"row-lr", nullptr}, {"eval-negatives", nullptr},
    {"eval-edges", nullptr}, {"valid-edges", nullptr}, {"eval-negatives-by-degree", 0.5}, {"eval-candidates", nullptr}};

/// Throws usage_error for flags that the task does not use.
void refuse_unused(const options& o) {
    if (o.links()) {
        if (o.node_task) throw programs::usage_error("--node-task is for --task node");
        if (o.class_weights) throw programs::usage_error("--class-weights is for --task node");
        return;
    }
    const trainers::configuration<options> given("", o);
    for (const auto& [name, usual] : of_links)
        if (const auto value = given.command().at(name).value(); !value.is_null() && value != usual)
            throw programs::usage_error(fmt::format("--{} is for --task link", name));
}

/// Sets defaults of link prediction on given features.
void resolve_edges(options& o, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    trainers::warm_flags before(o);
    before.take("layers", o.layers);
    before.take("direction", o.direction);
    before.take("normalize-features", o.normalize_features);
    before.take("dim", o.dim);
    before.take("decoder", o.decoder);
    before.take("reciprocal", o.reciprocal);
    if (graph.train_edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = data.directory()});
    if (graph.node_attributes.features == 0)
        throw gneiss::error(gneiss::errc::invalid_argument,
            "has no node features: gneiss-mariusgnn --inputs rows learns embeddings", {.path = data.directory()});
    if (o.device != "cpu") throw programs::usage_error("--task link is for --device cpu");
    o.resolve_placement(data);
    if (!o.normalize_features) o.normalize_features = data.has("features.indptr");
    o.resolve_direction(data);
    o.keep_input(o.eval_candidates);
    o.trainers::gnn_options::resolve_links(o, graph);
    o.check_stop_metric({"mrr", "hits@1", "hits@3", "hits@10"});
    o.resolve_staleness(0);
    o.resolve_sampling(graph, "linear", graph.valid_edges != 0);
}

} // namespace

void options::add_to(programs::command& to) {
    add_dataset(to);
    to.option("task", task, "link prediction or node classification")
        .choices({"link", "node"})
        .default_text("node")
        .added_later();
    add_node_task(to);
    to.group("Model");
    add_layers(to);
    add_dropout(to);
    add_model(to, "none", false);
    to.group("Training");
    to.option("epochs", epochs, "passes over edges or nodes").range(1).default_text("from the graph");
    to.option("batch", batch, "edges or nodes per batch").range(1).default_text("1000; links: by graph");
    add_sampling(to);
    add_negatives(to);
    add_optimizer(
        to, "adam; with --task link adagrad", "0.01; links 0.1, warm start 0.025", "constant; with --task link linear");
    add_class_weights(to);
    add_row_optimizer(to, "relations");
    to.option("seed", seed, "random seed");
    add_budget(to);
    to.option(
          "preset", preset, "systems of the paper, or memory: sets --topology, --feature-cache, --pipeline and --carry")
        .choices({"pyg+", "ali+pg", "ginex-pg", "ginex", "memory"})
        .default_text("none")
        .neutral();
    to.option("topology", topology, "location of the adjacency")
        .choices({"disk", "mmap", "memory"})
        .default_text("memory if all fits, else disk")
        .neutral();
    to.option("feature-cache", feature_cache, "cache policy of features, or their location")
        .choices({"belady", "lru", "s3fifo", "static", "none", "mmap", "memory"})
        .default_text("memory if all fits, else belady")
        .neutral();
    to.option("pipeline", pipeline,
          "overlap: samples the next superbatch while one trains; alternate: in turns; conventional: no superbatches")
        .choices({"overlap", "alternate", "conventional"})
        .default_text("overlap with belady")
        .neutral();
    to.option("cache-split", cache_split, "fraction of the caches' memory for neighbors")
        .range(0, 1)
        .default_text("from a profile")
        .neutral();
    to.option("neighbor-rank", adjacency_cache_score,
          "score of cached neighbors: out-degree / in-degree, or visits / bytes in a profile")
        .formerly("neighbour-rank")
        .choices({"ratio", "visits"})
        .default_text("ratio; visits if undirected")
        .neutral();
    to.option("superbatch", superbatch, "batches sampled ahead").range(1).default_text("from --run-files").neutral();
    to.option("run-files", run_files, "disk space for two superbatches")
        .default_text("10GiB, a tenth of the free space")
        .neutral();
    to.option("carry", carry, "keep cached rows from one superbatch to the next")
        .default_text("true, false with alternate")
        .neutral();
    to.option("gather", gather,
          "reads of the rows that belady misses; scan: one pass for all batches of a superbatch; random: each at its "
          "place")
        .choices({"auto", "scan", "random"})
        .default_text("auto: the faster one")
        .neutral();
    to.option("neighbor-reads", neighbor_reads,
          "reads of neighbors on disk; scan: one pass for each hop of many batches of a superbatch; random: each batch "
          "alone")
        .choices({"auto", "scan", "random"})
        .default_text("auto: the faster one")
        .neutral();
    to.option("gather-threads", gather_threads, "threads that wait for pages with mmap")
        .range(1, 1024)
        .default_text("4 per CPU")
        .neutral();
    add_disk(to);
    add_device(to);
    add_placement(to);
    to.option("threads", threads, "threads that compute batches").range(0, 1024).default_text("all CPUs").neutral();
    to.option("batches-in-flight", in_flight,
          "batches with rows in memory: the one that is computed and those gathered ahead")
        .range(1, 64)
        .default_text("2")
        .neutral();
    add_evaluation(to);
    add_ranking(to);
    for (const auto& [name, usual] : of_links) to.at(name).added_later(usual);
    add_output(to, "gneiss-ginex");
    to.common({"task", "layers", "fanout", "epochs", "batch", "lr", "seed", "memory", "topology", "feature-cache",
        "superbatch", "device", "threads", "eval-every", "out", "resume", "force", "dry-run"});
    to.example("gneiss-ginex train data/mine --memory 2GiB --out runs/mine");
}

options resolve(const options& given, const gneiss::dataset& data) {
    options o = given;
    refuse_unused(o);
    if (!o.links() && data.manifest().node_attributes.classes == 0)
        throw gneiss::error(gneiss::errc::invalid_argument,
            "has no node labels: gneiss-data import --labels adds them, and --task link predicts edges",
            {.path = data.directory(), .field = "labels"});
    if (o.links())
        resolve_edges(o, data);
    else
        o.resolve_node_classification(data);
    if (o.preset) {
        const auto& of = *std::ranges::find(presets, *o.preset, &preset::name);
        take(o.topology, of.topology, "topology", of.name);
        take(o.feature_cache, of.feature_cache, "feature-cache", of.name);
        take(o.pipeline, of.pipeline, "pipeline", of.name);
        if (!o.carry) o.carry = of.carry;
    }
    const bool sparse = data.has("features.indptr");
    if (sparse && o.feature_cache && *o.feature_cache != "memory")
        throw programs::usage_error(fmt::format("--feature-cache {} needs rows of one size, but the features are "
                                                "sparse: use memory, or import them with --project N",
            *o.feature_cache));
    if (o.feature_cache && o.pipeline) {
        const bool online = *o.feature_cache == "lru" || *o.feature_cache == "s3fifo";
        if (*o.feature_cache == "belady" && *o.pipeline == "conventional")
            throw programs::usage_error("--feature-cache belady needs superbatches: --pipeline overlap or alternate");
        if (online && *o.pipeline == "alternate")
            throw programs::usage_error(fmt::format(
                "--feature-cache {} does not work with --pipeline alternate, where caches take turns in memory",
                *o.feature_cache));
    }
    if (o.feature_place == "tier" && !o.feature_cache && o.pipeline && o.superbatches()) o.feature_cache = "belady";
    if (!o.tier_by_change_sets()) o.refuse_cache_beside_place(o.feature_cache);
    if (o.sample_on == "gpu") {
        if (o.topology && *o.topology != "memory")
            throw programs::usage_error(fmt::format(
                "--sample-on gpu copies the graph from memory: use --topology memory, not {}", *o.topology));
        if (o.pipeline && *o.pipeline != "conventional")
            throw programs::usage_error(fmt::format(
                "--sample-on gpu draws each batch on demand: use --pipeline conventional, not {}", *o.pipeline));
        if (o.feature_cache && *o.feature_cache == "belady")
            throw programs::usage_error(
                "--sample-on gpu draws each batch on demand, but --feature-cache belady needs superbatches");
        o.topology = "memory";
        o.pipeline = "conventional";
    }
    if (!o.gather) o.gather = "auto";
    if (!o.neighbor_reads) o.neighbor_reads = "auto";
    if (!o.gather_threads) o.gather_threads = 4 * programs::usable_cpus();
    if (!o.in_flight) o.in_flight = 2;
    return o;
}

gneiss::superbatch_schedule options::pipeline_schedule() const {
    return *pipeline == "overlap"  ? gneiss::superbatch_schedule::overlap
        : *pipeline == "alternate" ? gneiss::superbatch_schedule::alternate
                                   : gneiss::superbatch_schedule::conventional;
}

} // namespace ginex
