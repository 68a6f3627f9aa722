// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/expand.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "commands.hpp"

namespace data_tool {
namespace {

struct expand_flags {
    std::filesystem::path dataset{};
    std::uint64_t factor = 0;
    std::optional<std::uint64_t> seed_edges{};
    double feature_noise = .1;
    std::optional<double> train_fraction{};
    output_flags output{};
    common_flags common{};
};

programs::exit_code run_expand(const expand_flags& flags, const programs::command& self) {
    check_dataset(flags.dataset);
    check_output(flags.output, flags.common);
    const std::filesystem::path out = std::filesystem::absolute(flags.output.out / ".").parent_path();
    gneiss::expand_options settings{
        .by = gneiss::random_seed_graph(
            flags.factor, flags.seed_edges.value_or(gneiss::default_seed_edges(flags.factor)), flags.common.seed),
        .feature_noise = flags.feature_noise,
        .train_fraction = flags.train_fraction,
        .scratch = out.string() + ".partial", // exists when the first edge is read
        .seed = flags.common.seed};
    const gneiss::dataset from(flags.dataset);
    const gneiss::dataset_manifest& m = from.manifest();
    if (flags.train_fraction && m.node_attributes.classes == 0)
        throw programs::usage_error(
            "--train-fraction is a fraction of labeled nodes, " + flags.dataset.string() + " has no labels");
    const gneiss::expansion_size size = gneiss::expansion_size_of(from, settings.by);
    gneiss::make_directories(out.parent_path());
    if (const auto space = std::filesystem::space(out.parent_path()); space.available < size.disk_bytes)
        throw gneiss::error(gneiss::errc::no_space,
            fmt::format("{} nodes and {} edges need about {} of disk, {} are free", size.nodes, size.edges,
                gneiss::format_bytes(size.disk_bytes), gneiss::format_bytes(space.available)),
            {.path = flags.output.out});
    programs::progress(flags.common.quiet)
        .say(fmt::format("{} nodes x {}, {} edges x {}: {} nodes and {} edges", m.nodes, settings.by.nodes,
            m.train_edges + m.valid_edges + m.test_edges, settings.by.edges.size(), size.nodes, size.edges));
    gneiss::import_options options = gneiss::expansion_of(flags.dataset, std::move(settings));
    options.provenance = m.provenance.options + "expanded: " + m.name + "\n" + provenance_of(self);
    output_flags output = flags.output;
    if (!output.task) output.task = m.task == gneiss::dataset_task::node ? "node" : "link";
    // By size alone: the result does not depend on the memory.
    if (output.partitions == 0) output.partitions = gneiss::choose_partitions(size.nodes, std::uint64_t{4} << 30);
    return run_import(std::move(options), output, flags.common, size.mapped_bytes);
}

} // namespace

void add_expand(programs::command_line& to) {
    const auto flags = std::make_shared<expand_flags>();
    programs::command& command =
        to.add("expand", "Grows a dataset by Kronecker product with a small random graph: real structure at any size.",
            [flags](programs::command& self) { return run_expand(*flags, self); });
    command.positional("dataset", flags->dataset, "directory of the dataset to grow");
    flags->output.add_to(command);
    command.group("Growth");
    command.option("factor", flags->factor, "nodes of the small graph, by which the number of nodes is multiplied")
        .range(2, 4096)
        .required();
    command
        .option("seed-edges", flags->seed_edges,
            "edges of the small graph, by which that of edges is multiplied; at least 2 x factor - 1")
        .default_text("2.2 x factor")
        .range(3, 4096.0 * 4096);
    command
        .option("feature-noise", flags->feature_noise,
            "noise of dense features, in their standard deviations; of sparse ones, the probability of dropping an "
            "entry")
        .range(0, 1000);
    command
        .option("train-fraction", flags->train_fraction,
            "fraction of labeled nodes for training; the rest is split evenly into valid and test")
        .default_text("the split of the original node")
        .range(0, 1);
    flags->common.add_to(command);
    command.example("gneiss-data expand data/mine --factor 8 --out data/large");
}

} // namespace data_tool
