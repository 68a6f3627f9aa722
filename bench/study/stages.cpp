// SPDX-License-Identifier: Apache-2.0
#include "stages.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/graph/sample_memory.hpp"
#include "kit/report/records.hpp"
#include "sampled_trace.hpp"

namespace study {
namespace {

using gneiss::node_id;
using nlohmann::ordered_json;

struct stages_flags {
    std::filesystem::path dataset{};
    std::string fanout = "15,10,5", direction = "in", history = "f32";
    std::uint64_t batch = 1000, hidden = 256, threads = 0, seed = 0;
    std::vector<std::uint64_t> large{8, 12, 24}, macro{};
    std::optional<std::uint64_t> partitions{}, row_bytes{};
    std::optional<double> train_fraction{};
    std::vector<std::filesystem::path> by{};
    std::optional<programs::byte_size> memory{};
    bool json = false, quiet = false;
};

/// One setting with its counts.
struct counted {
    std::string name;
    std::uint64_t nodes = 0; ///< training nodes of a load, at most
    double k = 1;            ///< batches of a load
    traffic of{};
    std::uint64_t rows = 0, sent = 0, back = 0; ///< rows sent; bytes
    std::optional<double> cut{}, missed{};      ///< share of edges; β, of the cache's accesses
};

using assignment = std::pair<std::string, std::vector<gneiss::partition_id16>>;

/// Returns the training nodes: the dataset's, or a random share of all. Nodes without neighbors are left out; `lonely`
/// gets their number.
template <class G>
std::vector<node_id> training_of(
    const gneiss::dataset& data, const stages_flags& flags, const G& graph, const sampling& hops, std::size_t& lonely) {
    std::vector<node_id> nodes = data.nodes_of(gneiss::node_split::train);
    if (flags.train_fraction) {
        if (!nodes.empty())
            throw programs::usage_error(fmt::format("--train-fraction is for datasets without training nodes: {} has "
                                                    "{}",
                programs::directory_name(flags.dataset), nodes.size()));
        const gneiss::random_key key{flags.seed, gneiss::random_domain::user};
        for (std::uint64_t v = 0; v < graph.nodes(); ++v)
            if (static_cast<double>(key[v] >> 11) * 0x1p-53 < *flags.train_fraction)
                nodes.push_back(static_cast<node_id>(v));
    }
    if (nodes.empty() && !flags.train_fraction)
        throw programs::usage_error(
            fmt::format("{} has no training nodes: give --train-fraction", programs::directory_name(flags.dataset)));
    std::vector<std::uint32_t> degrees(nodes.size());
    graph.degrees(nodes, hops.direction, degrees);
    std::vector<node_id> result;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (degrees[i] != 0) result.push_back(nodes[i]);
    lonely = nodes.size() - result.size();
    if (result.empty()) throw programs::usage_error("no training node has a neighbor: nothing would be sampled");
    return result;
}

ordered_json json_of(const counted& of, const counted& single) {
    ordered_json result{{"name", of.name}, {"training", of.nodes}, {"k", of.k}, {"loads", of.of.loads},
        {"rows", of.rows}, {"features", of.of.features}, {"histories", of.of.histories}, {"pushes", of.of.pushes},
        {"edges", of.of.edges}, {"held", of.of.held}, {"held_delta", of.of.held_fresh}, {"bytes", of.sent},
        {"bytes_back", of.back}, {"saved", static_cast<double>(single.rows) / static_cast<double>(of.rows)}};
    if (of.cut) result["cut"] = *of.cut;
    if (of.missed) result["beta"] = *of.missed;
    return result;
}

std::string table_of(const std::vector<counted>& all) {
    programs::table table({{"", programs::align::left}, {"nodes"}, {"K"}, {"cut"}, {"rows"}, {"single/rows"}, {"edges"},
        {"to device"}, {"back"}, {"held rows"}, {"β"}});
    const auto optional = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.3f}", *value) : std::string();
    };
    for (const counted& c : all)
        table.add({c.name, std::to_string(c.nodes), fmt::format("{:.1f}", c.k), optional(c.cut), std::to_string(c.rows),
            fmt::format("{:.2f}", static_cast<double>(all.front().rows) / static_cast<double>(c.rows)),
            std::to_string(c.of.edges), gneiss::format_bytes(c.sent), gneiss::format_bytes(c.back),
            std::to_string(c.of.held), optional(c.missed)});
    return table.str();
}

programs::exit_code stages(const stages_flags& flags) {
    const auto start = std::chrono::steady_clock::now();
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    const std::string name = programs::directory_name(flags.dataset);
    const sampling hops = read_sampling(flags.fanout, flags.direction, "neighbor");
    for (const gneiss::hop_fanout& hop : hops.fanout)
        if (hop.direction() != hops.direction)
            throw programs::usage_error(
                fmt::format("--fanout {} has several directions: this study counts one", flags.fanout));
    if (hops.fanout.size() > 15)
        throw programs::usage_error(fmt::format("--fanout {}: this study counts at most 15 hops", flags.fanout));
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const auto step = [&](const std::string& what) {
        if (interrupts.interrupted()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
        live.update([&] { return what; });
    };
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    gneiss::memory_budget budget(flags.memory ? flags.memory->bytes : programs::available_memory() / 2);
    const std::uint64_t all_nodes = data.manifest().nodes;
    const auto program = budget.charge({"program", (std::uint64_t{16} << 20) + 32 * all_nodes});
    const programs::placed_lists lists =
        programs::place_lists(data, hops.direction, std::filesystem::temp_directory_path());
    programs::make_lists(data, lists.files, budget.available(), executor, interrupts.token(),
        [&](std::uint64_t done, std::uint64_t edges) {
            live.update([&] { return fmt::format("lists of neighbors {} of {}", done, edges); });
        });
    const gneiss::memory_csc graph(lists.files, budget);
    std::size_t lonely = 0;
    const std::vector<node_id> training = training_of(data, flags, graph, hops, lonely);
    const std::uint64_t largest =
        std::max(flags.batch, gneiss::ceil_div(std::uint64_t{training.size()}, *std::ranges::min_element(flags.large)));
    const auto samples = budget.charge({"samples",
        programs::sample_memory(data.manifest(), gneiss::sampler_kind::neighbor, {.fanout = hops.fanout}, largest)});

    const std::uint64_t row = flags.row_bytes.value_or(
        data.manifest().node_attributes.features != 0 ? 4 * data.manifest().node_attributes.features : 512);
    const std::uint64_t activation = flags.hidden * (flags.history == "f16" ? 2 : 4);
    stage_counter counter(graph, hops.fanout, flags.batch, flags.seed, executor);
    std::vector<counted> all;
    const auto add = [&](counted c, std::uint64_t rows, std::uint64_t features) {
        c.rows = rows;
        c.sent = features * row + c.of.histories * activation + c.of.edges * sizeof(node_id) +
            rows * 2 * sizeof(node_id); // lists, and ids with offsets
        c.back = c.of.pushes * activation;
        all.push_back(std::move(c));
    };

    // Batches of other epochs rank the rows of a cache.
    std::vector<std::uint32_t> visits(static_cast<std::size_t>(all_nodes), 0);
    step("profile");
    (void)counter.single(training, ~std::uint64_t{0}, [&](std::span<const node_id> rows) {
        for (const node_id v : rows) ++visits[v];
    });
    const std::vector<node_id> ranked = gneiss::rank_by(visits, visits.size());
    std::vector<std::uint32_t> place(visits.size());
    for (std::size_t i = 0; i < ranked.size(); ++i) place[ranked[i]] = static_cast<std::uint32_t>(i);
    std::vector<std::uint64_t> asked(visits.size(), 0); // accesses of an epoch, by place
    step("batches");
    const traffic single = counter.single(training, 0, [&](std::span<const node_id> rows) {
        for (const node_id v : rows) ++asked[place[v]];
    });
    add({.name = "single", .nodes = flags.batch, .of = single}, single.rows, single.rows);
    std::partial_sum(asked.begin(), asked.end(), asked.begin());
    const auto cached = [&](std::uint64_t slots) {
        const std::uint64_t hits = slots == 0 ? 0 : asked[std::min<std::size_t>(slots, asked.size()) - 1];
        const std::uint64_t misses = single.rows - hits;
        counted c{.name = fmt::format("single, cache of {} rows", slots), .nodes = flags.batch, .of = single};
        c.of.held = slots;
        c.missed = static_cast<double>(misses) / static_cast<double>(single.rows);
        add(std::move(c), misses, misses);
    };
    for (const std::uint64_t parts : flags.large) {
        const std::uint64_t most = gneiss::ceil_div(std::uint64_t{training.size()}, parts);
        if (most < flags.batch) {
            live.warn(fmt::format(
                "1/{} of {} training nodes is less than a batch of {}: left out", parts, training.size(), flags.batch));
            continue;
        }
        step(fmt::format("large batches of 1/{}", parts));
        const traffic of = counter.large(training, most, 0);
        counted c{.name = fmt::format("lbs 1/{}", parts),
            .nodes = most,
            .k = static_cast<double>(most) / static_cast<double>(flags.batch),
            .of = of};
        add(c, of.rows, of.rows);
        c.name += ", delta";
        c.of.held = of.held_fresh;
        add(c, of.fresh, of.fresh);
        c.of = counter.large(training, most, 1, true);
        c.name += ", later epochs";
        c.of.held = c.of.held_fresh;
        add(c, c.of.fresh, c.of.fresh);
        cached(of.held_fresh);
    }

    std::vector<assignment> assignments;
    const std::uint32_t pinned = data.manifest().pinned;
    if (data.manifest().partitions > pinned + 1 && pinned == 0) {
        assignment own{"its own", std::vector<gneiss::partition_id16>(static_cast<std::size_t>(all_nodes))};
        for (node_id v = 0; v < all_nodes; ++v) own.second[v] = static_cast<gneiss::partition_id16>(data.rows().of(v));
        assignments.push_back(std::move(own));
    }
    if (flags.partitions) {
        const gneiss::random_key key{flags.seed, gneiss::random_domain::partition};
        assignment random{"random", std::vector<gneiss::partition_id16>(static_cast<std::size_t>(all_nodes))};
        for (node_id v = 0; v < all_nodes; ++v)
            random.second[v] = static_cast<gneiss::partition_id16>(key[v] % *flags.partitions);
        assignments.push_back(std::move(random));
    }
    for (const std::filesystem::path& file : flags.by)
        assignments.emplace_back(file.filename().string(), gneiss::read_assignment(data, file));
    for (const auto& [source, of] : assignments) {
        const std::uint32_t parts = of.empty() ? 1 : std::uint32_t{*std::ranges::max_element(of)} + 1;
        std::vector<std::uint64_t> groups = flags.macro;
        if (groups.empty()) groups.push_back(std::max<std::uint64_t>(parts / 8, 1));
        step(source);
        const double cut = counter.cut(of);
        for (const std::uint64_t macro : groups) {
            if (macro > parts)
                throw programs::usage_error(
                    fmt::format("--macro {} exceeds the {} partitions of {}: give fewer", macro, parts, source));
            for (const auto& [mode, mode_name] : ahead_modes)
                for (const bool features : {false, true}) {
                    counted c{.name = fmt::format("pbs {} of {}, {}, {}, {}", macro, parts, source, mode_name,
                                  features ? "feature" : "drop")};
                    step(c.name);
                    c.of =
                        counter.partitions(training, of, parts, static_cast<std::uint32_t>(macro), mode, features, 0);
                    c.nodes = training.size() / c.of.loads;
                    c.k = static_cast<double>(c.nodes) / static_cast<double>(flags.batch);
                    c.cut = cut;
                    const traffic counts = c.of;
                    add(std::move(c), counts.rows, counts.features);
                }
        }
    }
    live.clear();

    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto best = std::ranges::min_element(all, {}, &counted::sent);
    if (flags.json) {
        ordered_json list = ordered_json::array();
        for (const counted& c : all) list.push_back(json_of(c, all.front()));
        programs::print_json_line(ordered_json{{"dataset", name}, {"training", training.size()},
            {"without_neighbors", lonely}, {"batch", flags.batch}, {"row_bytes", row}, {"least_bytes", best->name},
            {"settings", list}, {"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}});
        return programs::exit_code::done;
    }
    std::string gains;
    for (const counted& c : all)
        if (c.name.starts_with("lbs") && static_cast<double>(all.front().rows) < 1.05 * static_cast<double>(c.rows))
            gains += fmt::format("{}: nothing is gained\n", c.name);
    programs::print_text("{}: {} training nodes with neighbors, {} without; rows of {} bytes\n\n{}\n{}least bytes: "
                         "{}\n{}, peak RSS {}\n",
        name, training.size(), lonely, row, table_of(all), gains, best->name, programs::human_seconds(seconds),
        gneiss::format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_stages(programs::command_line& to) {
    const auto flags = std::make_shared<stages_flags>();
    programs::command& command = to.add("stages",
        "Counts rows, edges and bytes that an epoch moves to a device: sampling in one stage, with a cache, by large "
        "batches, and by partitions (Joestar, chapter 5).",
        [flags](programs::command&) { return stages(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset; the graph is read into memory");
    command.group("Batches");
    command.option("batch", flags->batch, "training nodes per batch").range(1);
    command.option("fanout", flags->fanout, "neighbors per hop, seeds first; all").value_name("LIST");
    command.option("direction", flags->direction, "direction of edges to neighbors").choices({"in", "out", "both"});
    command
        .option("train-fraction", flags->train_fraction,
            "share of nodes that train, drawn at random, if the dataset has no training nodes")
        .range(1e-9, 1)
        .default_text("the dataset's");
    command.group("Macro-batches");
    command.option("large", flags->large, "large batches in an epoch, for each setting").range(1, 1e6);
    command.option("macro", flags->macro, "partitions of a macro-batch").range(1).default_text("1/8 of the partitions");
    command.option("partitions", flags->partitions, "random partitions for comparison")
        .range(1, 65535)
        .default_text("none");
    command.option("by", flags->by, "assignments to partitions: integers [nodes], .npy or one per line")
        .value_name("FILES");
    command.option("row-bytes", flags->row_bytes, "bytes of a row of features")
        .range(1)
        .default_text("the dataset's columns as f32, or 512");
    command.option("hidden", flags->hidden, "columns of histories").range(1, 65536);
    command.option("history", flags->history, "values of histories").choices({"f32", "f16"});
    command.group("Resources and output");
    command.option("memory", flags->memory, "memory budget").default_text("half of the free memory");
    command.option("threads", flags->threads, "worker threads").default_text("all CPUs").range(1, 1024);
    command.option("seed", flags->seed, "random seed");
    command.option("json", flags->json, "print the result as one JSON object").transient();
    command.option("quiet", flags->quiet, "no progress on stderr").transient();
    command.example("gneiss-study stages data/mine --large 8,24 --by parts.npy --macro 16");
}

} // namespace study
