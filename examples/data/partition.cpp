#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/node_data.hpp>
#include <gneiss/io/partition_journal_file.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/storage/disk_scratch.hpp>

#include "commands.hpp"
#include "common/graph_stream.hpp"
#include "partitioners.hpp"

namespace data_tool {
namespace {

using namespace gneiss;
using programs::exit_code;
using programs::usage_error;
using clock = std::chrono::steady_clock;

struct partition_flags {
    std::filesystem::path dataset{};
    std::optional<std::string> partitioner{}, label_cap{}, imbalance{};
    std::uint64_t partitions = 0;
    std::optional<std::filesystem::path> out{}, score{};
    std::string format = "npy", balance = "nodes", graph = "auto";
    partitioner_flags method{};
    common_flags common{};
};

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

/// A number, or what "off" stands for.
double number_or_off(const std::optional<std::string>& text, const char* flag, double least, double otherwise, double off) {
    if (!text) return otherwise;
    if (*text == "off") return off;
    double value = 0;
    try {
        value = programs::parse_number(*text);
    } catch (const usage_error&) {
        throw usage_error(fmt::format("--{} is a number or off, not '{}'", flag, *text));
    }
    if (!(value >= least)) throw usage_error(fmt::format("--{} is at least {}, or off; {} was given", flag, least, *text));
    return value;
}

/// Labels of training nodes by row; the others, and those without, are unlabelled. Empty without labels. 4 bytes a node.
std::vector<class_id> training_labels(const dataset& data) {
    const auto labels = data.labels();
    const auto classes = classes_of(labels.values());
    std::vector<class_id> found(classes.begin(), classes.end());
    const auto parts = data.node_splits();
    for (std::size_t row = 0; row < parts.values().size() && row < found.size(); ++row)
        if (parts.values()[row] != static_cast<std::uint8_t>(node_split::train)) found[row] = unlabelled;
    return found;
}

/// Bytes of a dataset's files and of what was made beside them.
std::uint64_t disk_bytes(const dataset& data) {
    std::uint64_t bytes = 0;
    for (const dataset_array& a : data.manifest().arrays) bytes += a.bytes;
    return bytes;
}

/// All that decides the parts: graph, labels and flags.
std::uint64_t identity_of(const dataset& data, const programs::command& self) {
    static constexpr std::string_view ignored[] = {"dataset", "memory", "threads", "graph", "out", "export", "score"};
    std::uint64_t hash = checksum(self.hash(ignored), data.buckets().fingerprint(edge_direction::out));
    for (const char* name : {"labels", "split"})
        if (data.has(name)) hash = checksum(std::as_bytes(data.checksums(name).blocks()), hash);
    return hash;
}

const partition_method& method_of(const partition_flags& flags, const programs::command& self) {
    const auto& all = partition_methods();
    const partition_method& method = *std::ranges::find(all, *flags.partitioner, &partition_method::name);
    for (const char* flag : {"passes", "gamma", "nu", "effort", "chunk", "older", "edge-order", "seed-partitioner"})
        if (self.given(flag) && std::ranges::find(method.flags, flag) == method.flags.end())
            throw usage_error(fmt::format("--{} means nothing to {}", flag, method.name));
    return method;
}

partition_request request_of(const partition_flags& flags, const partition_method& method, std::span<const class_id> labels) {
    constexpr double unlimited = std::numeric_limits<double>::infinity();
    partition_request request{.parts = static_cast<std::uint32_t>(flags.partitions), .labels = labels, .seed = flags.common.seed};
    request.imbalance = number_or_off(flags.imbalance, "imbalance", 0, request.imbalance, unlimited);
    request.balance = flags.balance == "edges" ? balance_by::edges : balance_by::nodes;
    request.label_cap = number_or_off(flags.label_cap, "label-cap", 1, labels.empty() ? 0 : method.label_cap, 0);
    const bool asked = flags.label_cap && request.label_cap != 0;
    if (asked && !method.caps) throw usage_error(fmt::format("--label-cap: {} knows no labels", method.name));
    if ((asked || method.needs_labels) && labels.empty())
        throw usage_error(fmt::format("{} needs labels, {} has none: import them with --labels",
            asked ? "--label-cap" : method.name, flags.dataset.string()));
    return request;
}

nlohmann::ordered_json kept_json(const partition_quality& q) {
    auto kept = nlohmann::ordered_json::array();
    const neighbour_counts& of = q.training.nodes != 0 ? q.training : q.all;
    for (std::uint32_t together = 1; together <= q.parts; together *= 2)
        kept.push_back({{"together", together}, {"neighbours", of.kept(together, q.parts)}});
    return kept;
}

/// What became of a run, for people and scripts.
struct outcome {
    partition_quality quality{};
    double prepare_seconds = 0, partition_seconds = 0, quality_seconds = 0, seconds = 0;
    std::uint64_t disk_bytes = 0;
    std::uint32_t resumed_step = 0;
    bool in_memory = false, labels = false;
    std::string method{};
};

void tell(const partition_flags& flags, const dataset& data, const outcome& made) {
    const partition_quality& q = made.quality;
    if (flags.common.json) {
        nlohmann::ordered_json result{{"seconds", made.seconds}, {"prepare_seconds", made.prepare_seconds},
            {"partition_seconds", made.partition_seconds}, {"quality_seconds", made.quality_seconds},
            {"peak_rss_bytes", programs::peak_rss()}, {"peak_disk_bytes", made.disk_bytes},
            {"memory_bytes", flags.common.memory_bytes()}, {"threads", flags.common.thread_count()},
            {"graph", made.in_memory ? "memory" : "disk"}, {"nodes", data.manifest().nodes}, {"edges", q.edges},
            {"partitioner", made.method}, {"partitions", q.parts}, {"parts_used", q.parts_used}, {"cut", q.cut},
            {"cut_edges", q.cut_edges}, {"node_imbalance", q.node_imbalance}, {"edge_imbalance", q.edge_imbalance}};
        if (made.labels) result["label_imbalance"] = q.label_imbalance;
        result["neighbours"] = (q.training.nodes != 0 ? q.training : q.all).mean();
        result["kept"] = kept_json(q);
        if (made.resumed_step != 0) result["resumed_step"] = made.resumed_step;
        if (flags.out) result["out"] = flags.out->string();
        fmt::print("{}\n", result.dump());
        return;
    }
    programs::table table({{"partitioner", programs::align::left}, {"parts"}, {"cut"}, {"nodes"}, {"edges"}, {"labels"}, {"seconds"},
        {"peak RSS"}});
    const auto percent = [](double share) { return fmt::format("{:+.1f}%", 100 * share); };
    table.add({made.method, std::to_string(q.parts), fmt::format("{:.4f}", q.cut), percent(q.node_imbalance), percent(q.edge_imbalance),
        made.labels ? percent(q.label_imbalance) : "-", fmt::format("{:.2f}", made.partition_seconds), format_bytes(programs::peak_rss())});
    fmt::print("{}", table.str());
    fmt::print("{} nodes, {} edges, {} cut; neighbours in memory with 1, 2, 4 … parts together:", data.manifest().nodes, q.edges, q.cut_edges);
    const neighbour_counts& of = q.training.nodes != 0 ? q.training : q.all;
    for (std::uint32_t together = 1; together <= q.parts; together *= 2)
        fmt::print(" {}", programs::human_percent(of.neighbours == 0 ? 1 : of.kept(together, q.parts) / of.mean()));
    fmt::print("\n");
    if (flags.out) fmt::print("{}\n", flags.out->string());
}

exit_code run_partition(const partition_flags& flags, const programs::command& self) {
    check_dataset(flags.dataset);
    const bool scores = flags.score.has_value();
    if (scores == flags.partitioner.has_value())
        throw usage_error("one of --partitioner NAME and --score FILE.npy says whose parts they are");
    if (scores && flags.out) throw usage_error("--score makes no parts: leave --out out");
    if (!scores && flags.partitions == 0) throw usage_error("--partitions N says how many parts to make");
    const partition_method* const method = scores ? nullptr : &method_of(flags, self);
    if (flags.out) check_file_out(*flags.out, flags.common);
    const auto start = clock::now();
    const dataset data(flags.dataset);
    const std::uint64_t nodes = data.manifest().nodes;
    if (flags.partitions > std::max<std::uint64_t>(nodes, 1))
        throw usage_error(fmt::format("--partitions {}: {} has {} nodes", flags.partitions, flags.dataset.string(), nodes));

    memory_budget budget(flags.common.memory_bytes());
    // Code, stacks, allocator, buffers of open files.
    const auto program = budget.charge("program", std::uint64_t{16} << 20);
    const bool labelled = data.manifest().node_data.classes != 0;
    const auto labels_charge = budget.charge("labels", labelled ? nodes * sizeof(class_id) : 0);
    const std::vector<class_id> labels = labelled ? training_labels(data) : std::vector<class_id>{};
    outcome made{.labels = labelled};
    std::optional<partition_journal_file> journal;
    partition_request request{.parts = static_cast<std::uint32_t>(flags.partitions), .labels = labels};
    any_partitioner chosen;
    std::vector<part_id> parts;
    if (scores) {
        made.method = flags.score->filename().string();
        parts = read_assignment(data, *flags.score);
        const std::uint32_t used = parts.empty() ? 1 : *std::ranges::max_element(parts) + 1U;
        if (flags.partitions == 0) request.parts = used;
        if (used > request.parts)
            throw error(errc::out_of_range, fmt::format("names part {}, --partitions is {}", used - 1, flags.partitions), {.path = *flags.score});
    } else {
        made.method = method->name;
        request = request_of(flags, *method, labels);
        check_request(request, nodes);
        chosen = method->make(flags.method);
        const edge_index arcs = 2 * data.buckets().edges();
        constexpr std::uint64_t stream = std::uint64_t{18} << 20; // that lists are read through
        const std::uint64_t left = budget.available() - std::min(budget.available(), stream);
        for (std::uint64_t edges = (nodes + arcs / 4) / 2; edges > 4096 && chosen.with_edges && chosen.memory(nodes, arcs, request) > left; edges /= 2)
            chosen = chosen.with_edges(edges); // coarser clusters, where memory is short
        if (flags.out) {
            std::filesystem::path path = *flags.out;
            path += ".journal";
            if (flags.common.force) std::filesystem::remove(path);
            journal.emplace(path, identity_of(data, self));
            request.journal = &*journal;
            made.resumed_step = journal->step();
        }
    }
    const auto working = budget.charge(scores ? "parts" : "partitioner " + made.method,
        scores ? nodes * sizeof(part_id) : chosen.memory(nodes, 2 * data.buckets().edges(), request));

    const programs::interrupt_guard interrupts;
    phase_progress progress(flags.common.quiet);
    const tbb_executor on(flags.common.thread_count());
    if (made.resumed_step != 0) progress.line().say(fmt::format("going on after step {}, which an earlier run had saved", made.resumed_step));
    programs::graph_stream from = programs::open_graph(data, budget, flags.graph, on, interrupts.token(), std::ref(progress));
    made.in_memory = from.in_memory;
    made.prepare_seconds = seconds_since(start);
    request.stop = interrupts.token();
    request.progress = std::ref(progress);
    disk_scratch place(flags.out && flags.out->has_parent_path() ? flags.out->parent_path() : std::filesystem::path("."));
    const auto began = clock::now();
    if (!scores) {
        parts = chosen.run(from.graph, request, place, on);
        made.partition_seconds = seconds_since(began);
        if (flags.out)
            write_assignment(data, parts, request.parts, made.method, *flags.out,
                flags.format == "metis"     ? assignment_format::metis
                : flags.format == "distdgl" ? assignment_format::distdgl
                                            : assignment_format::npy);
    }
    const auto measured = clock::now();
    progress("quality", 0, 0);
    made.quality = measure_partition(from.graph, parts, request.parts, labels);
    made.quality_seconds = seconds_since(measured);
    made.disk_bytes = disk_bytes(data) + from.disk_bytes + place.peak_bytes() + (journal ? journal->bytes() : 0);
    if (journal) journal->remove();
    made.seconds = seconds_since(start);
    progress.line().clear();
    tell(flags, data, made);
    return exit_code::done;
}

} // namespace

void add_partition(programs::command_line& to) {
    const auto flags = std::make_shared<partition_flags>();
    programs::command& command = to.add("partition",
        "Gives every node of a dataset a part, so that few edges lie between parts; or tells how good given parts are.",
        [flags](programs::command& self) { return run_partition(*flags, self); });
    std::vector<std::string> names;
    for (const partition_method& method : partition_methods()) names.push_back(method.name);
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.group("Parts");
    command.option("partitioner", flags->partitioner, "who makes the parts").choices(names);
    command.option("partitions", flags->partitions, "how many").default_text("with --score, as in the file").range(1, max_parts);
    command.option("out", flags->out, "where the part of each node goes").value_name("FILE").default_text("only measured");
    command.option("export", flags->format, "form of --out: an array; a number a line; a directory for DGL")
        .choices({"npy", "metis", "distdgl"});
    command.option("score", flags->score, "measures these parts: integers [nodes], .npy").value_name("FILE.npy");
    command.option("graph", flags->graph, "where the graph is: memory; disk, as lists that are streamed; auto: memory if it fits")
        .choices({"auto", "memory", "disk"});
    command.group("Balance");
    command.option("balance", flags->balance, "what parts have alike: nodes, or edges of their nodes").choices({"nodes", "edges"});
    command.option("imbalance", flags->imbalance, "how far a part may exceed the mean; off: as far as it likes")
        .value_name("X|off").default_text("0.03");
    command.option("label-cap", flags->label_cap, "training nodes of a label in a part, at most, over their mean; off: any number")
        .value_name("X|off").default_text("1.05 for gap, else off");
    command.group("Partitioners");
    command.option("passes", flags->method.passes, "times that nodes are placed (ldg, fennel, gap), or refined (band, semi); over all chunks (grem)")
        .default_text("the partitioner's").range(1, 1e6);
    command.option("gamma", flags->method.gamma, "how steeply balance counts (fennel, gap)").default_text("1.5");
    command.option("effort", flags->method.effort, "time for quality (multilevel)").choices({"fast", "normal", "high"}).default_text("normal");
    command.option("chunk", flags->method.chunk, "share of the edges that is in memory at once (grem)").default_text("0.1").range(0, 1);
    command.option("older", flags->method.older, "weight of earlier chunks in an estimate; 1: nodes stay where they were first (grem)")
        .default_text("0.5").range(0, 1);
    command.option("edge-order", flags->method.edge_order, "random: edges are shuffled first (grem)").choices({"random", "given"})
        .default_text("random");
    command.option("seed-partitioner", flags->method.seed_partitioner, "of the first chunk (grem)")
        .choices({"multilevel", "metis"}).default_text("multilevel");
    command.option("nu", flags->method.nu, "fennel's cap over the mean, instead of --imbalance").default_text("as --imbalance").range(1);
    flags->common.add_to(command);
}

} // namespace data_tool
