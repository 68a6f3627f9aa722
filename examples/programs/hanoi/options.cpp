// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kit/cli/exit_codes.hpp"
#include "kit/graph/partitioners.hpp"

namespace hanoi {

void options::add_to(programs::command& to) {
    add_training(to);
    to.group("Macro-batches");
    std::vector<std::string> names{"given", "file"};
    for (const programs::partition_method& method : programs::partition_methods()) names.push_back(method.name);
    to.option(
          "partitioner", partitioner, "partitioner of the run; given: use the dataset's partitions; file: --assignment")
        .choices(names)
        .default_text("given if the dataset has partitions or fits in memory, else gap");
    to.option("assignment", assignment,
          "integers [nodes], .npy or one per line (METIS, KaHIP): the partition of each node, as gneiss-data partition "
          "writes them")
        .value_name("FILE");
    to.option("partitions", partitions, "partitions that a partitioner makes")
        .range(1, 16383)
        .default_text("from size and memory");
    to.option("hubs", hubs,
          "nodes pinned in memory: a number; a file of integers, .npy or one per line; 0: none; auto: 1% of the nodes "
          "within a quarter of --memory, if they have influence")
        .value_name("N|X%|FILE")
        .default_text("the dataset's, else auto with a partitioner");
    to.option("macro", macro, "partitions of a macro-batch")
        .range(1)
        .default_text("largest of which two fit in memory");
    to.option("reuse", reuse, "maximum passes over a macro-batch, as many as the first ones take to load; 1: no reuse")
        .range(1, 4);
    to.option("reuse-plan", reuse_plan, "use the passes in an earlier run's reuse.json, whatever the disk does")
        .value_name("FILE");
    add_coverage(to, "if few nodes train, on the CPU");
    to.group("Partitioner");
    partitioning.add_balance(to, "1.5 for gap, else off");
    partitioning.add_method(to, "gap without --initial: 10, or 1 if that finds no communities; else the partitioner's",
        "gap without --passes: none and semi, whichever cuts less");
    add_budget(to);
    add_disk(to);
    add_execution(to);
    add_placement(to);
    add_evaluation(to);
    add_output(to, "gneiss-hanoi");
    to.common({"layers", "fanout", "epochs", "batch", "lr", "partitioner", "partitions", "macro", "memory", "device",
        "threads", "out", "resume", "force", "dry-run"});
    to.example("gneiss-hanoi train data/mine --memory 2GiB --out runs/mine");
}

options resolve(const options& given, const gneiss::dataset& data) {
    options o = given;
    o.resolve_node_classification(data);
    const gneiss::dataset_manifest& graph = data.manifest();
    o.resolve_coverage(trainers::few_train(graph));
    if (!o.partitioner) {
        if (o.assignment)
            o.partitioner = "file";
        else if (!graph.partition_sizes.empty() && !o.partitions && o.partitioning.given().empty())
            o.partitioner = "given";
        else if (o.partitions || o.macro || o.hubs || !o.partitioning.given().empty())
            o.partitioner = "gap";
    }
    if (o.assignment.has_value() != (o.partitioner == "file"))
        throw programs::usage_error("--assignment FILE and --partitioner file need each other");
    if (o.partitions && !o.makes_parts())
        throw programs::usage_error("--partitions needs a partitioner: --partitioner given and file fix their number");
    if (o.partitions && *o.partitions > std::max<std::uint64_t>(graph.nodes / 2, 1))
        throw programs::usage_error(fmt::format("--partitions {}: at most half the number of nodes; {} has {}",
            *o.partitions, data.directory().string(), graph.nodes));
    if (o.partitioner && o.makes_parts())
        (void)o.partition_job();
    else if (const auto given_flags = o.partitioning.given(); !given_flags.empty())
        throw programs::usage_error(fmt::format(
            "--{} needs a partitioner: --partitioner {} makes no partitions", given_flags.front(), *o.partitioner));
    o.keep_input(o.assignment);
    if (const auto file = o.partitioning.initial_file())
        o.partitioning.initial = std::filesystem::absolute(*file).string();
    o.keep_input(o.reuse_plan);
    if (const auto chosen = o.choice_of_hubs(); chosen.file) o.hubs = std::filesystem::absolute(*chosen.file).string();
    if (o.partitioner) o.hubs = hubs_with(o, *o.partitioner, graph);
    return o;
}

std::optional<std::string> hubs_with(
    const options& o, const std::string& partitioner, const gneiss::dataset_manifest& graph) {
    return !o.hubs && partitioner != "given" && graph.pinned == 0 ? "auto" : o.hubs;
}

options::hub_choice options::choice_of_hubs() const {
    if (!hubs) return {};
    if (hubs_by_default()) return {.count = programs::count_or_percent{.percent = 1}};
    try {
        const programs::count_or_percent count = programs::parse_count_or_percent(*hubs);
        if (count.count == 0 && count.percent.value_or(0) == 0) return {};
        return {.count = count};
    } catch (const programs::usage_error&) { // a file name
        return {.file = *hubs};
    }
}

programs::partition_job options::partition_job() const {
    programs::partition_job job{
        .method = *programs::find_method(*partitioner), .parts = partitions.value_or(0), .seed = seed};
    partitioning.apply(job);
    if (gap_by_default()) job.flags.passes = default_passes;
    if (*partitioner == "gap" && !job.label_cap) job.label_cap = default_label_cap;
    return job;
}

bool options::repartitions() const {
    const hub_choice chosen = choice_of_hubs();
    return *partitioner != "given" || chosen.count || chosen.file;
}

} // namespace hanoi
