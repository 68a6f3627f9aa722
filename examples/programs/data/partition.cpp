// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "commands.hpp"
#include "kit/cli/phase_progress.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/node_file.hpp"
#include "kit/graph/partitioner_options.hpp"
#include "kit/graph/partitioning.hpp"
#include "kit/report/records.hpp"

namespace data_tool {
namespace {

using namespace gneiss;
using programs::exit_code;
using programs::usage_error;

struct partition_flags {
    std::filesystem::path dataset{};
    std::optional<std::string> partitioner{};
    std::uint64_t partitions = 0;
    std::optional<std::filesystem::path> out{}, score{}, hubs{};
    std::string format = "npy", graph = "auto";
    programs::partitioner_options method{};
    common_flags common{};
};

programs::partition_job job_of(const partition_flags& flags) {
    programs::partition_job job{.method = *programs::find_method(*flags.partitioner),
        .parts = programs::narrow<std::uint32_t>(flags.partitions, "partitions"),
        .seed = flags.common.seed,
        .out = flags.out,
        .format = flags.format == "metis" ? assignment_format::metis
            : flags.format == "distdgl"   ? assignment_format::distdgl
                                          : assignment_format::npy,
        .ignore_journal = flags.common.force};
    flags.method.apply(job);
    return job;
}

nlohmann::ordered_json kept_json(const partition_quality& q) {
    auto kept = nlohmann::ordered_json::array();
    const neighbor_counts& of = q.training.nodes != 0 ? q.training : q.all;
    for (std::uint32_t together = 1; together <= q.parts; together *= 2)
        kept.push_back({{"together", together}, {"neighbours", of.kept(together, q.parts)}});
    return kept;
}

void print_result(
    const partition_flags& flags, const dataset& data, const programs::partition_result& created, double seconds) {
    const partition_quality& q = created.quality;
    if (flags.common.json) {
        nlohmann::ordered_json result{{"seconds", seconds}, {"prepare_seconds", created.prepare_seconds},
            {"partition_seconds", created.partition_seconds}, {"quality_seconds", created.quality_seconds},
            {"peak_rss_bytes", programs::peak_rss()}, {"peak_disk_bytes", created.disk_bytes},
            {"memory_bytes", flags.common.memory_bytes()}, {"threads", flags.common.thread_count()},
            {"graph", created.in_memory ? "memory" : "disk"}, {"nodes", data.manifest().nodes}, {"edges", q.edges},
            {"partitioner", created.method}, {"partitions", q.parts}, {"parts_used", q.parts_used}, {"cut", q.cut},
            {"cut_edges", q.cut_edges}, {"node_imbalance", q.node_imbalance}, {"edge_imbalance", q.edge_imbalance}};
        if (created.labels) result["label_imbalance"] = q.label_imbalance;
        result["neighbours"] = (q.training.nodes != 0 ? q.training : q.all).mean();
        result["kept"] = kept_json(q);
        if (created.resumed_step != 0) result["resumed_step"] = created.resumed_step;
        if (flags.out) result["out"] = flags.out->string();
        if (const std::vector<std::string> warnings = programs::given_warnings(); !warnings.empty())
            result["warnings"] = warnings;
        programs::print_json_line(result);
        return;
    }
    programs::table table({{"partitioner", programs::align::left}, {"partitions"}, {"cut"}, {"nodes"}, {"edges"},
        {"labels"}, {"seconds"}, {"peak RSS"}});
    const auto percent = [](double share) { return fmt::format("{:+.1f}%", 100 * share); };
    table.add({created.method, std::to_string(q.parts), fmt::format("{:.4f}", q.cut), percent(q.node_imbalance),
        percent(q.edge_imbalance), created.labels ? percent(q.label_imbalance) : "-",
        fmt::format("{:.2f}", created.partition_seconds), format_bytes(programs::peak_rss())});
    programs::print_text(table.str());
    programs::print_text("{} nodes, {} edges, {} cut; neighbors in memory with 1, 2, 4 … partitions together:",
        data.manifest().nodes, q.edges, q.cut_edges);
    const neighbor_counts& of = q.training.nodes != 0 ? q.training : q.all;
    for (std::uint32_t together = 1; together <= q.parts; together *= 2)
        programs::print_text(
            " {}", programs::human_percent(of.neighbors == 0 ? 1 : of.kept(together, q.parts) / of.mean()));
    programs::print_text("\n");
    if (flags.out) programs::print_text("{}\n", flags.out->string());
}

exit_code run_partition(const partition_flags& flags, const programs::command& self) {
    check_dataset(flags.dataset);
    const bool scores = flags.score.has_value();
    if (scores == flags.partitioner.has_value()) throw usage_error("give one of --partitioner NAME and --score FILE");
    if (scores && flags.out) throw usage_error("--score makes no partitions: leave --out out");
    if (scores && flags.hubs) throw usage_error("--score makes no partitions: leave --hubs out");
    if (const std::vector<std::string> given = flags.method.given(); scores && !given.empty())
        throw usage_error(fmt::format("--score makes no partitions: leave --{} out", given.front()));
    if (self.given("export") && !flags.out) throw usage_error("--export is the format of --out FILE, which is missing");
    if (!scores && flags.partitions == 0) throw usage_error("--partitions N is needed");
    std::optional<programs::partition_job> job;
    if (!scores) job.emplace(job_of(flags));
    if (flags.out) check_file_out(*flags.out, flags.common);
    const auto start = std::chrono::steady_clock::now();
    const dataset data(flags.dataset);
    if (flags.hubs) job->hubs = programs::rows_in(*flags.hubs, data, flags.common.memory_bytes() / 8);
    memory_budget budget(flags.common.memory_bytes());
    const auto program = budget.charge({"program", program_bytes});
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.common.quiet);
    if (job && !job->method.seeded && self.given("seed"))
        live.say(fmt::format("note: {} gives the same result whatever --seed is", job->method.name));
    programs::phase_progress progress(live);
    const tbb_executor executor(flags.common.thread_count());
    programs::graph_work with{budget, executor, std::ref(progress), [&](const std::string& text) { live.say(text); },
        interrupts.token(), flags.graph};
    if (flags.out) gneiss::make_directories(with.scratch = std::filesystem::absolute(*flags.out).parent_path());
    const programs::partition_result result = scores
        ? programs::score_parts(
              data, *flags.score, programs::narrow<std::uint32_t>(flags.partitions, "partitions"), with)
        : programs::make_parts(data, *job, with);
    live.clear();
    if (const double ratio = 1 + result.quality.edge_imbalance; ratio > 2)
        programs::print_warning(fmt::format("the largest partition has {:.1f} times the mean of the edges{}", ratio,
            scores ? "" : ": --balance edges bounds them, with --imbalance as the excess"));
    print_result(flags, data, result, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return exit_code::done;
}

} // namespace

void add_partition(programs::command_line& to) {
    const auto flags = std::make_shared<partition_flags>();
    programs::command& command =
        to.add("partition", "Partitions the nodes of a dataset with few cut edges, or measures a given partitioning.",
            [flags](programs::command& self) { return run_partition(*flags, self); });
    std::vector<std::string> names;
    for (const programs::partition_method& method : programs::partition_methods()) names.push_back(method.name);
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.group("Parts");
    command.option("partitioner", flags->partitioner, "partitioning method").choices(names);
    command.option("partitions", flags->partitions, "number of partitions")
        .default_text("with --score, as in the file")
        .range(1, max_partition_count);
    command.option("out", flags->out, "output, the partition of each node")
        .value_name("FILE")
        .default_text("measures only");
    command.option("export", flags->format, "format of --out: an array; one number per line; a directory for DGL")
        .choices({"npy", "metis", "distdgl"});
    command
        .option(
            "score", flags->score, "measure these partitions: integers [nodes], .npy or one per line (METIS, KaHIP)")
        .value_name("FILE");
    command
        .option("hubs", flags->hubs,
            "integers, .npy or one per line: nodes whose edges do not count, as for those that reorder --hubs moves "
            "to a partition of their own")
        .value_name("FILE");
    command
        .option(
            "graph", flags->graph, "location of the graph: memory; disk, as streamed lists; auto: memory if it fits")
        .choices({"auto", "memory", "disk"});
    command.group("Balance");
    flags->method.add_balance(command);
    command.group("Partitioners");
    flags->method.add_method(command);
    flags->common.add_to(command);
    command.common({"partitioner", "partitions", "out", "export", "score", "graph", "imbalance", "label-cap", "passes",
        "memory", "seed", "json", "force"});
    command.example("gneiss-data partition data/mine --partitioner gap --partitions 64 --out parts.npy");
}

} // namespace data_tool
