#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/node_data.hpp>
#include <gneiss/partition/hubs.hpp>

#include "commands.hpp"
#include "common/graph_stream.hpp"

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

/// The nodes, the greatest influence first, and their share of all of it.
template <class Score>
std::pair<std::vector<node_id>, double> greatest(const std::vector<Score>& scores, std::uint64_t count) {
    std::vector<node_id> found = most_influential(std::span<const Score>(scores), static_cast<std::size_t>(count));
    const double all = std::accumulate(scores.begin(), scores.end(), 0.);
    double theirs = 0;
    for (const node_id v : found) theirs += static_cast<double>(scores[v]);
    return {std::move(found), all == 0 ? 0 : theirs / all};
}

programs::exit_code run_hubs(const hubs_flags& flags) {
    check_dataset(flags.dataset);
    check_file_out(flags.out, flags.common);
    const auto start = std::chrono::steady_clock::now();
    const dataset data(flags.dataset);
    const std::uint64_t nodes = data.manifest().nodes, count = flags.hubs.of(nodes), training = data.manifest().node_data.train;
    if (count == 0) throw programs::usage_error(fmt::format("--hubs {} of {} nodes are none", programs::to_flag(flags.hubs), nodes));
    if (training == 0)
        throw programs::usage_error(flags.dataset.string() + " has no training nodes: import it with --labels and --split, or --fractions");
    memory_budget budget(flags.common.memory_bytes());
    const auto program = budget.charge("program", std::uint64_t{16} << 20);
    const auto scores = budget.charge("two scores a node", 8 * nodes);
    const auto few = budget.charge("training nodes and hubs", 4 * (training + count));
    const programs::interrupt_guard interrupts;
    phase_progress progress(flags.common.quiet);
    const tbb_executor on(flags.common.thread_count());
    programs::graph_stream from = programs::open_graph(data, budget, flags.graph, on, interrupts.token(), std::ref(progress));
    const std::vector<node_id> seeds = data.nodes_of(node_split::train);
    const influence_options how{.steps = static_cast<std::uint32_t>(flags.steps),
        .lazy = flags.lazy == "half" ? lazy_walk::half : lazy_walk::self_loop,
        .stop = interrupts.token()};
    progress("walks", 0, 0);
    const auto [hubs, share] =
        flags.sampled == 0
            ? greatest(influence(from.graph, seeds, how), count)
            : greatest(sampled_influence(from.graph, seeds, static_cast<std::uint32_t>(flags.sampled), flags.common.seed, how), count);
    write_nodes(data, hubs, flags.out);
    progress.line().clear();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const edge_index edges = from.graph.arcs() / 2;
    if (flags.common.json)
        fmt::print("{}\n",
            nlohmann::ordered_json{{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}, {"nodes", nodes}, {"edges", edges},
                {"training_nodes", training}, {"hubs", hubs.size()}, {"influence_share", share}, {"steps", flags.steps},
                {"graph", from.in_memory ? "memory" : "disk"}, {"out", flags.out.string()}}
                .dump());
    else
        fmt::print("{}: {} hubs of {} nodes, where {} of the walks from {} training nodes end\n{}, peak RSS {}\n", flags.out.string(),
            hubs.size(), nodes, programs::human_percent(share), training, programs::human_seconds(seconds),
            format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_hubs(programs::command_line& to) {
    const auto flags = std::make_shared<hubs_flags>();
    programs::command& command = to.add("hubs", "Finds the nodes that influence what a model says of training nodes most, for reorder --hubs.",
        [flags](programs::command&) { return run_hubs(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("hubs", flags->hubs, "how many nodes").required();
    command.option("out", flags->out, "where they go, the greatest influence first: integers, .npy").value_name("FILE.npy").required();
    command.option("steps", flags->steps, "of a walk against edges from a training node: layers of the model").range(1, 1000);
    command.option("lazy", flags->lazy, "a walk stays with probability one half, or as with a loop at each node").choices({"half", "loops"});
    command.option("sampled", flags->sampled, "walks drawn from each training node").value_name("WALKS").default_text("exact").range(1, 1e9);
    command.option("graph", flags->graph, "where the graph is: memory; disk, as lists that are streamed; auto: memory if it fits")
        .choices({"auto", "memory", "disk"});
    flags->common.add_to(command);
}

} // namespace data_tool
