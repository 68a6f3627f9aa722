// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/miss_ratio.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/durable.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"
#include "sampled_trace.hpp"

namespace study {
namespace {

namespace plot = programs::plot;
using programs::count_or_percent;

struct caches_flags {
    std::filesystem::path dataset{};
    std::string sampler = "neighbor", fanout = "10,10", direction = "in";
    std::uint64_t batch = 1000;
    std::optional<std::uint64_t> batches{}, profile{}, row_bytes{};
    std::vector<std::uint64_t> superbatch{};
    std::vector<count_or_percent> sizes{
        {.percent = 1}, {.percent = 2}, {.percent = 5}, {.percent = 10}, {.percent = 20}, {.percent = 40}};
    count_or_percent at{.percent = 10};
    std::optional<std::filesystem::path> out{};
    std::optional<programs::byte_size> memory{};
    std::uint64_t threads = 0, seed = 0;
    bool json = false, quiet = false;
};

enum class policy : std::uint8_t { belady, belady_afresh, by_degree, by_visits, lru, s3_fifo, pages };
struct policy_name {
    policy is;
    const char *key, *title;
};
constexpr policy_name policies[] = {{policy::belady, "belady", "Belady"},
    {policy::belady_afresh, "belady-no-carry", "no carry"}, {policy::by_degree, "static-degree", "by degree"},
    {policy::by_visits, "static-visits", "by visits"}, {policy::lru, "lru", "LRU"},
    {policy::s3_fifo, "s3fifo", "S3-FIFO"}, {policy::pages, "pages", "pages"}};
constexpr bool uses_superbatches(policy p) { return p == policy::belady || p == policy::belady_afresh; }

/// Result of a simulated cache.
struct result {
    policy of{};
    std::uint64_t slots = 0, superbatch = 0; ///< superbatch: 0 if irrelevant
    gneiss::cache_counts counts{};
    double reads_per_access = 0;
    std::uint64_t read_bytes = 0;
};

/// Returns the `count` rows of the highest scores, without those whose score is 0.
std::vector<gneiss::node_id> ranked(const std::vector<std::uint32_t>& scores, std::uint64_t count) {
    std::vector<gneiss::node_id> rows = gneiss::rank_by(scores, static_cast<std::size_t>(count));
    while (!rows.empty() && scores[rows.back()] == 0) rows.pop_back();
    return rows;
}

/// Simulates caches on one trace.
class simulator {
public:
    simulator(sampled_trace& trace, std::uint64_t nodes, std::uint64_t row_bytes, gneiss::memory_budget& budget,
        const gneiss::tbb_executor& executor)
        : trace_(trace),
          nodes_(nodes),
          row_bytes_(row_bytes),
          budget_(budget),
          executor_(executor) {}

    /// Contents of the static caches, each of the size of the largest.
    std::vector<gneiss::node_id> by_degree{}, by_visits{};

    [[nodiscard]] result run(policy p, std::uint64_t slots, std::uint64_t superbatch) const {
        const auto charge = budget_.charge({"simulation", bytes_of(p, slots)});
        result created{.of = p, .slots = slots, .superbatch = uses_superbatches(p) ? superbatch : 0};
        created.counts = std::visit(
            [&](auto& rows) { return counts(rows, p, static_cast<std::size_t>(slots), superbatch); }, trace_.rows);
        created.reads_per_access = static_cast<double>(created.counts.reads()) /
            static_cast<double>(std::max<std::uint64_t>(trace_.accesses, 1));
        created.read_bytes = created.counts.reads() * (p == policy::pages ? page_bytes : row_bytes_);
        return created;
    }

private:
    static constexpr std::uint64_t page_bytes = 4096;

    template <class Trace>
    [[nodiscard]] gneiss::cache_counts counts(
        Trace& rows, policy p, std::size_t slots, std::uint64_t superbatch) const {
        const auto with = [&](auto by) { return gneiss::simulate(by, rows); };
        switch (p) {
        case policy::belady:
        case policy::belady_afresh:
            return gneiss::simulate_belady(rows,
                {.capacity = slots,
                    .batches = static_cast<std::size_t>(superbatch),
                    .carry = p == policy::belady,
                    .nodes = nodes_},
                executor_);
        case policy::by_degree: return with(gneiss::static_cache(by_degree, slots));
        case policy::by_visits: return with(gneiss::static_cache(by_visits, slots));
        case policy::lru: return with(gneiss::lru(slots));
        case policy::s3_fifo: return with(gneiss::s3_fifo(slots));
        case policy::pages: break;
        }
        return gneiss::simulate_pages(rows, row_bytes_, slots * row_bytes_, page_bytes);
    }
    /// Returns the bytes that the policies' pages state, including the cache's bookkeeping.
    [[nodiscard]] std::uint64_t bytes_of(policy p, std::uint64_t slots) const {
        constexpr std::uint64_t cache = 16;
        const std::uint64_t batch = 32 * trace_.largest;
        switch (p) {
        case policy::belady:
        case policy::belady_afresh:
            return gneiss::belady_need(
                       trace_.accesses, 0, {.capacity = static_cast<std::size_t>(slots), .nodes = nodes_})
                       .bytes +
                (cache + sizeof(gneiss::node_id)) * slots + batch;
        case policy::by_degree:
        case policy::by_visits: return (cache + sizeof(gneiss::node_id)) * slots + batch;
        case policy::lru: return (cache + 24) * slots + batch;
        case policy::s3_fifo: return (cache + 41) * slots + batch;
        case policy::pages: break;
        }
        return (cache + 24) * (slots * row_bytes_ / page_bytes) + batch * (2 + row_bytes_ / page_bytes);
    }

    sampled_trace& trace_;
    std::uint64_t nodes_, row_bytes_;
    gneiss::memory_budget& budget_;
    const gneiss::tbb_executor& executor_;
};

/// All reported results.
struct comparison {
    std::string name{};
    std::uint64_t nodes = 0, edges = 0, row_bytes = 0, at = 0;
    std::vector<std::uint64_t> slots{}, superbatches{};
    std::vector<result> by_size{}, by_superbatch{}; ///< with the last of `superbatches`; with `at` slots

    [[nodiscard]] double share(std::uint64_t rows) const {
        return static_cast<double>(rows) / static_cast<double>(nodes);
    }
};

plot::line_chart chart_of_sizes(const comparison& seen) {
    plot::line_chart chart{
        .title = fmt::format("{}: reads per requested row, superbatches of {}", seen.name, seen.superbatches.back()),
        .x = {.label = "cache size, fraction of the rows", .of = plot::quantity::percent, .log = true},
        .y = {.from_zero = true},
        .lines = {}};
    for (const policy_name& p : policies) {
        plot::series line{.name = p.title};
        if (p.is == policy::belady_afresh) line.style = plot::line_style::dotted, line.color = 0;
        for (const result& r : seen.by_size)
            if (r.of == p.is) line.points.push_back({seen.share(r.slots), r.reads_per_access});
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

plot::line_chart chart_of_superbatches(const comparison& seen) {
    plot::line_chart chart{.title = fmt::format("{}: reads per requested row, a cache of {}", seen.name,
                               programs::human_percent(seen.share(seen.at))),
        .x = {.label = "batches per superbatch", .from_zero = true, .whole = true},
        .y = {.from_zero = true},
        .lines = {}};
    for (const policy_name& p : policies) {
        plot::series line{.name = p.title};
        if (p.is == policy::belady_afresh) line.style = plot::line_style::dotted, line.color = 0;
        for (const result& r : seen.by_superbatch) {
            if (r.of != p.is) continue;
            if (uses_superbatches(p.is))
                line.points.push_back({static_cast<double>(r.superbatch), r.reads_per_access});
            else
                for (const std::uint64_t s : seen.superbatches)
                    line.points.push_back({static_cast<double>(s), r.reads_per_access});
        }
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

std::string tables_of(const comparison& seen) {
    std::vector<programs::table::column> columns{{"cache"}, {"rows"}};
    for (const policy_name& p : policies) columns.push_back({p.title});
    programs::table sizes(columns);
    for (std::size_t i = 0; i < seen.slots.size(); ++i) {
        std::vector<std::string> cells{
            programs::human_percent(seen.share(seen.slots[i])), std::to_string(seen.slots[i])};
        for (const result& r : std::span(seen.by_size).subspan(i * std::size(policies), std::size(policies)))
            cells.push_back(fmt::format("{:.3f}", r.reads_per_access));
        sizes.add(std::move(cells));
    }
    programs::table superbatches({{"superbatch"}, {policies[0].title}, {policies[1].title}});
    for (const std::uint64_t s : seen.superbatches) {
        std::vector<std::string> cells{std::to_string(s)};
        for (const result& r : seen.by_superbatch)
            if (r.superbatch == s) cells.push_back(fmt::format("{:.3f}", r.reads_per_access));
        superbatches.add(std::move(cells));
    }
    return fmt::format("reads per requested row, fills included; superbatches of {}; a page of 4 KiB is one "
                       "read\n\n{}\na cache of {}\n\n{}",
        seen.superbatches.back(), sizes.str(), programs::human_percent(seen.share(seen.at)), superbatches.str());
}

nlohmann::ordered_json json_of(const std::vector<result>& results, const comparison& seen) {
    auto list = nlohmann::ordered_json::array();
    for (const result& r : results) {
        const auto* const name = std::ranges::find(policies, r.of, &policy_name::is);
        nlohmann::ordered_json one{{"policy", name->key}, {"rows", r.slots}, {"share", seen.share(r.slots)}};
        if (r.superbatch != 0) one["superbatch"] = r.superbatch;
        one.update({{"fills", r.counts.fills}, {"misses", r.counts.misses}, {"reads_per_access", r.reads_per_access},
            {"read_bytes", r.read_bytes}});
        list.push_back(std::move(one));
    }
    return list;
}

/// Returns the sampling that the flags request, given the number of seeds. Throws usage_error.
sampling sampling_of(const caches_flags& flags, std::size_t seeds) {
    sampling options = read_sampling(flags.fanout, flags.direction, flags.sampler);
    options.batch = flags.batch;
    options.batches =
        flags.batches.value_or(std::min<std::uint64_t>(200, gneiss::ceil_div(std::uint64_t{seeds}, flags.batch)));
    options.profiled = flags.profile.value_or(options.batches);
    options.seed = flags.seed;
    return options;
}

std::vector<std::uint64_t> superbatches_of(const caches_flags& flags, std::uint64_t batches) {
    std::vector<std::uint64_t> chosen = flags.superbatch;
    if (chosen.empty())
        for (const std::uint64_t part : {8U, 4U, 2U, 1U}) chosen.push_back(gneiss::ceil_div(batches, part));
    std::ranges::sort(chosen);
    chosen.erase(std::ranges::unique(chosen).begin(), chosen.end());
    if (chosen.back() > batches)
        throw programs::usage_error(
            fmt::format("--superbatch {} exceeds the {} batches: give fewer", chosen.back(), batches));
    return chosen;
}

programs::exit_code caches(caches_flags flags) {
    const auto start = std::chrono::steady_clock::now();
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    const std::vector<gneiss::node_id> seeds = seeds_of(data);
    const sampling options = sampling_of(flags, seeds.size());
    comparison seen{.name = programs::directory_name(flags.dataset),
        .nodes = data.manifest().nodes,
        .edges = data.manifest().train_edges,
        .superbatches = superbatches_of(flags, options.batches)};
    const gneiss::dataset_array* const features = data.find("features");
    seen.row_bytes = flags.row_bytes.value_or(
        features == nullptr ? 1024 : features->shape.back() * gneiss::size_of(features->dtype));
    for (const count_or_percent& size : flags.sizes) seen.slots.push_back(size.of(seen.nodes));
    std::ranges::sort(seen.slots);
    seen.at = flags.at.of(seen.nodes);

    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    gneiss::memory_budget budget(flags.memory ? flags.memory->bytes : programs::available_memory() / 2);
    const auto program =
        budget.charge({"program", (std::uint64_t{16} << 20) + seeds.size() * 2 * sizeof(gneiss::node_id)});
    std::filesystem::path scratch = flags.out.value_or(seen.name);
    scratch += ".trace";
    if (std::filesystem::exists(scratch))
        throw programs::usage_error(scratch.string() + " exists and would be overwritten");
    const gneiss::removed_unless_renamed cleanup{scratch};
    const programs::placed_lists lists =
        programs::place_lists(data, options.direction, std::filesystem::absolute(scratch).parent_path());
    sampled_trace trace = sample_trace(data, lists.files, seeds, options, scratch, budget, executor, interrupts.token(),
        [&](const std::string& what, std::uint64_t done, std::uint64_t all) {
            live.update([&] { return fmt::format("{} {} of {}", what, done, all); });
        });

    simulator simulate(trace, seen.nodes, seen.row_bytes, budget, executor);
    const std::uint64_t most = std::max(seen.slots.back(), seen.at);
    const auto ranks =
        budget.charge({"ranks", 3 * sizeof(gneiss::node_id) * seen.nodes}); // scores, all ids, and kept ones
    simulate.by_visits = ranked(std::exchange(trace.visits, {}), most);
    simulate.by_degree = ranked(programs::occurrences(lists.files), most);
    std::uint64_t done = 0;
    const std::uint64_t all = std::size(policies) * (seen.slots.size() + 1) + 2 * (seen.superbatches.size() - 1);
    const auto run = [&](std::vector<result>& to, policy p, std::uint64_t slots, std::uint64_t superbatch) {
        if (interrupts.interrupted()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
        live.update([&] { return fmt::format("simulation {} of {}", done, all); });
        to.push_back(simulate.run(p, slots, superbatch));
        ++done;
    };
    for (const std::uint64_t slots : seen.slots)
        for (const policy_name& p : policies) run(seen.by_size, p.is, slots, seen.superbatches.back());
    for (const policy_name& p : policies)
        for (const std::uint64_t s : seen.superbatches)
            if (uses_superbatches(p.is) || s == seen.superbatches.back()) run(seen.by_superbatch, p.is, seen.at, s);
    live.clear();

    if (flags.out) {
        std::filesystem::path other = *flags.out;
        other.replace_filename(flags.out->stem().string() + "-superbatch.svg");
        plot::write_svg(*flags.out, chart_of_sizes(seen));
        plot::write_svg(other, chart_of_superbatches(seen));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (flags.json) {
        const nlohmann::ordered_json output{{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()},
            {"nodes", seen.nodes}, {"edges", seen.edges}, {"sampler", flags.sampler}, {"fanout", flags.fanout},
            {"direction", flags.direction}, {"batch", options.batch}, {"batches", options.batches},
            {"accesses", trace.accesses}, {"row_bytes", seen.row_bytes},
            {"trace", std::holds_alternative<gneiss::memory_trace>(trace.rows) ? "memory" : "disk"},
            {"sizes", json_of(seen.by_size, seen)}, {"superbatches", json_of(seen.by_superbatch, seen)}};
        programs::print_json_line(output);
    } else {
        programs::print_text("{}: {} rows of {}; {} batches request {} rows, {:.0f} each\n{}{}, peak RSS {}\n",
            seen.name, seen.nodes, gneiss::format_bytes(seen.row_bytes), options.batches, trace.accesses,
            static_cast<double>(trace.accesses) / static_cast<double>(options.batches), tables_of(seen),
            programs::human_seconds(seconds), gneiss::format_bytes(programs::peak_rss()));
    }
    return programs::exit_code::done;
}

} // namespace

void add_caches(programs::command_line& to) {
    const auto flags = std::make_shared<caches_flags>();
    programs::command& command =
        to.add("caches", "Simulates the reads of row caches during training (Ginex, Figure 5).",
            [flags](programs::command&) { return caches(*flags); });
    command.positional(
        "dataset", flags->dataset, "directory of the dataset; seeds are its training nodes, or all nodes");
    command.group("Batches");
    command.option("sampler", flags->sampler, "dense: draws for each node once per batch; neighbor: draws at each hop")
        .choices({"neighbor", "dense"})
        .formerly("neighbour", "neighbor");
    command.option("fanout", flags->fanout, "neighbors per hop, seeds first; A+B: in and out; all").value_name("LIST");
    command.option("direction", flags->direction, "direction of edges to neighbors").choices({"in", "out", "both"});
    command.option("batch", flags->batch, "seed nodes per batch").range(1);
    command.option("batches", flags->batches, "batches of the trace; may span epochs")
        .range(1, 1e7)
        .default_text("an epoch, at most 200");
    command
        .option(
            "superbatch", flags->superbatch, "batches that Belady's cache knows ahead; the first chart has the most")
        .range(1)
        .default_text("1/8, 1/4, 1/2 and all of --batches");
    command.option("profile", flags->profile, "other batches, for the static cache of the most visited rows")
        .range(1, 1e7)
        .default_text("as --batches");
    command.group("Caches");
    command.option("sizes", flags->sizes, "cache sizes in rows");
    command.option("at", flags->at, "cache size in the chart of superbatches");
    command.option("row-bytes", flags->row_bytes, "bytes per row, for pages of 4 KiB")
        .range(1, 1 << 30)
        .default_text("those of the features, or 1024");
    command.group("Resources and output");
    command.option("out", flags->out, "charts: FILE.svg over sizes, FILE-superbatch.svg over superbatches")
        .value_name("FILE.svg")
        .default_text("none");
    command.option("memory", flags->memory, "memory budget").default_text("half of the free memory");
    command.option("threads", flags->threads, "worker threads").default_text("all CPUs").range(1, 1024);
    command.option("seed", flags->seed, "random seed");
    command.option("json", flags->json, "print the result as one JSON object").transient();
    command.option("quiet", flags->quiet, "no progress on stderr").transient();
    command.example("gneiss-study caches data/mine --batch 1000 --superbatch 25,100 --sizes 1%,4%,20%");
}

} // namespace study
