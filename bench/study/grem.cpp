// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/partition/grem_analysis.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/quality.hpp>
#ifdef GNEISS_HAS_METIS
#include <gneiss/partition/metis.hpp>
#endif

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/graph_stream.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"

namespace study {
namespace {

namespace plot = programs::plot;

struct grem_flags {
    std::filesystem::path dataset{};
    std::vector<double> chunks{.01, .02, .05, .1, .2, .3};
    std::uint64_t parts = 2, seeds = 3, threads = 0;
    std::optional<std::filesystem::path> out{};
    bool json = false, quiet = false;
};

/// A partitioner for comparison, or a theoretical line: cuts by chunk size.
struct curve {
    std::string name, key;
    plot::line_style style = plot::line_style::solid;
    std::vector<double> cut{};
};

programs::exit_code grem(const grem_flags& flags) {
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    gneiss::memory_budget budget(programs::available_memory());
    const auto chunks = budget.charge({"edges in chunks", 48 * data.manifest().train_edges});
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    programs::graph_stream from = programs::open_graph(data, budget, "memory", std::filesystem::temp_directory_path(),
        executor, interrupts.token(), [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
            live.update([&] {
                return fmt::format(
                    "{}  {}", phase, programs::human_percent(static_cast<double>(done) / static_cast<double>(total)));
            });
        });
    gneiss::any_adjacency& stream = from.graph;
    const auto parts = programs::narrow<std::uint32_t>(flags.parts, "partitions");
    gneiss::partition_request request{.parts = parts};
    request.stop = interrupts.token();
    const auto cut_of = [&](std::span<const gneiss::partition_id16> assignment) {
        return gneiss::measure_partition(stream, assignment, parts).cut;
    };

    // Partitioners that see all edges at once.
    const std::vector<gneiss::partition_id16> whole =
        gneiss::multilevel_partition(gneiss::make_weighted_graph(stream), {.parts = parts}, executor);
    std::vector<curve> curves{
        {.name = "all edges: multilevel", .key = "multilevel", .style = plot::line_style::dotted}};
    curves[0].cut.assign(flags.chunks.size(), cut_of(whole));
#ifdef GNEISS_HAS_METIS
    const auto by_metis = gneiss::metis_partition(gneiss::make_weighted_graph(stream), {.parts = parts});
    curves.push_back({"all edges: METIS", "metis", plot::line_style::dotted,
        std::vector<double>(flags.chunks.size(), cut_of(by_metis))});
#endif
    const auto greedy = [&](const char* name, const char* key, double older, std::uint32_t passes) {
        curve result{name, key};
        for (const double chunk : flags.chunks) {
            double sum = 0;
            for (std::uint64_t seed = 0; seed < flags.seeds; ++seed) {
                live.update([&] { return fmt::format("{}, chunks of {}", name, programs::human_percent(chunk)); });
                request.seed = seed;
                gneiss::memory_scratch<> place;
                sum += cut_of(gneiss::grem_partitioner{{.chunk = chunk, .older = older, .passes = passes}}(
                    stream, request, place, executor));
            }
            result.cut.push_back(sum / static_cast<double>(flags.seeds));
        }
        curves.push_back(std::move(result));
    };
    greedy("fixed greedy", "fixed", 1, 1);
    greedy("GREM", "grem", .5, 1);
    greedy("GREM, older edges 0.65, 2 passes", "grem-two-passes", .65, 2);
    if (parts == 2)
        for (const auto& [name, key, times] : {std::tuple("theory: fixed", "theory-fixed", 1.0),
                 std::tuple("theory: refined", "theory-refined", gneiss::effective_chunks(.5, 1000))}) {
            curve result{name, key, plot::line_style::dotted};
            for (const double chunk : flags.chunks)
                result.cut.push_back(
                    gneiss::expected_greedy_cut(stream, whole, std::min(1.0, times * chunk), gneiss::greedy_tie::even));
            curves.push_back(std::move(result));
        }
    live.clear();

    const std::string name = programs::directory_name(flags.dataset);
    if (flags.out) {
        plot::line_chart chart{
            .title = fmt::format("{}: edges cut in {} parts, by the fraction of edges in memory", name, parts),
            .x = {.label = "chunk, fraction of the edges", .of = plot::quantity::percent, .log = true},
            .y = {.of = plot::quantity::percent, .from_zero = true},
            .lines = {}};
        for (const curve& c : curves) {
            plot::series line{.name = c.name, .points = {}, .style = c.style};
            for (std::size_t i = 0; i < c.cut.size(); ++i) line.points.push_back({flags.chunks[i], c.cut[i]});
            chart.lines.push_back(std::move(line));
        }
        plot::write_svg(*flags.out, chart);
    }
    if (flags.json) {
        nlohmann::ordered_json output{
            {"dataset", name}, {"parts", parts}, {"seeds", flags.seeds}, {"chunks", flags.chunks}};
        for (const curve& c : curves) output["cut"][c.key] = c.cut;
        programs::print_json_line(output);
        return programs::exit_code::done;
    }
    std::vector<programs::table::column> columns{{"chunk"}};
    for (const curve& c : curves) columns.push_back({c.name});
    programs::table table(columns);
    for (std::size_t i = 0; i < flags.chunks.size(); ++i) {
        std::vector<std::string> cells{programs::human_percent(flags.chunks[i])};
        for (const curve& c : curves) cells.push_back(fmt::format("{:.4f}", c.cut[i]));
        table.add(std::move(cells));
    }
    programs::print_text(
        "{}: edges cut in {} partitions, means of {} seeds\n\n{}", name, parts, flags.seeds, table.str());
    return programs::exit_code::done;
}

} // namespace

void add_grem(programs::command_line& to) {
    const auto flags = std::make_shared<grem_flags>();
    programs::command& command = to.add("grem",
        "Compares cuts of GREM and fixed greedy assignment by chunk size with theory and full-graph partitioners "
        "(Armada, Figure 6).",
        [flags](programs::command&) { return grem(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset, loaded into memory");
    command.option("chunks", flags->chunks, "fractions of edges in memory at once").range(1e-6, 1);
    command.option("partitions", flags->parts, "partitions; theory is for 2").range(2, 4096);
    command.option("runs", flags->seeds, "runs per setting; reports means").range(1, 1000).formerly("seeds");
    command.option("threads", flags->threads, "worker threads").range(0, 1024).default_text("all CPUs");
    command.option("out", flags->out, "chart to write, its values beside it as CSV").value_name("FILE.svg");
    command.option("json", flags->json, "print the result as one JSON object");
    command.option("quiet", flags->quiet, "no progress");
    command.example("gneiss-study grem data/mine --out grem.svg");
}

} // namespace study
