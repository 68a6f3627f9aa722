// SPDX-License-Identifier: Apache-2.0
#include "rates.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/process.hpp"

namespace data_tool {
namespace {

namespace fs = std::filesystem;

/// A generated graph: nodes linked by chance, four classes, and features that say nothing.
struct sample_graph {
    std::uint64_t nodes = 0, edges = 0, columns = 0;
    std::uint64_t entries = 0; ///< of a sparse row; 0: rows are dense

    [[nodiscard]] gneiss::edge edge(std::uint64_t number) const {
        return {.source = static_cast<gneiss::node_id>(gneiss::mix64(2 * number) % nodes),
            .destination = static_cast<gneiss::node_id>(gneiss::mix64(2 * number + 1) % nodes)};
    }
    [[nodiscard]] gneiss::import_options import_options(const fs::path& out, const std::stop_token& stop) const {
        gneiss::import_options options;
        options.out = out;
        options.ids = gneiss::id_kind::integer;
        options.stop = stop;
        gneiss::import_source source{.path = "generated"};
        source.compute = [graph = *this](std::uint64_t first, std::span<gneiss::edge> to) {
            for (gneiss::edge& one : to) one = graph.edge(first++);
        };
        source.computed_edges = edges;
        source.computed_nodes = nodes;
        source.fingerprint = fmt::format("{} {} {} {}", nodes, edges, columns, entries);
        options.sources.push_back(std::move(source));
        if (columns == 0) return options;
        gneiss::import_node_attributes& attributes = options.node_attributes;
        attributes.nodes = nodes;
        attributes.classes = 4;
        attributes.compute_label = [](std::uint64_t node) { return static_cast<std::int32_t>(node % 4); };
        if (entries != 0) {
            attributes.num_features = columns;
            attributes.compute_sparse = [graph = *this](
                                            std::uint64_t node, std::vector<std::uint32_t>& to, std::vector<float>&) {
                const std::uint64_t step = graph.columns / graph.entries;
                to.clear();
                for (std::uint64_t i = 0; i < graph.entries; ++i)
                    to.push_back(static_cast<std::uint32_t>(i * step + gneiss::mix64(node * graph.entries + i) % step));
            };
        } else {
            attributes.computed_columns = columns;
            attributes.compute_features = [](std::uint64_t node, std::span<float> to) {
                for (std::size_t i = 0; i < to.size(); ++i)
                    to[i] = static_cast<float>(gneiss::mix64(node * to.size() + i) % 1024) / 1024;
            };
        }
        return options;
    }
};

/// Runs a trainer for three epochs and returns the seconds of the fastest. Throws errc::unsupported unless the program
/// lies next to this one; errc::io with what it says.
double train(const std::string& program, const fs::path& data, const fs::path& run, programs::arguments flags,
    const std::stop_token& stop) {
    const fs::path trainer = fs::read_symlink("/proc/self/exe").parent_path() / program;
    programs::arguments command{trainer.string(), "train", data.string(), "--out", run.string(), "--epochs", "3",
        "--memory", "512MiB", "--no-eval", "--no-report", "--json", "--quiet"};
    command.insert(command.end(), flags.begin(), flags.end());
    const auto result = nlohmann::ordered_json::parse(programs::output_of(command, stop));
    double least = std::numeric_limits<double>::infinity();
    for (const auto& epoch : result.at("epochs")) least = std::min(least, epoch.at("seconds").get<double>());
    return least;
}

/// A GNN on a generated graph.
struct gnn_sample {
    sample_graph graph;
    std::uint64_t width = 0;  ///< of the hidden layer
    std::uint64_t fanout = 0; ///< 0: all
    std::uint64_t batch = 1000;

    [[nodiscard]] programs::epoch_work work() const {
        const double batches = std::ceil(static_cast<double>(graph.nodes) / static_cast<double>(batch));
        return programs::work_of(programs::gnn_epoch_shape{.nodes = graph.nodes,
            .neighbors = graph.edges,
            .seeds = static_cast<double>(graph.nodes) / batches,
            .batches = batches,
            .fanout = {fanout, fanout},
            .layers = {{.width = width}, {.width = 4}},
            .columns = graph.columns,
            .entries = static_cast<double>(graph.entries)});
    }
    [[nodiscard]] programs::arguments flags() const {
        const std::string hop = fanout == 0 ? "all" : std::to_string(fanout);
        return {"--layers", fmt::format("sage:{},sage", width), "--fanout", hop + "," + hop, "--direction", "in",
            "--sampler", "neighbor", "--batch", std::to_string(batch)};
    }
};

} // namespace

programs::machine_rates measure_rates(
    const fs::path& directory, const programs::disk_rates& disk, const std::stop_token& stop) {
    const gneiss::scratch_directory within(directory, ".gneiss-doctor-");
    programs::machine_rates rates{.directory = fs::canonical(directory).string(),
        .measured = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))),
        .cpus = programs::usable_cpus(),
        .read_bytes = disk.reads.bandwidth,
        .reads = disk.reads.iops,
        .write_bytes = disk.write};
    const gneiss::tbb_executor executor(rates.cpus);
    int made = 0;
    const auto next = [&] { return within.path() / std::to_string(made++); };
    const auto import = [&](const sample_graph& graph) {
        const fs::path out = next();
        (void)gneiss::import_dataset(graph.import_options(out, stop), executor);
        return out;
    };
    const auto seconds_since = [](std::chrono::steady_clock::time_point start) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };

    const sample_graph large{.nodes = 50'000, .edges = 500'000};
    const auto start = std::chrono::steady_clock::now();
    (void)import(large);
    rates.import_edges = static_cast<double>(large.edges) / seconds_since(start);

    const programs::link_epoch_shape links{.edges = 4000, .batch = 1000, .negatives = 500, .dim = 100};
    const double link_seconds = train("gneiss-marius", import({.nodes = 4000, .edges = links.edges}), next(),
        {"--decoder", "complex", "--dim", "100", "--batch", "1000", "--negatives", "500", "--staleness", "0"}, stop);
    rates.link_flops = programs::work_of(links).link_flops / link_seconds;

    // Each sample adds one kind of work to those before it, whose time is subtracted.
    if (!fs::exists(fs::read_symlink("/proc/self/exe").parent_path() / "gneiss-mariusgnn")) return rates;
    const auto measure = [&](const gnn_sample& sample, const fs::path& data) {
        const double seconds = train("gneiss-mariusgnn", data, next(), sample.flags(), stop);
        const programs::epoch_work work = sample.work();
        double known = work.batches * rates.batch_seconds;
        const auto subtract = [&](double of, double rate) { known += rate == 0 ? 0 : of / rate; };
        subtract(work.sampled_edges, rates.sampled_edges);
        subtract(work.row_floats, rates.row_floats);
        subtract(work.dense_flops, rates.dense_flops);
        return std::max(seconds - known, seconds / 10);
    };
    const gnn_sample tiny{.graph = {.nodes = 64, .edges = 64, .columns = 2}, .width = 2, .fanout = 1, .batch = 1};
    rates.batch_seconds = measure(tiny, import(tiny.graph)) / tiny.work().batches;
    const sample_graph narrow{.nodes = 8000, .edges = 160'000, .columns = 8};
    const fs::path data = import(narrow);
    const gnn_sample neighbors{.graph = narrow, .width = 8, .fanout = 0};
    rates.sampled_edges = neighbors.work().sampled_edges / measure(neighbors, data);
    const gnn_sample rows{.graph = narrow, .width = 256, .fanout = 2};
    rates.row_floats = rows.work().row_floats / measure(rows, data);
    const gnn_sample dense{.graph = {.nodes = 4000, .edges = 16'000, .columns = 256}, .width = 256, .fanout = 2};
    rates.dense_flops = dense.work().dense_flops / measure(dense, import(dense.graph));
    const gnn_sample sparse{
        .graph = {.nodes = 4000, .edges = 16'000, .columns = 1000, .entries = 50}, .width = 128, .fanout = 2};
    rates.sparse_flops = sparse.work().sparse_flops / measure(sparse, import(sparse.graph));
    return rates;
}

} // namespace data_tool
