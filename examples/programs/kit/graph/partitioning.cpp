// SPDX-License-Identifier: Apache-2.0
#include "kit/graph/partitioning.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/graph/without_nodes.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/io/partition_journal_file.hpp>
#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>
#include <gneiss/storage/edge/disk_scratch.hpp>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/graph_stream.hpp"

namespace programs {
namespace {

using namespace gneiss;
using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

/// Returns labels of training nodes by row; other nodes are unlabeled. Empty without labels. 4 bytes per node.
std::vector<class_id> training_labels(const dataset& data) {
    if (data.manifest().node_attributes.classes == 0) return {};
    const auto labels = data.labels();
    const auto classes = classes_of(labels.values());
    std::vector<class_id> found(classes.begin(), classes.end());
    if (!data.has("labels")) found.assign(data.manifest().nodes, 0); // rows of targets: training nodes are one class
    const auto parts = data.node_splits();
    for (std::size_t row = 0; row < parts.values().size() && row < found.size(); ++row)
        if (parts.values()[row] != static_cast<std::uint8_t>(node_split::train)) found[row] = unlabeled;
    return found;
}

memory_charge charge_labels(const dataset& data, memory_budget& budget) {
    return budget.charge(
        {"labels", data.manifest().node_attributes.classes != 0 ? data.manifest().nodes * sizeof(class_id) : 0});
}

/// Returns the bytes of a dataset's files.
std::uint64_t disk_bytes(const dataset& data) {
    std::uint64_t bytes = 0;
    for (const dataset_array& a : data.manifest().arrays) bytes += a.bytes;
    return bytes;
}

/// Adds labels and splits to a hash.
std::uint64_t with_labels(const dataset& data, std::uint64_t hash) {
    for (const char* name : {"labels", "split"})
        if (data.has(name)) hash = checksum(std::as_bytes(data.checksums(name).blocks()), hash);
    return hash;
}

/// Hashes everything that determines the result: graph, labels and job.
std::uint64_t identity_of(
    const dataset& data, const partition_job& job, const partition_request& request, const partitioner_flags& f) {
    const auto text = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string("-"); };
    const std::string all =
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", job.method.name, request.parts, request.seed,
            request.imbalance, request.label_cap, static_cast<int>(request.balance), text(f.passes), text(f.gamma),
            text(f.nu), text(f.chunk), text(f.older), text(f.effort), text(f.edge_order), text(f.seed_partitioner));
    std::uint64_t hash = checksum(std::as_bytes(std::span(all)), data.buckets().fingerprint(edge_direction::out));
    if (!f.initial.empty()) hash = checksum(std::as_bytes(f.initial), hash);
    if (!job.hubs.empty()) hash = checksum(std::as_bytes(std::span(job.hubs)), hash);
    return with_labels(data, hash);
}

partition_request request_of(const dataset& data, const partition_job& job, std::span<const class_id> labels) {
    partition_request request{.parts = job.parts, .labels = labels, .seed = job.seed};
    request.imbalance = job.imbalance.value_or(request.imbalance);
    request.balance = job.balance;
    request.label_cap = job.label_cap.value_or(labels.empty() ? 0 : job.method.label_cap);
    const bool asked = job.label_cap && request.label_cap != 0;
    if (asked && !job.method.caps)
        throw usage_error(fmt::format("--label-cap: {} does not use labels", job.method.name));
    if ((asked || job.method.needs_labels) && labels.empty())
        throw usage_error(fmt::format("{} needs labels, {} has none: import them with --labels",
            asked ? "--label-cap" : job.method.name, data.directory().string()));
    return request;
}

void check_parts(const dataset& data, std::uint32_t parts) {
    const std::uint64_t nodes = data.manifest().nodes;
    if (parts > std::max<std::uint64_t>(nodes, 1))
        throw usage_error(fmt::format(
            "--partitions {} exceeds the {} nodes of {}: give fewer", parts, nodes, data.directory().string()));
}

graph_stream opened(const dataset& data, const graph_work& with, std::span<const node_id> hubs = {}) {
    graph_stream result = open_graph(data, with.budget, with.graph, with.scratch, with.on, with.stop, with.progress);
    if (!hubs.empty()) result.graph = any_adjacency(without_nodes(std::move(result.graph), hubs));
    return result;
}

void measure(partition_result& result, graph_stream& graph, std::span<const partition_id16> parts, std::uint32_t count,
    std::span<const class_id> labels, const graph_work& with) {
    const auto began = clock::now();
    with.progress("quality", 0, 0);
    result.quality = measure_partition(graph.graph, parts, count, labels);
    result.quality_seconds = seconds_since(began);
}

/// Nodes by descending influence, and the share of the total that each has.
struct ranked_nodes {
    std::vector<node_id> nodes{};
    std::vector<double> shares{};
};

template <class Score>
ranked_nodes greatest(const std::vector<Score>& scores, std::uint64_t count) {
    ranked_nodes found{.nodes = most_influential(std::span<const Score>(scores), static_cast<std::size_t>(count))};
    const double all = std::accumulate(scores.begin(), scores.end(), 0.);
    for (const node_id v : found.nodes) found.shares.push_back(all == 0 ? 0 : static_cast<double>(scores[v]) / all);
    return found;
}

/// Returns how many of the first nodes, with the edges among them, fit the memory limit of the job.
std::size_t fitting(any_adjacency& graph, std::span<const node_id> hubs, const hub_job& job) {
    constexpr node_id none = ~node_id{0};
    std::vector<node_id> rank(static_cast<std::size_t>(graph.nodes()), none);
    for (std::size_t i = 0; i < hubs.size(); ++i) rank[hubs[i]] = static_cast<node_id>(i);
    std::vector<std::uint64_t> before(hubs.size()); // edges of each to those before it
    graph.rewind();
    for (adjacency_chunk chunk = graph.next(); !chunk.empty(); chunk = graph.next())
        for (std::size_t i = 0; i < chunk.size(); ++i)
            if (const node_id mine = rank[chunk.node(i)]; mine != none)
                for (const node_id u : chunk.list(i)) before[mine] += rank[u] < mine;
    std::size_t fit = 0;
    for (std::uint64_t bytes = 0; fit < hubs.size(); ++fit) {
        bytes += job.node_bytes + before[fit] * job.edge_bytes;
        if (bytes > job.most_bytes) break;
    }
    return fit;
}

std::filesystem::path journal_of(std::filesystem::path out) {
    out += ".journal";
    return out;
}

/// Parts of nodes, and the files from which their interrupted run would resume.
struct placed_nodes {
    std::vector<partition_id16> parts{};
    std::vector<std::filesystem::path> resumable{};
    std::uint64_t memory_bytes = 0; ///< charged while they were placed
};

placed_nodes place_nodes(
    const dataset& data, const partition_job& job, graph_work& with, partition_result& result, bool measured);

/// Places nodes and, if the job has an output, writes their parts. Returns the memory charged.
std::uint64_t keep_parts(
    const dataset& data, const partition_job& job, graph_work& with, partition_result& result, bool measured) {
    const placed_nodes placed = place_nodes(data, job, with, result, measured);
    if (job.out)
        write_assignment(
            data, placed.parts, job.parts, result.method, *job.out, job.format); // last: resumable until then
    for (const std::filesystem::path& file : placed.resumable) std::filesystem::remove(file);
    return placed.memory_bytes;
}

/// Returns the parts that a job refines. Those of a partitioner are kept in a file until the job is done.
placed_nodes initial_parts(const dataset& data, const partition_job& job, graph_work& with) {
    if (!job.initial) return {};
    const partition_method* const method = find_method(*job.initial);
    if (method == nullptr) {
        placed_nodes given{.parts = read_assignment(data, *job.initial)};
        if (const std::uint32_t used = given.parts.empty() ? 0 : *std::ranges::max_element(given.parts) + 1U;
            used > job.parts)
            throw usage_error(
                fmt::format("--initial {}: names partition {}, --partitions is {}", *job.initial, used - 1, job.parts));
        return given;
    }
    if (method->needs_labels && data.manifest().node_attributes.classes == 0)
        throw usage_error(fmt::format("--initial: {} needs labels, {} has none: import them with --labels",
            method->name, data.directory().string()));
    partition_job first{.method = *method,
        .parts = job.parts,
        .seed = job.seed,
        .imbalance = job.imbalance,
        .label_cap = 0,
        .balance = job.balance,
        .hubs = job.hubs};
    partition_result unused;
    if (!job.out) return place_nodes(data, first, with, unused, false);
    const std::string all = fmt::format("{} {} {} {}", method->name, job.parts, job.seed, job.imbalance.value_or(-1));
    const std::uint64_t hash =
        with_labels(data, checksum(std::as_bytes(std::span(all)), data.buckets().fingerprint(edge_direction::out))) +
        (job.balance == balance_by::edges ? 1 : 0) +
        (job.hubs.empty() ? 0 : checksum(std::as_bytes(std::span(job.hubs))));
    first.out = *job.out;
    *first.out += fmt::format(".initial-{:016x}.npy", hash);
    if (job.ignore_journal) std::filesystem::remove(*first.out);
    first.ignore_journal = job.ignore_journal;
    const std::uint64_t memory = std::filesystem::exists(*first.out) ? 0 : keep_parts(data, first, with, unused, false);
    return {.parts = read_assignment(data, *first.out), .resumable = {*first.out}, .memory_bytes = memory};
}

placed_nodes place_nodes(
    const dataset& data, const partition_job& job, graph_work& with, partition_result& result, bool measured) {
    const auto start = clock::now();
    check_parts(data, job.parts);
    const placed_nodes initial = initial_parts(data, job, with); // before anything is charged
    const double initial_seconds = seconds_since(start);
    const auto refined = with.budget.charge({"initial parts", initial.parts.size() * sizeof(partition_id16)});
    const std::uint64_t nodes = data.manifest().nodes;
    const edge_index arcs = 2 * data.buckets().edges();
    const auto labels_charge = charge_labels(data, with.budget);
    const auto hubs_charge = with.budget.charge({"hubs", job.hubs.empty() ? 0 : 4 * job.hubs.size() + nodes / 8});
    const std::vector<class_id> labels = training_labels(data);
    result = {.method = job.method.name, .labels = !labels.empty()};
    partition_request request = request_of(data, job, labels);
    check_request(request, nodes);

    partitioner_flags flags = job.flags;
    flags.initial = initial.parts;
    any_partitioner chosen = job.method.make(flags);
    std::optional<partition_journal_file> journal;
    if (job.out) {
        const std::filesystem::path path = journal_of(*job.out);
        if (job.ignore_journal) std::filesystem::remove(path);
        journal.emplace(path, identity_of(data, job, request, flags), with.budget.available());
        request.journal = &*journal;
        result.resumed_step = journal->step();
    }
    const std::uint64_t stream = adjacency_file_stream::need(nodes, arcs / 2).bytes;
    const std::uint64_t left = with.budget.available() - std::min(with.budget.available(), stream);
    for (std::uint64_t edges = (nodes + arcs / 4) / 2;
        edges > 4096 && chosen.with_edges && chosen.memory(nodes, arcs, request) > left; edges /= 2)
        chosen = chosen.with_edges(edges); // coarser clusters if memory is short
    const auto working = with.budget.charge({"partitioner " + job.method.name, chosen.memory(nodes, arcs, request)});
    if (result.resumed_step != 0)
        with.say(fmt::format("resuming after step {}, saved by an earlier run", result.resumed_step));
    graph_stream from = opened(data, with, job.hubs);
    result.in_memory = from.in_memory;
    result.memory_bytes = std::max(with.budget.used(), initial.memory_bytes);
    result.prepare_seconds = seconds_since(start) - initial_seconds;

    request.stop = with.stop;
    request.progress = with.progress;
    disk_scratch place(job.out && job.out->has_parent_path() ? job.out->parent_path() : std::filesystem::path("."));
    const auto began = clock::now();
    placed_nodes placed{.parts = chosen.run(from.graph, request, place, with.on),
        .resumable = initial.resumable,
        .memory_bytes = result.memory_bytes};
    result.partition_seconds = seconds_since(began) + initial_seconds;
    if (measured) measure(result, from, placed.parts, request.parts, labels, with);
    result.disk_bytes = disk_bytes(data) + from.disk_bytes + place.peak_bytes() + (journal ? journal->bytes() : 0);
    if (journal) placed.resumable.push_back(journal_of(*job.out));
    return placed;
}

} // namespace

partition_result make_parts(const dataset& data, const partition_job& job, graph_work& with) {
    partition_result result;
    (void)keep_parts(data, job, with, result, true);
    return result;
}

partition_result score_parts(
    const dataset& data, const std::filesystem::path& file, std::uint32_t parts, graph_work& with) {
    const auto start = clock::now();
    check_parts(data, parts);
    const auto labels_charge = charge_labels(data, with.budget);
    const std::vector<class_id> labels = training_labels(data);
    const auto charge = with.budget.charge({"parts", data.manifest().nodes * sizeof(partition_id16)});
    const std::vector<partition_id16> given = read_assignment(data, file);
    const std::uint32_t used = given.empty() ? 1 : *std::ranges::max_element(given) + 1U;
    if (parts == 0) parts = used;
    if (used > parts)
        throw error(
            errc::out_of_range, fmt::format("names partition {}, --partitions is {}", used - 1, parts), {.path = file});
    graph_stream from = opened(data, with);
    partition_result result{.method = file.filename().string(),
        .prepare_seconds = seconds_since(start),
        .memory_bytes = with.budget.used(),
        .disk_bytes = disk_bytes(data) + from.disk_bytes,
        .in_memory = from.in_memory,
        .labels = !labels.empty()};
    measure(result, from, given, parts, labels, with);
    return result;
}

hub_result choose_hubs(const dataset& data, const hub_job& job, graph_work& with) {
    const auto start = clock::now();
    const std::uint64_t nodes = data.manifest().nodes, training = data.manifest().node_attributes.train;
    if (job.count == 0) throw usage_error(fmt::format("--hubs: give at least 1 of {} nodes", nodes));
    if (training == 0)
        throw usage_error(
            data.directory().string() + " has no training nodes: import it with --labels and --split, or --fractions");
    const auto scores = with.budget.charge({"two scores a node", 8 * nodes});
    const auto few = with.budget.charge({"training nodes and hubs", 4 * training + 20 * job.count});
    graph_stream from = opened(data, with);
    const std::uint64_t planned = with.budget.used();
    const std::vector<node_id> seeds = data.nodes_of(node_split::train);
    const influence_options options{.steps = job.steps, .lazy = job.lazy, .stop = with.stop};
    with.progress("walks", 0, 0);
    ranked_nodes found = job.sampled == 0
        ? greatest(influence(from.graph, seeds, options), job.count)
        : greatest(sampled_influence(from.graph, seeds, job.sampled, job.seed, options), job.count);
    if (job.most_bytes != 0) {
        const std::size_t fit = fitting(from.graph, found.nodes, job);
        found.nodes.resize(fit);
        found.shares.resize(fit);
    }
    write_nodes(data, found.nodes, job.out);
    return {.hubs = found.nodes.size(),
        .influence_share = std::accumulate(found.shares.begin(), found.shares.end(), 0.),
        .seconds = seconds_since(start),
        .memory_bytes = planned,
        .edges = from.graph.arcs() / 2,
        .in_memory = from.in_memory};
}

} // namespace programs
