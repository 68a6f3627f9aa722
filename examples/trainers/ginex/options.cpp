#include "options.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/machine.hpp"

namespace ginex {

namespace {

/// The systems that Ginex is compared with (VLDB'22, section 5.1), and ours without names: what a user leaves out of a preset is
/// chosen by the plan.
struct preset {
    std::string_view name, topology, feature_cache, pipeline, carry;
};
constexpr std::array<preset, 5> presets{{
    {"pyg+", "mmap", "mmap", "conventional", "on"},
    {"ali+pg", "disk", "static", "conventional", "on"},
    {"ginex-pg", "disk", "static", "alternate", "off"},
    {"ginex", "disk", "belady", "alternate", "off"},
    {"memory", "memory", "memory", "conventional", "on"},
}};

void take(std::optional<std::string>& flag, std::string_view value, std::string_view name, std::string_view preset) {
    if (flag && *flag != value)
        throw programs::usage_error(fmt::format("--preset {} is --{} {}, not {}", preset, name, value, *flag));
    flag = value;
}

} // namespace

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
    to.group("Memory and disk");
    to.option("memory", memory, "budget; kept, or refused with exit code 3").default_text("what is free");
    to.option("preset", preset, "the systems of the paper: sets the next three").choices({"pyg+", "ali+pg", "ginex-pg", "ginex", "memory"}).default_text("none");
    to.option("topology", topology, "where neighbours are read").choices({"disk", "mmap", "memory"}).default_text("memory if all fits, else disk");
    to.option("feature-cache", feature_cache, "which rows stay in memory, or: none, mmap, memory for all").choices({"belady", "lru", "s3fifo", "static", "none", "mmap", "memory"}).default_text("memory if all fits, else belady");
    to.option("pipeline", pipeline, "superbatches sampled beside training or in turns with it, or none").choices({"overlap", "alternate", "conventional"}).default_text("overlap with belady");
    to.option("cache-split", cache_split, "share of the caches' memory for neighbours").range(0, 1).default_text("from a profile");
    to.option("neighbour-rank", neighbour_rank, "whose neighbours are cached: out- by in-degree, or visits by bytes in a profile").choices({"ratio", "visits"}).default_text("ratio; visits where undirected");
    to.option("superbatch", superbatch, "batches sampled ahead").range(1).default_text("from --run-files");
    to.option("run-files", run_files, "disk for at most two superbatches").default_text("10GiB, a tenth of what is free");
    to.option("carry", carry, "cached rows stay from one superbatch to the next").choices({"on", "off"}).default_text("on, off with alternate");
    to.option("gather-threads", gather_threads, "that wait for pages with mmap").range(1, 1024).default_text("4 for each CPU");
    to.option("io-engine", io_engine, "auto tries io_uring").choices({"auto", "uring", "threads"});
    to.option("throttle", throttle, "bytes a second at most: stands for a slower disk").default_text("no limit");
    to.group("Execution");
    to.option("device", device, "where batches are computed").choices({"cpu", "cuda"});
    to.option("threads", threads, "at work in a batch").range(0, 1024).default_text("all CPUs");
    to.option("batches-in-flight", in_flight, "whose rows are in memory: the one that is computed, those gathered ahead").range(1, 64).default_text("2");
    to.group("Evaluation");
    to.option("eval-every", eval_every, "epochs between validations; 0: at the end only").default_text("from the graph");
    to.option("no-eval", no_eval, "no validation, no test");
    to.option("early-stop", stop_early, "stop after N validations without a better one and take the best; 0: never").default_text("from the graph");
    add_output(to, "gneiss-ginex");
}

void options::resolve(const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const auto need = [&](bool there, const char* what, const char* field) {
        if (!there) throw gneiss::error(gneiss::errc::invalid_argument, what, {.path = data.directory(), .field = field});
    };
    need(graph.node_data.classes != 0, "has no classes of nodes: gneiss-data import --labels", "labels");
    need(graph.node_data.train != 0, "has no nodes to train on", "split");
    need(graph.node_data.features != 0, "has no features of nodes", "features");
    if (preset) {
        const auto& of = *std::ranges::find(presets, *preset, &preset::name);
        take(topology, of.topology, "topology", of.name);
        take(feature_cache, of.feature_cache, "feature-cache", of.name);
        take(pipeline, of.pipeline, "pipeline", of.name);
        if (!carry) carry = of.carry;
    }
    const bool sparse = data.has("features.indptr");
    if (sparse && feature_cache && *feature_cache != "memory")
        throw programs::usage_error(fmt::format("--feature-cache {} is for rows of one size, and these features are sparse: memory, or import them with --project N", *feature_cache));
    if (!normalize_features) normalize_features = sparse;
    if (feature_cache && pipeline) {
        const bool online = *feature_cache == "lru" || *feature_cache == "s3fifo";
        if (*feature_cache == "belady" && *pipeline == "conventional")
            throw programs::usage_error("--feature-cache belady needs superbatches: --pipeline overlap or alternate");
        if (online && *pipeline == "alternate")
            throw programs::usage_error(fmt::format("--feature-cache {} does not survive --pipeline alternate, where caches take turns in memory", *feature_cache));
    }
    resolve_direction(data);
    resolve_classes(graph, epochs, batch, eval_every);
    if (!attention_dropout) attention_dropout = 0;
    if (!lr_schedule) lr_schedule = "constant";
    resolve_fanout(graph);
    early_stop = *stop_early;
    if (threads == 0) threads = programs::usable_cpus();
    if (!gather_threads) gather_threads = 4 * programs::usable_cpus();
    if (!in_flight) in_flight = 2;
    try { // a fan-out and layers that do not fit, a layer that cannot be
        gneiss::validate(hops(), gneiss::hops_of(layer_options(1)));
    } catch (const gneiss::error& e) {
        throw programs::usage_error(e.what());
    }
}

gneiss::superbatch_schedule options::schedule() const {
    return *pipeline == "overlap" ? gneiss::superbatch_schedule::overlap
           : *pipeline == "alternate" ? gneiss::superbatch_schedule::alternate
                                      : gneiss::superbatch_schedule::conventional;
}

} // namespace ginex
