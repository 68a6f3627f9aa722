// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "kit/cli/exit_codes.hpp"

namespace joestar {

void options::add_to(programs::command& to) {
    add_training(to);
    add_layer_schedule(to);
    to.group("Macro-batches");
    to.option("first-stage", first_stage,
          "lbs: a macro-batch is the neighborhood of a large batch; pbs: some partitions, with histories of the nodes "
          "around them; single: each batch is sampled in the whole graph")
        .choices({"lbs", "pbs", "single"});
    to.option("second-stage", second_stage,
          "hops: a batch takes the neighbors that its nodes have in the macro-batch, hop by hop; union: it draws from "
          "those of all hops")
        .choices({"hops", "union"})
        .default_text("hops; union with --macro-fanout");
    to.option("macro", macro,
          "training nodes of a macro-batch, with pbs partitions: a number, a percentage, or auto: as many as fit")
        .value_name("auto|X%|N");
    to.option("macro-fanout", macro_fanout,
          "neighbors that a macro-batch has of each hop, more than --fanout, which batches draw from them")
        .default_text("those of --fanout");
    to.option("partitions", partitions, "pbs: partitions that GAP makes")
        .range(1, 16383)
        .default_text("the dataset's, else 64, less for a small graph");
    to.option("assignment", assignment, "pbs: integers [nodes], .npy or one per line: the partition of each node")
        .value_name("FILE");
    to.option("halo", halo,
          "pbs: nodes outside of a macro-batch next to it, in the first layer: drop: they are left out; feature: their "
          "features are read")
        .choices({"drop", "feature"})
        .default_text("drop");
    to.option("history", history, "pbs: type of the activations that higher layers read of them")
        .choices({"f32", "f16"})
        .default_text("f32");
    to.option("history-age", history_age,
          "pbs: oldest activations that are read, in macro-batches since they were computed; 0: none")
        .range(0, 1'000'000'000)
        .default_text("any");
    to.option("history-store", history_store,
          "pbs: location of those activations; device: the device's memory; memory: with --device cuda pinned, which "
          "kernels read and write over the bus; disk: a file, and those of a macro-batch in memory, or on the device")
        .choices({"memory", "disk", "device"})
        .default_text("memory if they fit, else disk; with --device cuda device if they fit in half of it, else those");
    to.option("ahead", ahead,
          "pbs: off: a macro-batch has all nodes of its partitions; reach: those within the hops of its training "
          "nodes; "
          "exact: those that its batches draw, which are drawn ahead")
        .choices({"off", "reach", "exact"})
        .default_text("exact; reach with --sample-on gpu");
    to.option("delta", delta, "rows that the macro-batch before has stay in memory, and are not read again").neutral();
    add_budget(to);
    to.option("topology", topology, "location of the adjacency")
        .choices({"disk", "memory"})
        .default_text("memory if all fits, else disk")
        .neutral();
    to.option("feature-cache", feature_cache, "location of the features; none: on disk")
        .choices({"none", "memory"})
        .default_text("memory if all fits, else none")
        .neutral();
    add_disk(to);
    add_device(to);
    add_placement(to);
    to.option("threads", threads, "threads that compute batches").range(0, 1024).default_text("all CPUs").neutral();
    to.option("batches-in-flight", in_flight,
          "batches with rows in memory: the one that is computed and those gathered ahead")
        .range(1, 64)
        .neutral();
    add_evaluation(to);
    add_output(to, "gneiss-joestar");
    to.common({"layers", "fanout", "epochs", "batch", "lr", "first-stage", "macro", "memory", "device-memory",
        "threads", "out", "resume", "force", "dry-run"});
    to.example("gneiss-joestar train data/mine --memory 2GiB --out runs/mine");
}

std::optional<std::uint64_t> options::macro_of(std::uint64_t all) const {
    if (macro == "auto") return std::nullopt;
    const char* const what = by_partitions() ? "partitions" : "training nodes";
    programs::count_or_percent wanted;
    try {
        wanted = programs::parse_count_or_percent(macro);
    } catch (const programs::usage_error&) {
        throw programs::usage_error(
            fmt::format("--macro {}: expected auto, a number of {}, or a percentage like 12.5%", macro, what));
    }
    if (wanted == programs::count_or_percent{} || wanted.percent == 0.0)
        throw programs::usage_error(fmt::format("--macro {}: give at least one of {} {}", macro, all, what));
    if (by_partitions() && !wanted.percent && wanted.count > all)
        throw programs::usage_error(fmt::format("--macro {}: there are {} partitions", macro, all));
    return std::min(std::max<std::uint64_t>(wanted.of(all), 1), all);
}

gneiss::hop_fanout all_of(gneiss::hop_fanout hop) {
    for (std::uint32_t* count : {&hop.in, &hop.out, &hop.both})
        if (*count != 0) *count = gneiss::all_neighbors;
    return hop;
}

gneiss::history_options options::histories() const {
    return {.most_age = history_age.value_or(gneiss::history_options{}.most_age),
        .type = history == "f16" ? gneiss::feature_type::f16 : gneiss::feature_type::f32,
        .halo_features = halo == "feature"};
}

gneiss::neighbor_options options::first_hops() const {
    gneiss::neighbor_options result = neighbor_options();
    if (macro_fanout) result.fanout = gneiss::parse_fanout(*macro_fanout, neighbors());
    if (!by_partitions() || sampled() == gneiss::sampled_ahead::exact) return result;
    const auto hops = sampled() == gneiss::sampled_ahead::off ? std::size_t{1} : result.fanout.size();
    result.fanout.resize(hops);
    for (gneiss::hop_fanout& hop : result.fanout) hop = all_of(hop);
    return result;
}

gneiss::neighbor_options options::second_hops() const {
    gneiss::neighbor_options result = neighbor_options();
    if (!macro_fanout && !by_partitions())
        std::ranges::fill(result.fanout, gneiss::hop_fanout{.in = gneiss::all_neighbors});
    return result;
}

namespace {

/// Chooses the flags of partitions.
void resolve_partitions(options& o, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    if (o.second_stage || o.macro_fanout)
        throw programs::usage_error(
            "--first-stage pbs draws batches from whole lists of neighbors: it does not go with "
            "--second-stage and --macro-fanout");
    if (o.device == "cpu" && o.history_store == "device" && !o.resume) // a run that began there goes on in memory
        throw programs::usage_error("--history-store device is for --device cuda, which reads histories there");
    if (o.sample_on == "gpu" && o.ahead == "exact")
        throw programs::usage_error(
            "--ahead exact draws batches ahead on the CPU: it does not go with --sample-on gpu, use --ahead reach");
    for (const gneiss::hop_fanout& hop : o.hops())
        if (hop.in != 0 && hop.out != 0)
            throw programs::usage_error(
                "--first-stage pbs draws from one list of a node: it does not go with a fan-out like 5+5");
    if (o.partitions && o.assignment)
        throw programs::usage_error("--partitions is for partitions that GAP makes: --assignment fixes their number");
    if (o.makes_partitions(graph) && *o.node_task != "classes")
        throw programs::usage_error(
            fmt::format("--first-stage pbs partitions by gap, which needs classes, and {} has none: give --assignment "
                        "FILE, as gneiss-data partition --partitioner semi writes it",
                data.directory().string()));
    const std::uint64_t most = std::max<std::uint64_t>(graph.nodes / 2, 1);
    if (o.partitions && *o.partitions > most)
        throw programs::usage_error(fmt::format("--partitions {}: at most half the number of nodes; {} has {}",
            *o.partitions, data.directory().string(), graph.nodes));
    if (o.makes_partitions(graph) && !o.partitions)
        o.partitions = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(graph.nodes / 256, 1, 64));
    o.keep_input(o.assignment);
    if (!o.halo) o.halo = "drop";
    if (!o.history) o.history = "f32";
    if (!o.ahead) o.ahead = o.sample_on == "gpu" ? "reach" : "exact";
    if (o.makes_partitions(graph)) (void)o.macro_of(*o.partitions);
}

/// Chooses the flags of large batches, or of none.
void resolve_large_batches(options& o, const gneiss::dataset_manifest& graph) {
    if (o.partitions || o.assignment || o.halo || o.history || o.history_age || o.history_store || o.ahead)
        throw programs::usage_error("--partitions, --assignment, --halo, --history, --history-age, --history-store and "
                                    "--ahead are for --first-stage pbs");
    if (o.single()) {
        if (o.second_stage || o.macro_fanout || o.macro != "auto")
            throw programs::usage_error(
                "--first-stage single has no macro-batches: it does not go with --second-stage, --macro and "
                "--macro-fanout");
    } else {
        if (!o.second_stage) o.second_stage = o.macro_fanout ? "union" : "hops";
        if (o.macro_fanout) {
            if (*o.second_stage != "union")
                throw programs::usage_error(
                    "--macro-fanout is for --second-stage union: a batch of --second-stage hops takes all of it");
            o.macro_fanout = o.fanout_of_hops(*o.macro_fanout);
            for (const gneiss::hop_fanout& hop : o.hops())
                if (hop.in != 0 && hop.out != 0)
                    throw programs::usage_error(
                        "--macro-fanout draws from one list of a node: it does not go with a fan-out like 5+5");
        }
        if (const auto nodes = o.macro_of(graph.node_attributes.train);
            nodes && *nodes < std::min<std::uint64_t>(*o.batch, graph.node_attributes.train))
            throw programs::usage_error(
                fmt::format("--macro {}: a macro-batch of {} training nodes is less than a batch of {}", o.macro,
                    *nodes, *o.batch));
    }
}

} // namespace

options resolve(const options& given, const gneiss::dataset& data) {
    options o = given;
    o.resolve_node_classification(data);
    const gneiss::dataset_manifest& graph = data.manifest();
    if (!o.single() && o.sampler != "neighbor")
        throw programs::usage_error(fmt::format("macro-batches are sampled by --sampler neighbor, not {}", o.sampler));
    if (o.by_partitions())
        resolve_partitions(o, data);
    else
        resolve_large_batches(o, graph);
    o.stages_features = !o.single();
    if (o.stages_features && o.feature_place != "host" && o.feature_place != "device")
        throw programs::usage_error(fmt::format(
            "--feature-place {} is for --first-stage single: the features of a macro-batch are on the host, "
            "or with --feature-place device on the device",
            o.feature_place));
    if (!o.stages_features) o.refuse_cache_beside_place(o.feature_cache);
    if (o.single() && o.sample_on == "gpu" && o.topology && *o.topology != "memory")
        throw programs::usage_error("--sample-on gpu copies the graph from memory: use --topology memory");
    if (o.single() && o.sample_on == "gpu") o.topology = "memory";
    if (data.has("features.indptr") && o.feature_cache && *o.feature_cache != "memory")
        throw programs::usage_error(
            "--feature-cache none needs rows of one size, but the features are sparse: use memory, or import them with "
            "--project N");
    return o;
}

} // namespace joestar
