// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "kit/cli/exit_codes.hpp"

namespace joestar {

void options::add_to(programs::command& to) {
    add_training(to);
    to.group("Macro-batches");
    to.option("first-stage", first_stage,
          "lbs: samples the neighborhood of a large batch, a macro-batch; single: samples each batch in the whole "
          "graph")
        .choices({"lbs", "single"});
    to.option("second-stage", second_stage,
          "hops: a batch takes the neighbors that its nodes have in the macro-batch, hop by hop; union: it draws from "
          "those of all hops")
        .choices({"hops", "union"})
        .default_text("hops; union with --macro-fanout");
    to.option("macro", macro, "training nodes of a macro-batch: a number, a percentage, or auto: as many as fit")
        .value_name("auto|X%|N");
    to.option("macro-fanout", macro_fanout,
          "neighbors that a macro-batch has of each hop, more than --fanout, which batches draw from them")
        .default_text("those of --fanout");
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
    to.option("threads", threads, "threads that compute batches").range(0, 1024).default_text("all CPUs").neutral();
    to.option("batches-in-flight", in_flight,
          "batches with rows in memory: the one that is computed and those gathered ahead")
        .range(1, 64)
        .neutral();
    add_evaluation(to);
    add_output(to, "gneiss-joestar");
    to.common({"layers", "fanout", "epochs", "batch", "lr", "first-stage", "second-stage", "macro", "memory",
        "device-memory", "threads", "out", "resume", "force", "dry-run"});
    to.example("gneiss-joestar train data/mine --memory 2GiB --out runs/mine");
}

std::optional<std::uint64_t> options::macro_nodes(const gneiss::dataset_manifest& graph) const {
    if (macro == "auto") return std::nullopt;
    const std::uint64_t train = graph.node_attributes.train;
    try {
        return std::min(std::max<std::uint64_t>(programs::parse_count_or_percent(macro).of(train), 1), train);
    } catch (const programs::usage_error&) {
        throw programs::usage_error(
            fmt::format("--macro {}: expected auto, a number of training nodes, or a percentage like 12.5%", macro));
    }
}

gneiss::neighbor_options options::first_hops() const {
    gneiss::neighbor_options result = neighbor_options();
    if (macro_fanout) result.fanout = gneiss::parse_fanout(*macro_fanout, neighbors());
    return result;
}

gneiss::neighbor_options options::second_hops() const {
    gneiss::neighbor_options result = neighbor_options();
    if (!macro_fanout) std::ranges::fill(result.fanout, gneiss::hop_fanout{.in = gneiss::all_neighbors});
    return result;
}

options resolve(const options& given, const gneiss::dataset& data) {
    options o = given;
    o.resolve_node_classification(data);
    const gneiss::dataset_manifest& graph = data.manifest();
    if (o.single()) {
        if (o.second_stage || o.macro_fanout || o.macro != "auto")
            throw programs::usage_error(
                "--first-stage single has no macro-batches: it does not go with --second-stage, --macro and "
                "--macro-fanout");
    } else {
        if (o.sampler != "neighbor")
            throw programs::usage_error("macro-batches are sampled by --sampler neighbor, not dense");
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
        if (const auto nodes = o.macro_nodes(graph);
            nodes && *nodes < std::min<std::uint64_t>(*o.batch, graph.node_attributes.train))
            throw programs::usage_error(
                fmt::format("--macro {}: a macro-batch of {} training nodes is less than a batch of {}", o.macro,
                    *nodes, *o.batch));
    }
    if (data.has("features.indptr") && o.feature_cache && *o.feature_cache != "memory")
        throw programs::usage_error(
            "--feature-cache none needs rows of one size, but the features are sparse: use memory, or import them with "
            "--project N");
    return o;
}

} // namespace joestar
