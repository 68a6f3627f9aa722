// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "commands.hpp"
#include "kit/cli/phase_progress.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/partitioning.hpp"
#include "kit/report/records.hpp"

namespace data_tool {
namespace {

using namespace gneiss;

struct hubs_flags {
    std::filesystem::path dataset{}, out{};
    programs::count_or_percent hubs{};
    std::uint64_t steps = 3, sampled = 0;
    std::string lazy = "half", graph = "auto";
    common_flags common{};
};

programs::exit_code run_hubs(const hubs_flags& flags) {
    check_dataset(flags.dataset);
    check_file_out(flags.out, flags.common);
    const auto start = std::chrono::steady_clock::now();
    const dataset data(flags.dataset);
    const std::uint64_t nodes = data.manifest().nodes, training = data.manifest().node_attributes.train;
    const programs::hub_job job{.count = flags.hubs.of(nodes),
        .steps = programs::narrow<std::uint32_t>(flags.steps, "steps"),
        .lazy = flags.lazy == "half" ? lazy_walk::half : lazy_walk::self_loop,
        .sampled = programs::narrow<std::uint32_t>(flags.sampled, "sampled"),
        .seed = flags.common.seed,
        .out = flags.out};
    if (job.count == 0)
        throw programs::usage_error(
            fmt::format("--hubs {} of {} nodes selects no node: give more", programs::to_flag(flags.hubs), nodes));
    memory_budget budget(flags.common.memory_bytes());
    const auto program = budget.charge({"program", program_bytes});
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.common.quiet);
    programs::phase_progress progress(live);
    const tbb_executor executor(flags.common.thread_count());
    const std::filesystem::path place = std::filesystem::absolute(flags.out).parent_path();
    gneiss::make_directories(place);
    programs::graph_work with{budget, executor, std::ref(progress), [&](const std::string& text) { live.say(text); },
        interrupts.token(), flags.graph, place};
    const programs::hub_result result = programs::choose_hubs(data, job, with);
    live.clear();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (flags.common.json)
        programs::print_json_line(
            {{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}, {"nodes", nodes}, {"edges", result.edges},
                {"training_nodes", training}, {"hubs", result.hubs}, {"influence_share", result.influence_share},
                {"steps", flags.steps}, {"graph", result.in_memory ? "memory" : "disk"}, {"out", flags.out.string()}});
    else
        programs::print_text(
            "{}: {} hubs of {} nodes, where {} of the walks from {} training nodes end\n{}, peak RSS {}\n",
            flags.out.string(), result.hubs, nodes, programs::human_percent(result.influence_share), training,
            programs::human_seconds(seconds), format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_hubs(programs::command_line& to) {
    const auto flags = std::make_shared<hubs_flags>();
    programs::command& command =
        to.add("hubs", "Finds the nodes with the most influence on training nodes, for reorder --hubs.",
            [flags](programs::command&) { return run_hubs(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("hubs", flags->hubs, "number of nodes").required();
    command.option("out", flags->out, "output by descending influence: integers, .npy")
        .value_name("FILE.npy")
        .required();
    command.option("steps", flags->steps, "length of a walk against edges from a training node: layers of the model")
        .range(1, 1000);
    command
        .option("lazy", flags->lazy,
            "laziness of walks: they stay with probability one half, or as with a loop at each node")
        .choices({"half", "loops"});
    command.option("sampled", flags->sampled, "walks drawn from each training node")
        .value_name("WALKS")
        .default_text("exact")
        .range(1, 1e9);
    command
        .option(
            "graph", flags->graph, "location of the graph: memory; disk, as streamed lists; auto: memory if it fits")
        .choices({"auto", "memory", "disk"});
    flags->common.add_to(command);
    command.example("gneiss-data hubs data/mine --hubs 1% --out hubs.npy");
}

} // namespace data_tool
