// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/reorder.hpp>

#include "commands.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/node_file.hpp"
#include "kit/report/records.hpp"

namespace data_tool {
namespace {

using namespace gneiss;

struct reorder_flags {
    std::filesystem::path dataset{}, out{};
    std::optional<std::filesystem::path> by{}, hubs{};
    bool training_first = false;
    common_flags common{};
};

programs::exit_code run_reorder(const reorder_flags& flags) {
    check_dataset(flags.dataset);
    std::vector<std::filesystem::path> inputs;
    for (const auto& file : {flags.by, flags.hubs})
        if (file) inputs.push_back(*file);
    check_output({.out = flags.out}, flags.common, inputs);
    if ((flags.by || flags.hubs) == flags.training_first)
        throw programs::usage_error("give one order: --training-first, or --by FILE, --hubs FILE or both");
    constexpr std::uint64_t base = program_bytes, least = std::uint64_t{16} << 20;
    if (flags.common.memory_bytes() < base + least)
        throw over_budget(flags.common.memory_bytes(), {{"program", base}, {"least buffers to reorder with", least}});
    const auto start = std::chrono::steady_clock::now();
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.common.quiet);
    const tbb_executor executor(flags.common.thread_count());
    const dataset from(flags.dataset);
    reorder_options options;
    if (flags.by) options.by = *flags.by;
    options.training_first = flags.training_first;
    options.seed = flags.common.seed;
    options.memory = flags.common.memory_bytes() - base;
    if (flags.hubs) options.hubs = programs::rows_in(*flags.hubs, from, options.memory / 8);
    options.stop = interrupts.token();
    options.progress = [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
        live.update([&] {
            return fmt::format("{:<8}{}", phase,
                total == 0 ? "" : programs::human_percent(static_cast<double>(done) / static_cast<double>(total)));
        });
    };
    make_or_replace(flags.out, [&](const std::filesystem::path& out) { reorder(from, out, options, executor); });
    live.clear();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const dataset to(flags.out);
    const dataset_manifest& m = to.manifest();
    const std::uint64_t edges = m.train_edges + m.valid_edges + m.test_edges, hubs = to.rows().begin(m.pinned);
    if (flags.common.json)
        programs::print_json_line({{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}, {"nodes", m.nodes},
            {"edges", edges}, {"train_nodes", m.node_attributes.train}, {"partitions", m.partitions},
            {"pinned_nodes", hubs}, {"dataset", flags.out.string()}});
    else
        programs::print_text("{}: {} nodes, {} edges{}\n{}, peak RSS {}\n", flags.out.string(), m.nodes, edges,
            flags.training_first ? fmt::format("; the {} training nodes come first", m.node_attributes.train)
                : m.partition_sizes.empty()
                ? ""
                : fmt::format("; {} partitions of up to {} nodes{}", m.partitions, to.rows().capacity(),
                      hubs == 0 ? "" : fmt::format(", the first of {} hubs", hubs)),
            programs::human_seconds(seconds), format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_reorder(programs::command_line& to) {
    const auto flags = std::make_shared<reorder_flags>();
    programs::command& command = to.add("reorder", "Reorders the rows of a dataset, and thereby its partitions.",
        [flags](programs::command&) { return run_reorder(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("out", flags->out, "directory of the new dataset").value_name("DATASET").required();
    command
        .option("by", flags->by,
            "integers [nodes], .npy or one per line (METIS, KaHIP): entry r is the node that becomes row r, or, if "
            "values repeat, entry v is the "
            "partition of node v; nodes by source id, or by current row if they have names")
        .value_name("FILE");
    command
        .option("hubs", flags->hubs,
            "integers, .npy or one per line: nodes of a first partition, which trainers pin in memory")
        .value_name("FILE");
    command.option("training-first", flags->training_first,
        "training nodes take the first rows and partitions; random within them and within the others, by --seed");
    flags->common.add_to(command);
    command.example("gneiss-data reorder data/mine --by parts.npy --out data/parted");
}

} // namespace data_tool
