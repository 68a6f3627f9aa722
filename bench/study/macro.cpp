// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/partition/random.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/graph_stream.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"
#include "sampled_trace.hpp"

namespace study {
namespace {

namespace plot = programs::plot;
using nlohmann::ordered_json;

struct macro_flags {
    std::filesystem::path dataset{};
    std::string fanout = "10,10,10", direction = "in";
    std::vector<std::uint64_t> batch{100, 1000, 10'000, 100'000, 1'000'000}, macro{};
    std::uint64_t batches = 3, steps = 3, threads = 0, seed = 0;
    std::optional<std::uint64_t> partitions{};
    programs::count_or_percent hubs{.percent = 1};
    std::vector<std::filesystem::path> by{};
    std::optional<std::filesystem::path> out{};
    std::optional<programs::byte_size> memory{};
    bool json = false, quiet = false;
};

/// Training nodes and unique input nodes of one load: a batch, or a macro-batch.
struct working_set {
    std::uint64_t training = 0; ///< 0: does not fit in memory
    double nodes = 0;           ///< mean

    [[nodiscard]] double normalized() const { return nodes / static_cast<double>(training); }
};

/// Partitions of nodes; the first may be pinned.
struct parted {
    std::string name;
    std::vector<gneiss::partition_id16> of{};
    std::uint32_t parts = 1; ///< not pinned
    std::uint32_t pinned = 0;
    std::vector<gneiss::partition_id16> homes{}; ///< of hubs, or empty

    /// Returns the partitioning with hubs in a pinned partition of their own. Precondition: none is pinned yet.
    [[nodiscard]] parted with(std::span<const gneiss::node_id> hubs) const {
        parted result{name, of, parts, 1};
        for (gneiss::partition_id16& p : result.of) ++p;
        result.homes = result.of;
        for (const gneiss::node_id hub : hubs) result.of[hub] = 0;
        return result;
    }
    /// Returns the number of partitions here that corresponds to `macro` of `all`.
    [[nodiscard]] std::uint32_t together(std::uint64_t macro, std::uint32_t all) const {
        const double share = static_cast<double>(macro) / all;
        return std::clamp(static_cast<std::uint32_t>(std::lround(share * parts)), std::uint32_t{1}, parts);
    }
};

/// A row of Table 4.3: mean neighbors that a node keeps, by size of the macro-batch.
struct kept_row {
    std::string name;
    std::uint64_t hubs = 0;
    std::uint32_t parts = 1;
    std::vector<std::uint32_t> together{};
    std::vector<double> all{}, training{};
};

/// All reported results.
struct macro_study {
    std::string name;
    std::uint64_t training = 0, hubs = 0;
    std::uint32_t partitions = 1; ///< not pinned
    std::vector<std::uint64_t> macro{};
    std::vector<working_set> sampled{}, staged{}; ///< by batch, by macro
    double neighbors = 0, training_neighbors = 0;
    std::vector<kept_row> kept{};
};

std::string percent_of(std::uint64_t macro, std::uint32_t partitions) {
    return programs::human_percent(static_cast<double>(macro) / partitions);
}

std::string tables_of(const macro_study& seen) {
    programs::table sets({{"load", programs::align::left}, {"training nodes"}, {"nodes"}, {"C/|B|"}});
    for (const auto& [what, list] : {std::pair("a batch", &seen.sampled), std::pair("a macro-batch", &seen.staged)})
        for (const working_set& set : *list)
            sets.add({what, std::to_string(set.training), fmt::format("{:.0f}", set.nodes),
                fmt::format("{:.2f}", set.normalized())});
    std::vector<programs::table::column> columns{{"neighbors kept", programs::align::left}, {"parts"}, {"hubs"}};
    for (const std::uint64_t macro : seen.macro)
        for (const char* of : {"all", "training"})
            columns.push_back({fmt::format("{} {}", percent_of(macro, seen.partitions), of)});
    programs::table kept(columns);
    std::vector<std::string> cells{"whole graph", "1", "0"};
    for (std::size_t i = 0; i < seen.macro.size(); ++i)
        for (const double mean : {seen.neighbors, seen.training_neighbors})
            cells.push_back(fmt::format("{:.2f}", mean));
    kept.add(std::move(cells));
    for (const kept_row& row : seen.kept) {
        cells = {row.name, std::to_string(row.parts), std::to_string(row.hubs)};
        for (std::size_t i = 0; i < seen.macro.size(); ++i)
            for (const double mean : {row.all[i], row.training[i]}) cells.push_back(fmt::format("{:.2f}", mean));
        kept.add(std::move(cells));
    }
    return sets.str() + "\n" + kept.str();
}

ordered_json json_of(const std::vector<working_set>& sets) {
    ordered_json list = ordered_json::array();
    for (const working_set& set : sets)
        list.push_back({{"training", set.training}, {"nodes", set.nodes}, {"normalized", set.normalized()}});
    return list;
}

ordered_json json_of(const macro_study& seen) {
    ordered_json kept = ordered_json::array();
    for (const kept_row& row : seen.kept)
        kept.push_back({{"partitions", row.name}, {"parts", row.parts}, {"hubs", row.hubs}, {"macro", row.together},
            {"all", row.all}, {"training", row.training}});
    return {{"dataset", seen.name}, {"training", seen.training}, {"partitions", seen.partitions}, {"hubs", seen.hubs},
        {"macro", seen.macro}, {"batches", json_of(seen.sampled)}, {"macro_batches", json_of(seen.staged)},
        {"neighbours", seen.neighbors}, {"training_neighbours", seen.training_neighbors}, {"kept", kept}};
}

plot::line_chart chart_of(const macro_study& seen, const std::string& fanout) {
    plot::line_chart chart{.title = seen.name + ": nodes loaded for a training node",
        .x = {.label = "training nodes per load", .log = true},
        .y = {.label = "C/|B|", .log = true},
        .lines = {}};
    for (const auto& [name, list] : {std::pair("batches, fan-out " + fanout, &seen.sampled),
             std::pair(std::string("macro-batches"), &seen.staged)}) {
        plot::series line{.name = name};
        for (const working_set& set : *list)
            line.points.push_back({static_cast<double>(set.training), set.normalized()});
        std::ranges::sort(line.points, {}, &plot::point::x);
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

/// Returns the nodes that `macro` partitions and the pinned ones hold for their training nodes, over an epoch: every
/// partition is loaded once, the pinned ones with each macro-batch.
working_set staged_by(std::uint64_t macro, const macro_study& seen, std::uint64_t nodes) {
    const std::uint64_t loads = gneiss::ceil_div(std::uint64_t{seen.partitions}, macro);
    return {std::max<std::uint64_t>(seen.training / loads, 1),
        static_cast<double>(nodes - seen.hubs + loads * seen.hubs) / static_cast<double>(loads)};
}

programs::exit_code macro(macro_flags flags) {
    const auto start = std::chrono::steady_clock::now();
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    const gneiss::dataset_manifest& graph = data.manifest();
    const std::vector<gneiss::node_id> seeds = seeds_of(data);
    const std::uint32_t pinned = graph.pinned;
    macro_study seen{.name = programs::directory_name(flags.dataset), .training = seeds.size()};
    const bool own = graph.partitions > pinned + 1;
    seen.partitions =
        own ? graph.partitions - pinned : programs::narrow<std::uint32_t>(flags.partitions.value_or(16), "partitions");
    if (own && flags.partitions && *flags.partitions != seen.partitions)
        throw programs::usage_error(fmt::format(
            "--partitions {} is for datasets without: {} has {}", *flags.partitions, seen.name, seen.partitions));
    seen.macro = flags.macro;
    if (seen.macro.empty())
        for (const std::uint64_t parts : {16U, 8U})
            seen.macro.push_back(std::max<std::uint64_t>(seen.partitions / parts, 1));
    std::ranges::sort(seen.macro);
    seen.macro.erase(std::ranges::unique(seen.macro).begin(), seen.macro.end());
    if (seen.macro.back() > seen.partitions)
        throw programs::usage_error(
            fmt::format("--macro {} exceeds the {} partitions: give fewer", seen.macro.back(), seen.partitions));
    if (pinned != 0 && !flags.by.empty())
        throw programs::usage_error(fmt::format("{} has hubs of its own, which --by would move", seen.name));

    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    gneiss::memory_budget budget(flags.memory ? flags.memory->bytes : programs::available_memory() / 2);
    const auto program =
        budget.charge({"program", (std::uint64_t{16} << 20) + seeds.size() * 2 * sizeof(gneiss::node_id)});

    sampling options = read_sampling(flags.fanout, flags.direction, "neighbor");
    options.profiled = 1;
    options.seed = flags.seed;
    const std::filesystem::path place = std::filesystem::absolute(flags.out.value_or(seen.name)).parent_path();
    const programs::placed_lists lists = programs::place_lists(data, options.direction, place);
    for (const std::uint64_t batch : flags.batch) {
        if (batch > seeds.size()) continue;
        options.batch = batch;
        options.batches = std::min(flags.batches, seeds.size() / batch); // complete batches
        std::filesystem::path scratch = flags.out.value_or(seen.name);
        scratch += ".trace";
        if (std::filesystem::exists(scratch))
            throw programs::usage_error(scratch.string() + " exists and would be overwritten");
        const gneiss::removed_unless_renamed cleanup{scratch};
        try {
            const sampled_trace trace = sample_trace(data, lists.files, seeds, options, scratch, budget, executor,
                interrupts.token(), [&](const std::string& what, std::uint64_t done, std::uint64_t all) {
                    live.update([&] { return fmt::format("batches of {}: {} {} of {}", batch, what, done, all); });
                });
            seen.sampled.push_back({batch, static_cast<double>(trace.accesses) / static_cast<double>(options.batches)});
        } catch (const gneiss::over_budget& e) {
            live.warn(fmt::format("batches of {} are left out: {}", batch, e.what()));
        }
    }

    // Partitions by row, once without and once with hubs; scores of hubs; labels of training nodes.
    const auto parts = budget.charge({"parts, hubs and training nodes",
        (3 * sizeof(gneiss::partition_id16) + 2 * sizeof(float) + sizeof(gneiss::class_id)) * graph.nodes});
    programs::graph_stream from = programs::open_graph(data, budget, "auto", place, executor, interrupts.token(),
        [&](std::string_view phase, std::uint64_t done, std::uint64_t all) {
            live.update([&] { return fmt::format("{} {} of {}", phase, done, all); });
        });
    std::vector<gneiss::class_id> trains(static_cast<std::size_t>(graph.nodes), gneiss::unlabeled);
    for (const gneiss::node_id v : seeds) trains[v] = 0;
    std::vector<gneiss::node_id> hubs;
    if (pinned != 0) {
        hubs.resize(static_cast<std::size_t>(data.rows().begin(pinned)));
        std::iota(hubs.begin(), hubs.end(), gneiss::node_id{0});
    } else if (const std::uint64_t count = flags.hubs.of(graph.nodes); count != 0) {
        live.update([] { return std::string("hubs"); });
        hubs = gneiss::most_influential(
            std::span<const float>(gneiss::influence(from.graph, seeds,
                {.steps = programs::narrow<std::uint32_t>(flags.steps, "steps"), .stop = interrupts.token()})),
            static_cast<std::size_t>(count));
    }
    seen.hubs = hubs.size();
    for (const std::uint64_t m : seen.macro) seen.staged.push_back(staged_by(m, seen, graph.nodes));

    const auto measure = [&](const parted& by) {
        live.update([&] { return by.name; });
        if (interrupts.interrupted()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
        const gneiss::partition_quality quality =
            gneiss::measure_partition(from.graph, by.of, by.parts + by.pinned, trains, by.pinned, by.homes);
        seen.neighbors = quality.all.mean();
        seen.training_neighbors = quality.training.mean();
        kept_row row{.name = by.name, .hubs = by.pinned != 0 ? hubs.size() : 0, .parts = by.parts};
        for (const std::uint64_t m : seen.macro) {
            row.together.push_back(by.together(m, seen.partitions));
            row.all.push_back(quality.all.kept(row.together.back(), by.parts));
            row.training.push_back(quality.training.kept(row.together.back(), by.parts));
        }
        seen.kept.push_back(std::move(row));
    };
    const auto both = [&](const parted& by) {
        measure(by);
        if (!hubs.empty()) measure(by.with(hubs));
    };
    both({"random", gneiss::random_partitioner{}(from.graph, {.parts = seen.partitions, .seed = flags.seed}, executor),
        seen.partitions});
    if (own) {
        parted by{"its own", std::vector<gneiss::partition_id16>(static_cast<std::size_t>(graph.nodes)),
            seen.partitions, pinned};
        for (gneiss::node_id v = 0; v < graph.nodes; ++v)
            by.of[v] = static_cast<gneiss::partition_id16>(data.rows().of(v));
        if (const auto homes = data.hub_partitions(); pinned != 0 && !homes.values().empty()) {
            by.homes = by.of;
            for (gneiss::node_id hub = 0; hub < homes.values().size(); ++hub)
                by.homes[hub] = static_cast<gneiss::partition_id16>(homes.values()[hub]);
        }
        pinned != 0 ? measure(by) : both(by);
    }
    for (const std::filesystem::path& file : flags.by) {
        parted by{file.filename().string(), gneiss::read_assignment(data, file)};
        by.parts = by.of.empty() ? 1 : std::uint32_t{*std::ranges::max_element(by.of)} + 1;
        both(by);
    }
    live.clear();

    if (flags.out) {
        plot::write_svg(*flags.out, chart_of(seen, flags.fanout));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (flags.json) {
        ordered_json output = json_of(seen);
        output.update({{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}});
        programs::print_json_line(output);
    } else {
        programs::print_text("{}: {} training nodes, {} partitions, {} hubs\n\n{}\n{}, peak RSS {}\n", seen.name,
            seen.training, seen.partitions, seen.hubs, tables_of(seen), programs::human_seconds(seconds),
            gneiss::format_bytes(programs::peak_rss()));
    }
    return programs::exit_code::done;
}

} // namespace

void add_macro(programs::command_line& to) {
    const auto flags = std::make_shared<macro_flags>();
    programs::command& command = to.add("macro",
        "Compares loads of macro-batches and sampled batches, and the neighbors that nodes keep in macro-batches "
        "(Hanoi, Figure 4.2 and Table 4.3).",
        [flags](programs::command&) { return macro(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.group("Batches");
    command.option("batch", flags->batch, "training nodes per batch; sizes beyond an epoch are skipped").range(1);
    command.option("batches", flags->batches, "batches of each size; reports means").range(1, 1e6);
    command.option("fanout", flags->fanout, "neighbors per hop, seeds first; A+B: in and out; all").value_name("LIST");
    command.option("direction", flags->direction, "direction of edges to neighbors").choices({"in", "out", "both"});
    command.group("Macro-batches");
    command.option("macro", flags->macro, "partitions in memory together, in addition to hubs")
        .range(1)
        .default_text("1/16 and 1/8 of the partitions");
    command.option("partitions", flags->partitions, "random partitions, if the dataset has none")
        .range(1, 65535)
        .default_text("16");
    command.option("hubs", flags->hubs, "most influential nodes, pinned in memory, unless the dataset has its own");
    command.option("steps", flags->steps, "length of the walks that find hubs").range(1, 1000);
    command.option("by", flags->by, "other assignments for comparison: integers [nodes], .npy or one per line")
        .value_name("FILES");
    command.group("Resources and output");
    command.option("out", flags->out, "chart of working sets to write, its values beside it as CSV")
        .value_name("FILE.svg")
        .default_text("none");
    command.option("memory", flags->memory, "memory budget").default_text("half of the free memory");
    command.option("threads", flags->threads, "worker threads").default_text("all CPUs").range(1, 1024);
    command.option("seed", flags->seed, "random seed");
    command.option("json", flags->json, "print the result as one JSON object").transient();
    command.option("quiet", flags->quiet, "no progress on stderr").transient();
    command.example("gneiss-study macro data/mine --partitions 16 --macro 1,2 --fanout 10,10");
}

} // namespace study
