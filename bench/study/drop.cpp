// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/train/cpu_backend.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/graph_stream.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"
#include "kit/report/statistics.hpp"
#include "labeled_nodes.hpp"
#include "subgraph.hpp"

namespace study {
namespace {

namespace plot = programs::plot;
using gneiss::node_id;
using nlohmann::ordered_json;

struct drop_flags {
    std::filesystem::path dataset{};
    std::vector<double> drop{0, 20, 40, 60, 80, 90, 95, 100};
    std::uint64_t layers = 3, excluded = 256, epochs = 30, batch = 1000, seeds = 3, threads = 0;
    double lr = 1e-3, dropout = .5;
    std::optional<std::filesystem::path> out{};
    bool json = false, quiet = false;
};

struct named_policy {
    neighborhood_policy is;
    const char* name;
};
constexpr std::array neighborhood_policies{named_policy{neighborhood_policy::random, "random"},
    named_policy{neighborhood_policy::neighbor, "neighbor"}, named_policy{neighborhood_policy::influence, "influence"}};

/// A dataset in memory.
struct labeled_graph : labeled_nodes {
    labeled_graph(const gneiss::dataset& data, gneiss::memory_budget& budget, const std::stop_token& stop)
        : labeled_nodes(data, budget, stop),
          graph(programs::read_graph(data.buckets(), stop)) {}

    gneiss::symmetric_csr graph;
};

/// GraphSAGE, trained on neighborhoods without their lowest-ranked nodes, and tested on the whole graph.
class dropped_training {
public:
    dropped_training(const labeled_graph& data, const drop_flags& flags, const gneiss::tbb_executor& executor)
        : data_(data),
          flags_(flags),
          executor_(executor),
          make_(data.graph) {
        whole_.nodes.resize(static_cast<std::size_t>(data.graph.nodes()));
        std::iota(whole_.nodes.begin(), whole_.nodes.end(), node_id{0});
        whole_.batch = whole_.nodes.size();
        whole_.among = data.graph;
    }

    /// Trains and returns the test accuracy after the epoch of the best validation, the first of equals; after the last
    /// epoch without validation.
    template <class Progress>
    [[nodiscard]] double run(neighborhood_policy policy, double drop, std::uint64_t seed, const std::stop_token& stop,
        const Progress& progress) {
        std::string layers;
        for (std::uint64_t i = 1; i < flags_.layers; ++i) layers += fmt::format("sage:{},", flags_.excluded);
        gneiss::dense_parameters<> weights;
        gneiss::encoder<float, gneiss::eigen_backend> encode(weights,
            gneiss::parse_layers(layers + "sage",
                {.then = {},
                    .dropout = flags_.dropout,
                    .attention_dropout = 0,
                    .norm = false,
                    .residual = false,
                    .last_width = data_.classes}),
            data_.columns());
        weights.allocate(seed);
        const gneiss::dense_optimizer optimizer = gneiss::make_dense_optimizer("adam", static_cast<float>(flags_.lr));
        optimizer.allocate_state(weights);
        gneiss::cpu_encoder_backend train(encode, weights, gneiss::classification_head{}, seed, executor_);
        train.upload({.dense = optimizer});
        gneiss::training_batch trained;
        const auto labels = gneiss::classes_of(data_.labels.values());
        const auto hops = programs::narrow<std::uint32_t>(flags_.layers, "layers");
        std::vector<node_id> batch;
        double best = -1, tested = 0;
        for (std::uint64_t epoch = 0, step = 0; epoch < flags_.epochs; ++epoch) {
            progress(epoch);
            const gneiss::node_batches batches(data_.training, flags_.batch, seed, epoch, 0);
            for (std::uint64_t b = 0; b < batches.size(); ++b) {
                if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
                batches.choose(b, batch);
                gneiss::labels_of(batch, labels, data_.classes, trained.labels);
                subgraph around = make_.around(batch, hops);
                const std::size_t others = around.nodes.size() - around.batch;
                const auto kept = static_cast<std::size_t>(std::lround(static_cast<double>(others) * (1 - drop / 100)));
                if (kept != others)
                    around = make_.best(around, kept, policy, hops,
                        gneiss::random_key{seed, gneiss::random_domain::user}.with(epoch).with(b));
                trained.key = {epoch, {0, 0, b}};
                trained.step = ++step;
                trained.layers.assign(around.of_layers(flags_.layers), executor_);
                trained.nodes = around.nodes;
                trained.in = rows_.of(*data_.rows, around.nodes, executor_);
                train.differentiate(trained);
                train.step(trained);
            }
            const auto [valid, test] = evaluate(encode, weights);
            if (valid > best || data_.valid.empty()) best = valid, tested = test;
        }
        return tested;
    }

private:
    /// Returns the accuracy on validation and test nodes with the whole graph.
    template <class Encoder>
    [[nodiscard]] std::pair<double, double> evaluate(Encoder& encode, const gneiss::dense_parameters<>& weights) {
        layers_.assign(whole_.of_layers(flags_.layers), executor_, gneiss::layer_stack::lists::forward);
        const auto scores =
            encode.forward(weights, layers_, rows_.of(*data_.rows, whole_.nodes, executor_), {}, executor_);
        const auto labels = gneiss::classes_of(data_.labels.values());
        const auto accuracy = [&](std::span<const node_id> of) {
            std::size_t right = 0;
            for (const node_id v : of) right += gneiss::predicted_class<float>(scores[v]) == labels[v];
            return of.empty() ? 0 : static_cast<double>(right) / static_cast<double>(of.size());
        };
        return {accuracy(data_.valid), accuracy(data_.test)};
    }

    const labeled_graph& data_;
    const drop_flags& flags_;
    const gneiss::tbb_executor& executor_;
    subgraph_maker make_;
    subgraph whole_;
    gneiss::layer_stack layers_;
    gathered rows_;
};

/// Returns the peak memory of a training: the graph twice and a neighborhood of the whole graph, its layers, rows
/// between layers, and weights with their gradients and the optimizer state.
std::uint64_t bytes_of(const gneiss::dataset& data, const drop_flags& flags) {
    const gneiss::dataset_manifest& m = data.manifest();
    const std::uint64_t arcs = 2 * m.train_edges,
                        width = 2 * flags.excluded + (data.has("features.indptr") ? 0 : m.node_attributes.features);
    const std::uint64_t weights = 2 * flags.excluded * (m.node_attributes.features + flags.layers * flags.excluded);
    return 16 * weights + 3 * (8 * m.nodes + 4 * arcs) + flags.layers * (12 * arcs + 8 * m.nodes) +
        4 * m.nodes * (width + 6 * flags.layers * flags.excluded);
}

programs::exit_code drop(const drop_flags& flags) {
    const auto start = std::chrono::steady_clock::now();
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    check_classes(data, true);
    gneiss::memory_budget budget(programs::available_memory());
    const auto charge = budget.charge({"the graph, and rows of neighborhoods", bytes_of(data, flags)});
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    const labeled_graph graph(data, budget, interrupts.token());
    dropped_training training(graph, flags, executor);

    std::map<std::pair<double, neighborhood_policy>, programs::estimate> accuracy;
    for (const double k : flags.drop)
        for (const named_policy& policy : neighborhood_policies) {
            // If none or all are dropped, the policy does not matter.
            if ((k == 0 || k == 100) && policy.is != neighborhood_policies.front().is) {
                accuracy[{k, policy.is}] = accuracy[{k, neighborhood_policies.front().is}];
                continue;
            }
            std::vector<double> tested;
            for (std::uint64_t seed = 1; seed <= flags.seeds; ++seed)
                tested.push_back(training.run(policy.is, k, seed, interrupts.token(), [&](std::uint64_t epoch) {
                    live.update([&] {
                        return fmt::format("{} % dropped, {}: seed {} of {}, epoch {} of {}", k, policy.name, seed,
                            flags.seeds, epoch + 1, flags.epochs);
                    });
                }));
            accuracy[{k, policy.is}] = programs::estimate_mean(tested);
        }
    live.clear();

    const std::string name = programs::directory_name(flags.dataset);
    if (flags.out) {
        plot::line_chart chart{.title = name + ": test accuracy without the lowest-ranked nodes of each neighborhood",
            .x = {.label = "nodes dropped", .of = plot::quantity::percent},
            .y = {.label = "accuracy", .of = plot::quantity::percent},
            .lines = {}};
        for (const named_policy& policy : neighborhood_policies) {
            plot::series line{.name = policy.name};
            for (const double k : flags.drop) line.points.push_back({k / 100, accuracy[{k, policy.is}].mean});
            std::ranges::sort(line.points, {}, &plot::point::x);
            chart.lines.push_back(std::move(line));
        }
        plot::write_svg(*flags.out, chart);
    }
    if (flags.json) {
        ordered_json output{{"dataset", name}, {"drop", flags.drop}, {"seeds", flags.seeds}};
        for (const named_policy& policy : neighborhood_policies)
            for (const double k : flags.drop) {
                const programs::estimate& of = accuracy[{k, policy.is}];
                ordered_json one{{"mean", of.mean}};
                if (of.half) one["half"] = *of.half;
                output["accuracy"][policy.name].push_back(std::move(one));
            }
        output["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        output["peak_rss_bytes"] = programs::peak_rss();
        programs::print_json_line(output);
        return programs::exit_code::done;
    }
    programs::table table({{"dropped"}, {"random"}, {"neighbor"}, {"influence"}});
    for (const double k : flags.drop) {
        std::vector<std::string> cells{fmt::format("{:g}%", k)};
        for (const named_policy& policy : neighborhood_policies)
            cells.push_back(programs::to_text(accuracy[{k, policy.is}]));
        table.add(std::move(cells));
    }
    programs::print_text("{}: test accuracy, means of {} seeds\n\n{}", name, flags.seeds, table.str());
    return programs::exit_code::done;
}

} // namespace

void add_drop(programs::command_line& to) {
    const auto flags = std::make_shared<drop_flags>();
    programs::command& command = to.add("drop",
        "Measures the accuracy of GraphSAGE trained without the least influential nodes of each neighborhood (Hanoi, "
        "Figure 4.6).",
        [flags](programs::command&) { return drop(*flags); });
    command.positional("dataset", flags->dataset, "directory of the dataset, loaded into memory");
    command.option("drop", flags->drop, "percentages of neighborhood nodes to discard").range(0, 100);
    command.option("layers", flags->layers, "hops of a neighborhood").range(1, 16);
    command.option("hidden", flags->excluded, "columns between layers").range(1, 65536);
    command.option("epochs", flags->epochs, "epochs; the best by validation is tested").range(1, 1e6);
    command.option("batch", flags->batch, "training nodes per batch").range(1);
    command.option("lr", flags->lr, "learning rate of Adam").range(1e-9, 10);
    command.option("dropout", flags->dropout, "dropout between layers, during training").range(0, .99);
    command.option("runs", flags->seeds, "runs per setting, with seeds 1 to N").range(1, 1000).formerly("seeds");
    command.option("threads", flags->threads, "worker threads").range(0, 1024).default_text("all CPUs");
    command.option("out", flags->out, "chart to write, its values beside it as CSV")
        .value_name("FILE.svg")
        .default_text("none");
    command.option("json", flags->json, "print the result as one JSON object").transient();
    command.option("quiet", flags->quiet, "no progress on stderr").transient();
    command.example("gneiss-study drop data/mine --drop 0,50,90 --epochs 20 --runs 3");
}

} // namespace study
