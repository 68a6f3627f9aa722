// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/export.hpp>
#include <gneiss/io/split_overlap.hpp>

#include "commands.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"

namespace data_tool {
namespace {

using namespace gneiss;
using programs::exit_code;

struct read_flags {
    std::filesystem::path dataset{}, out{};
    std::string format = "tsv";
    common_flags common{};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string triple(const dataset& data, const edge& e) {
    const bool relations = data.manifest().relations > 1 || data.relation_names().size() != 0;
    return data.node_label(e.source) + "  " + (relations ? data.relation_label(e.relation) : "->") + "  " +
        data.node_label(e.destination);
}

/// Returns the first edges of the first nonempty buckets, at most `most`: blocks are mapped, so only these are read.
/// Not verified: throws errc::corrupt if an id is out of range.
std::vector<edge> first_training_edges(const dataset& data, std::size_t most) {
    std::vector<edge> found;
    const bucket_store buckets = data.buckets();
    const mapped_npy words = data.map("edges.out");
    const row_partitioning& rows = buckets.rows();
    buckets.for_each_bucket([&](edge_bucket bucket) {
        if (found.size() >= most || buckets.extent(bucket).edges == 0) return;
        const byte_range range = buckets.extent(bucket).out;
        const bucket_row& row = buckets.table()[std::size_t{bucket.first} * rows.partitions + bucket.second];
        const edge_block block =
            cut_block(words.elements<std::uint32_t>().subspan(range.offset / sizeof(std::uint32_t)),
                buckets.layout().shape(bucket, row, edge_direction::out));
        const std::size_t wanted = std::min(most - found.size(), block.edges());
        for (std::size_t e = 0, v = 0; e < wanted; ++e) {
            while (v + 1 < block.nodes.size() && block.starts[v + 1] <= e) ++v;
            const std::uint64_t source = rows.begin(bucket.first) + block.nodes[v],
                                destination = rows.begin(bucket.second) + block.neighbors[e];
            const relation_id relation = block.relations.empty() ? 0 : block.relations[e];
            if (std::max(source, destination) >= rows.nodes || (relation != 0 && relation >= data.manifest().relations))
                throw error(
                    errc::corrupt, "ids out of range", {.path = data.path("edges.out"), .offset = range.offset});
            found.push_back({static_cast<node_id>(source), relation, static_cast<node_id>(destination)});
        }
    });
    return found;
}

/// Returns the number of relations and the first names, for use in queries.
std::string relations_text(const dataset& data) {
    constexpr std::size_t most = 10;
    const std::size_t named = data.relation_names().size();
    std::string text = std::to_string(data.manifest().relations);
    for (std::size_t r = 0; r < std::min(named, most); ++r)
        text += (r == 0 ? ": " : ", ") + data.relation_label(static_cast<relation_id>(r));
    return programs::one_line(text + (named > most ? ", …" : ""));
}

exit_code inspect(const read_flags& flags) {
    check_dataset(flags.dataset);
    const dataset data(flags.dataset);
    const dataset_manifest& m = data.manifest();
    std::uint64_t bytes = 0;
    for (const dataset_array& a : m.arrays) bytes += a.bytes;
    std::uint64_t least = ~std::uint64_t{0}, most = 0, empty = 0;
    if (data.has("edges.table")) {
        const bucket_store buckets = data.buckets();
        for (const bucket_row& row : buckets.table()) {
            least = std::min(least, row.edges);
            most = std::max(most, row.edges);
            empty += row.edges == 0;
        }
    }
    const dataset_node_attributes& nodes = m.node_attributes;
    const node_features features = data.features();
    const std::uint64_t edges = m.train_edges + m.valid_edges + m.test_edges;
    const double mean = static_cast<double>(m.train_edges) / static_cast<double>(m.partitions) / m.partitions;
    if (flags.common.json) {
        nlohmann::ordered_json arrays = nlohmann::ordered_json::array();
        for (const dataset_array& a : m.arrays)
            arrays.push_back(
                {{"name", a.name}, {"dtype", std::string(to_string(a.dtype))}, {"shape", a.shape}, {"bytes", a.bytes}});
        nlohmann::ordered_json sources = nlohmann::ordered_json::array();
        for (const dataset_source& s : m.provenance.sources) sources.push_back({{"name", s.name}, {"bytes", s.bytes}});
        nlohmann::ordered_json result{{"name", m.name}, {"task", std::string(to_string(m.task))},
            {"ids", std::string(to_string(m.ids))}, {"nodes", m.nodes}, {"edges", edges}, {"relations", m.relations},
            {"train_edges", m.train_edges}, {"valid_edges", m.valid_edges}, {"test_edges", m.test_edges},
            {"partitions", m.partitions}, {"pinned_nodes", data.rows().begin(m.pinned)},
            {"bucket_edges", {{"least", least}, {"mean", mean}, {"most", most}, {"empty", empty}}}, {"seed", m.seed},
            {"generation", m.generation}, {"bytes", bytes}, {"arrays", arrays},
            {"provenance", {{"tool", m.provenance.tool}, {"options", m.provenance.options}, {"sources", sources}}}};
        if (m.both_ways) result["both_ways"] = *m.both_ways;
        if (nodes.features != 0) {
            result["features"] = nodes.features;
            result["feature_type"] = std::string(to_string(features.type()));
            result["feature_entries"] = features.nnz();
            result["sparse"] = features.sparse();
        }
        if (nodes.classes != 0)
            result.update({{"node_task", std::string(to_string(nodes.target))}, {"classes", nodes.classes}});
        if (nodes.train != 0)
            result.update({{"train_nodes", nodes.train}, {"valid_nodes", nodes.valid}, {"test_nodes", nodes.test}});
        programs::print_json_line(result);
        return exit_code::done;
    }
    programs::table facts({{"dataset", programs::align::left}, {m.name, programs::align::left}});
    facts.add({"task", std::string(to_string(m.task))});
    facts.add({"nodes", fmt::format("{} ({} ids)", m.nodes, to_string(m.ids))});
    facts.add({"relations", relations_text(data)});
    facts.add(
        {"edges", fmt::format("{}: {} train, {} valid, {} test", edges, m.train_edges, m.valid_edges, m.test_edges)});
    if (m.both_ways) facts.add({"stored both ways", *m.both_ways ? "every training edge" : "not every training edge"});
    if (nodes.features != 0)
        facts.add({"features",
            features.sparse()
                ? fmt::format("{}, sparse: {:.1f} a node, {}", nodes.features,
                      static_cast<double>(features.nnz()) / static_cast<double>(std::max<std::uint64_t>(m.nodes, 1)),
                      features.values() ? to_string(features.type()) : "all 1")
                : fmt::format("{}, dense {}", nodes.features, to_string(features.type()))});
    if (nodes.classes != 0)
        facts.add({nodes.target == node_target_kind::regression ? "targets" : "classes",
            std::to_string(nodes.classes) +
                (nodes.target == node_target_kind::multilabel ? ", any number a node" : "")});
    if (nodes.train != 0)
        facts.add({"nodes by split", fmt::format("{} train, {} valid, {} test", nodes.train, nodes.valid, nodes.test)});
    facts.add({"mean degree",
        fmt::format("{:.2f} (train, in and out)",
            2 * static_cast<double>(m.train_edges) / static_cast<double>(std::max<std::uint64_t>(m.nodes, 1)))});
    facts.add({"partitions",
        fmt::format("{} of up to {} nodes{}", m.partitions, data.rows().capacity(),
            m.pinned == 0 ? "" : fmt::format(", the first pinned: {} hubs", data.rows().begin(m.pinned)))});
    facts.add({"buckets",
        fmt::format("{}, edges in each: least {}, mean {:.1f}, most {}", std::uint64_t{m.partitions} * m.partitions,
            least, mean, most)});
    facts.add({"seed", fmt::format("{}, generation {}", m.seed, m.generation)});
    facts.add({"size", gneiss::format_bytes(bytes)});
    programs::print_text("{}\n", facts.str());
    programs::table arrays({{"array", programs::align::left}, {"type", programs::align::left}, {"shape"}, {"bytes"}});
    for (const dataset_array& a : m.arrays)
        arrays.add({a.name, std::string(to_string(a.dtype)), shape_text(a.shape), std::to_string(a.bytes)});
    programs::print_text(arrays.str());
    constexpr std::size_t shown_edges = 3;
    const mapped_edges valid = m.valid_edges != 0 ? data.split("valid") : mapped_edges();
    const std::span<const edge> shown = valid.edges().first(std::min(shown_edges, valid.edges().size()));
    std::vector<edge> some(shown.begin(), shown.end());
    if (some.empty() && data.has("edges.table")) some = first_training_edges(data, shown_edges);
    if (!some.empty()) programs::print_text("\nsome edges of {}\n", m.valid_edges != 0 ? "valid" : "train");
    for (const edge& e : some) programs::print_text("  {}\n", programs::one_line(triple(data, e)));
    return exit_code::done;
}

exit_code verify(const read_flags& flags) {
    check_dataset(flags.dataset);
    const auto start = std::chrono::steady_clock::now();
    programs::progress live(flags.common.quiet);
    const dataset data(flags.dataset);
    const dataset_manifest& m = data.manifest();
    std::uint64_t bytes = 0;
    for (const dataset_array& a : m.arrays) bytes += a.bytes;
    data.verify([&](std::string_view array) { live.update([&] { return "verify  " + std::string(array); }); });
    live.update([] { return std::string("verify  pairs in two splits"); });
    const std::uint64_t memory = flags.common.memory_bytes();
    const split_overlap overlap = find_split_overlap(data, (memory - std::min(memory, program_bytes)) / 2);
    live.clear();
    const double seconds = seconds_since(start);
    const std::uint64_t edges = m.train_edges + m.valid_edges + m.test_edges;
    if (overlap.pairs != 0)
        programs::print_warning(fmt::format("pairs in two splits: {} {} of valid and test are in another split too",
            overlap.pairs, overlap.undirected ? "undirected pairs" : "edges"));
    if (flags.common.json) {
        programs::print_json_line({{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}, {"ok", true},
            {"nodes", m.nodes}, {"edges", edges}, {"arrays", m.arrays.size()}, {"bytes", bytes},
            {"undirected", overlap.undirected}, {"pairs_in_two_splits", overlap.pairs}});
        return exit_code::done;
    }
    programs::print_text("{}: {} in {} arrays, checksums, ranges and both directions of {} edges: all good ({})\n",
        flags.dataset.string(), gneiss::format_bytes(bytes), m.arrays.size(), edges, programs::human_seconds(seconds));
    return exit_code::done;
}

exit_code run_export(const read_flags& flags) {
    check_dataset(flags.dataset);
    std::error_code failed;
    if (std::filesystem::exists(flags.out, failed)) {
        if (!flags.common.force)
            throw programs::usage_error(
                flags.out.string() + " exists already: choose another --out, or --force to replace it");
        if (!programs::holds_only(flags.out,
                {"train", "valid", "test", "entities", "relations", "features", "features.indptr", "features.indices",
                    "features.values", "labels", "targets", "split", "classes"}))
            throw programs::usage_error(flags.out.string() + " is not an export: --force replaces exports only");
    }
    const auto start = std::chrono::steady_clock::now();
    programs::progress live(flags.common.quiet);
    const programs::interrupt_guard interrupts;
    const dataset data(flags.dataset);
    make_or_replace(flags.out, [&](const std::filesystem::path& out) {
        export_dataset(data, out, flags.format == "npy" ? export_format::npy : export_format::tsv,
            [&](std::uint64_t done, std::uint64_t total) {
                if (interrupts.token().stop_requested())
                    throw error(errc::canceled, "interrupted: nothing was exported");
                live.update([&] {
                    return "export  " +
                        programs::human_percent(
                            static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
                });
            });
    });
    live.clear();
    const dataset_manifest& m = data.manifest();
    const std::uint64_t edges = m.train_edges + m.valid_edges + m.test_edges;
    if (flags.common.json)
        programs::print_json_line({{"seconds", seconds_since(start)}, {"peak_rss_bytes", programs::peak_rss()},
            {"nodes", m.nodes}, {"edges", edges}, {"out", flags.out.string()}});
    else
        programs::print_text("{}: {} edges\n", flags.out.string(), edges);
    return exit_code::done;
}

} // namespace

void add_inspect(programs::command_line& to) {
    const auto flags = std::make_shared<read_flags>();
    programs::command& command =
        to.add("inspect", "Shows the contents of a dataset.", [flags](programs::command&) { return inspect(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    flags->common.add_to(command);
    command.example("gneiss-data inspect data/mine");
}

void add_verify(programs::command_line& to) {
    const auto flags = std::make_shared<read_flags>();
    programs::command& command = to.add("verify",
        "Reads all of a dataset and checks it: checksums, ranges, degrees. Warns of pairs in two splits.",
        [flags](programs::command&) { return verify(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    flags->common.add_to(command);
    command.example("gneiss-data verify data/mine");
}

void add_export(programs::command_line& to) {
    const auto flags = std::make_shared<read_flags>();
    programs::command& command =
        to.add("export", "Writes the edges and node attributes of a dataset for other programs.",
            [flags](programs::command&) { return run_export(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("out", flags->out, "output directory").value_name("DIR").required();
    command.option("format", flags->format, "tsv: names; npy: rows and name tables").choices({"tsv", "npy"});
    flags->common.add_to(command);
    command.example("gneiss-data export data/mine --out text --format tsv");
}

} // namespace data_tool
