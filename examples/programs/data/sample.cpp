// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "commands.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/graph_in_memory.hpp"
#include "kit/graph/sample_checksum.hpp"
#include "kit/graph/sample_memory.hpp"
#include "kit/graph/sampler_kinds.hpp"
#include "kit/report/records.hpp"
#include "kit/report/statistics.hpp"

namespace data_tool {
namespace {

using namespace gneiss;
using programs::exit_code;

constexpr std::uint64_t warm_up = 3; // batches that are not counted, while memory is first touched

struct sample_flags {
    std::filesystem::path dataset{}, seeds{};
    std::string sampler = "dense", fanout = "10,10", direction = "in", graph = "csr";
    std::uint64_t batch = 1000, batches = 20;
    bool replace = false;
    common_flags common{};
};

/// The seed nodes of each batch, warm-up batches first.
struct seed_batches {
    std::uint64_t count = 0, width = 0, uncounted = warm_up;
    std::function<void(std::uint64_t batch, std::vector<node_id>& to)> fill{}; ///< replaces the contents
};

seed_batches drawn_seeds(const sample_flags& flags, std::uint64_t nodes) {
    if (flags.batch > nodes)
        throw programs::usage_error(
            fmt::format("--batch {} exceeds the {} nodes of the graph: give fewer", flags.batch, nodes));
    return {.count = flags.batches + warm_up,
        .width = flags.batch,
        .fill = [&flags, nodes](std::uint64_t b, std::vector<node_id>& to) {
            const keyed_permutation order(nodes, random_key(flags.common.seed, random_domain::user).with(b));
            to.clear();
            for (std::uint64_t i = 0; i < flags.batch; ++i) to.push_back(static_cast<node_id>(order(i)));
        }};
}

/// Reads seeds from a file [batches, batch]: source ids, or rows if nodes have names.
seed_batches given_seeds(const sample_flags& flags, const programs::command& self, const dataset& data) {
    const auto file = std::make_shared<const mapped_npy>(flags.seeds);
    if (file->header().shape.size() != 2)
        throw error(
            errc::invalid_format, "seeds are a matrix [batches, batch]", {.path = flags.seeds, .field = "shape"});
    const std::uint64_t rows = file->header().rows(), width = file->header().row_size();
    if (self.given("batch") && flags.batch != width)
        throw programs::usage_error(fmt::format("--batch {}, but the seeds have {} in a row", flags.batch, width));
    if (rows == 0) throw error(errc::invalid_argument, "has no batch of seeds", {.path = flags.seeds});
    seed_batches result{.count = rows, .width = width, .uncounted = std::min(warm_up, rows - 1)};
    if (self.given("batches")) {
        if (rows < flags.batches)
            throw programs::usage_error(fmt::format("--batches {}, but there are seeds for {}", flags.batches, rows));
        result.uncounted = std::min(warm_up, rows - flags.batches);
        result.count = flags.batches + result.uncounted;
    }
    result.fill = [&flags, &data, file](std::uint64_t b, std::vector<node_id>& to) {
        to.clear();
        for (const std::int64_t node : file->matrix<std::int64_t>()[static_cast<std::size_t>(b)]) {
            const auto found = node < 0 ? std::nullopt : data.row_of(static_cast<std::uint64_t>(node));
            if (!found)
                throw error(errc::out_of_range,
                    fmt::format("seed {} in row {} of a graph of {} nodes", node, b, data.manifest().nodes),
                    {.path = flags.seeds});
            to.push_back(static_cast<node_id>(*found));
        }
    };
    std::vector<node_id> some;
    for (std::uint64_t b = 0; b < result.count; ++b) result.fill(b, some); // reports wrong ones before the work
    return result;
}

/// Measurements of each counted batch.
struct measured {
    std::vector<double> ms, ns_per_edge, nodes, edges;
    std::vector<std::uint64_t> checksums;
};

template <class Sampler, neighbor_source G>
measured measure(Sampler&& sampler, const G& graph, const seed_batches& seeds, executor_ref executor) {
    measured result;
    mini_batch_arena arena;
    std::vector<node_id> roots;
    for (std::uint64_t b = 0; b < seeds.count; ++b) {
        seeds.fill(b, roots);
        const auto start = std::chrono::steady_clock::now();
        const auto sample = sampler.sample({0, {0, 0, b}}, graph, std::span<const node_id>(roots), executor, arena);
        const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
        if (b < seeds.uncounted) continue;
        const auto edges = static_cast<double>(sample.edges());
        result.ms.push_back(ns * 1e-6);
        result.ns_per_edge.push_back(ns / std::max(edges, 1.0));
        result.edges.push_back(edges);
        result.checksums.push_back(programs::sample_checksum(sample));
        if constexpr (requires { sample.node_ids; })
            result.nodes.push_back(static_cast<double>(sample.node_ids.size()));
        else
            result.nodes.push_back(static_cast<double>(sample.nodes.size()));
    }
    return result;
}

template <neighbor_source G>
measured measure(const sample_flags& flags, const std::vector<hop_fanout>& hops, const G& graph,
    const seed_batches& seeds, executor_ref executor) {
    const neighbor_options options{hops, flags.replace};
    if (flags.sampler == "dense") return measure(dense_sampler<>(options, flags.common.seed), graph, seeds, executor);
    if (flags.sampler == "layerwise")
        return measure(layerwise_sampler<>(options, flags.common.seed), graph, seeds, executor);
    return measure(neighbor_sampler<>(options, flags.common.seed), graph, seeds, executor);
}

exit_code sample(const sample_flags& flags, const programs::command& self) {
    check_dataset(flags.dataset);
    const std::vector<hop_fanout> hops = [&] {
        try {
            auto result = parse_fanout(flags.fanout, programs::parse_direction(flags.direction));
            if (flags.sampler == "layerwise") (void)layerwise_sampler<>({result, flags.replace}, 0); // refuses some
            return result;
        } catch (const error& e) {
            throw programs::usage_error(e.what());
        }
    }();
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const dataset data(flags.dataset);
    const seed_batches seeds =
        flags.seeds.empty() ? drawn_seeds(flags, data.manifest().nodes) : given_seeds(flags, self, data);
    const bucket_store store = data.buckets();
    const neighbor_direction keeps = programs::directions_of(hops);
    const serial_executor one;
    const tbb_executor many(flags.common.thread_count());
    const executor_ref executor = flags.common.thread_count() == 1 ? executor_ref(one) : executor_ref(many);

    memory_budget budget(flags.common.memory_bytes());
    const auto program = budget.charge({"program", std::uint64_t{16} << 20});
    const auto charge_samples = [&] {
        const std::uint64_t measurements = 2 * 4 * sizeof(double) * seeds.count; // growing lists
        return budget.charge({"samples",
            measurements + seeds.width * sizeof(node_id) +
                programs::sample_memory(
                    data.manifest(), programs::sampler_named(flags.sampler), {hops, flags.replace}, seeds.width)});
    };
    double load_seconds = 0;
    measured created;
    std::uint64_t graph_bytes = 0;
    if (flags.graph == "csr") {
        graph_bytes = programs::bytes_in_memory(store, keeps);
        const auto charge = budget.charge({"graph", graph_bytes});
        const csr_graph<> graph = programs::read_graph(store, keeps, budget);
        load_seconds = seconds();
        const auto samples = charge_samples();
        created = measure(flags, hops, graph, seeds, executor);
    } else {
        const epoch_plan all = in_memory_order(store.rows().partitions)(0);
        graph_bytes = graph_buffer::need(all, store, keeps).bytes;
        graph_buffer buffer(store, [] { return any_engine(threads_engine()); }, keeps, graph_bytes, budget);
        buffer.begin_epoch(all);
        const auto graph = buffer.acquire(0);
        load_seconds = seconds();
        const auto samples = charge_samples();
        created = measure(flags, hops, *graph, seeds, executor);
    }
    const std::uint64_t batches = created.ms.size();
    if (flags.common.json) {
        const nlohmann::ordered_json result{{"seconds", seconds()}, {"peak_rss_bytes", programs::peak_rss()},
            {"nodes", data.manifest().nodes}, {"edges", store.edges()}, {"sampler", flags.sampler},
            {"fanout", flags.fanout}, {"direction", flags.direction}, {"graph", flags.graph}, {"batch", seeds.width},
            {"batches", batches}, {"threads", flags.common.thread_count()}, {"load_seconds", load_seconds},
            {"graph_bytes", graph_bytes}, {"ms_per_batch", programs::median(created.ms)},
            {"ms_min", std::ranges::min(created.ms)}, {"ms_max", std::ranges::max(created.ms)},
            {"nodes_per_batch", programs::median(created.nodes)}, {"edges_per_batch", programs::median(created.edges)},
            {"ns_per_edge", programs::median(created.ns_per_edge)},
            {"samples_xxh3", fmt::format("{:016x}", programs::samples_checksum(created.checksums))}};
        programs::print_json_line(result);
        return exit_code::done;
    }
    programs::table table({{"sampler", programs::align::left}, {"batches"}, {"ms per batch"}, {"least"}, {"most"},
        {"nodes"}, {"edges"}, {"ns per edge"}});
    table.add({fmt::format("{} {}", flags.sampler, to_string(hops)), std::to_string(batches),
        fmt::format("{:.3f}", programs::median(created.ms)), fmt::format("{:.3f}", std::ranges::min(created.ms)),
        fmt::format("{:.3f}", std::ranges::max(created.ms)), fmt::format("{:.0f}", programs::median(created.nodes)),
        fmt::format("{:.0f}", programs::median(created.edges)),
        fmt::format("{:.1f}", programs::median(created.ns_per_edge))});
    programs::print_text(table.str());
    programs::print_text("medians; the graph takes {} and was loaded in {}\n", format_bytes(graph_bytes),
        programs::human_seconds(load_seconds));
    return exit_code::done;
}

} // namespace

void add_sample(programs::command_line& to) {
    const auto flags = std::make_shared<sample_flags>();
    programs::command& command = to.add("sample", "Measures batch sizes and speed of a neighbor sampler.",
        [flags](programs::command& self) { return sample(*flags, self); });
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.group("Sampling");
    command
        .option("sampler", flags->sampler,
            "dense: draws for each node once per batch; neighbor: draws at each hop; layerwise: draws the nodes of a "
            "hop together, as many as --fanout")
        .choices({"dense", "neighbor", "layerwise"})
        .formerly("neighbour", "neighbor");
    command.option("fanout", flags->fanout, "neighbors per hop, seeds first; A+B: in and out; all").value_name("LIST");
    command.option("direction", flags->direction, "direction of edges to neighbors").choices({"in", "out", "both"});
    command.option("replace", flags->replace, "draw with replacement");
    command.option("batch", flags->batch, "seed nodes per batch").range(1);
    command.option("batches", flags->batches, "batches to measure, after 3 uncounted ones").range(1, 1e9);
    command.option("seeds", flags->seeds, "int64 [batches, batch] of nodes; the first 3 rows are not counted")
        .value_name("FILE.npy")
        .default_text("uniform");
    command.option("graph-store", flags->graph, "csr: compressed rows; blocks: edge buckets, as a buffer holds them")
        .choices({"csr", "blocks"})
        .formerly("graph");
    flags->common.add_to(command);
    command.example("gneiss-data sample data/mine --sampler dense --fanout 10,10 --batch 1000");
}

} // namespace data_tool
