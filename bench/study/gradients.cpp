// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
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
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/histories.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/graph/neighbor_lists.hpp"
#include "kit/report/records.hpp"
#include "kit/report/statistics.hpp"
#include "labeled_nodes.hpp"
#include "sampled_trace.hpp"

namespace study {
namespace {

using gneiss::node_id;
using nlohmann::ordered_json;

struct gradients_flags {
    std::filesystem::path dataset{};
    std::string layers = "sage:16,sage", fanout = "10,10", first_fanout = "50", direction = "in";
    std::uint64_t batch = 20, epochs = 10, large = 4, partitions = 16, macro = 4, runs = 3, threads = 0;
    double lr = 0.01;
    std::optional<std::filesystem::path> by{};
    bool json = false, quiet = false;
};

/// A source of gradients.
struct setting {
    std::string name;
    gneiss::second_stage form = gneiss::second_stage::lists;
    std::vector<gneiss::hop_fanout> first{};
    std::uint64_t large_batch = 0; ///< most nodes; 0: partitions
    gneiss::history_options past{};
};

/// A step of training.
struct recorded_step {
    gneiss::batch_key key;
    std::vector<float> weights, gradient; ///< before the step
};

/// Records steps.
struct step_recorder {
    const gneiss::dense_parameters<>& weights;
    std::vector<recorded_step>& to;

    void reduce(gneiss::gradient_parts gradients, const gneiss::gradient_turn& turn, const std::stop_token& /*stop*/) {
        const auto values = weights.values();
        to.push_back({turn.key, {values.begin(), values.end()}, {gradients[0].begin(), gradients[0].end()}});
    }
};

/// Computes the gradients of recorded batches at their recorded weights, whatever the optimizer does.
struct step_replayer {
    gneiss::dense_parameters<>& weights;
    const std::vector<recorded_step>& from;
    std::vector<std::vector<float>>& to;

    void reduce(
        gneiss::gradient_parts gradients, const gneiss::gradient_turn& /*turn*/, const std::stop_token& /*stop*/) {
        to.emplace_back(gradients[0].begin(), gradients[0].end());
        std::ranges::fill(gradients[0], 0.0F);
        if (to.size() < from.size()) std::ranges::copy(from[to.size()].weights, weights.values().begin());
    }
};

/// Squared norms, means over the steps of a training, of the parts of a gradient's error (thesis, equations 3.5 to
/// 3.7). B1 is the macro-batch's training nodes, B2 the batch's.
struct gradient_error {
    double full = 0;    ///< ∇F, of all training nodes and all neighbors
    double macro = 0;   ///< of B1 less ∇F: variance of the first stage
    double batch = 0;   ///< of B2 less B1: variance of the second
    double first = 0;   ///< of B2 with the neighbors of the first stage, less B2: approximation
    double second = 0;  ///< of B2 with the neighbors of both, less that
    double trained = 0; ///< all of it: the gradient stepped by, less ∇F
    double bias = 0;    ///< of the mean over steps of B2 with the neighbors of both, less B2, without its noise
};

double squared_distance(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        sum += d * d;
    }
    return sum;
}

/// Gradients of batches with all neighbors, of any weights.
class exact_gradients {
public:
    exact_gradients(const labeled_nodes& data, const gneiss::memory_csc& graph, gneiss::neighbor_direction direction,
        const std::vector<gneiss::layer_options>& layers, const gneiss::tbb_executor& executor)
        : data_(data),
          graph_(graph),
          executor_(executor),
          encode_(weights_, layers, data.columns()),
          sampler_({.fanout = all_neighbors(gneiss::hops_of(layers), direction)}, 0),
          backend_(encode_, weights_, gneiss::classification_head{}, 0, executor, {.frozen = true}) {
        weights_.allocate(0);
        backend_.upload({});
    }

    [[nodiscard]] static std::vector<gneiss::hop_fanout> all_neighbors(
        std::size_t hops, gneiss::neighbor_direction direction) {
        std::string text = "all";
        for (std::size_t i = 1; i < hops; ++i) text += ",all";
        return gneiss::parse_fanout(text, direction);
    }

    /// Returns the number of weights.
    [[nodiscard]] std::uint64_t weights() const noexcept { return weights_.size(); }
    /// Returns the gradient of the mean loss of `seeds`, at most 1000 at a time.
    [[nodiscard]] std::vector<float> of(std::span<const float> weights, std::span<const node_id> seeds) {
        std::ranges::copy(weights, weights_.values().begin());
        std::vector<double> sum(weights.size(), 0);
        for (std::size_t at = 0; at < seeds.size(); at += chunk) {
            const auto some = seeds.subspan(at, std::min(chunk, seeds.size() - at));
            const auto sample = sampler_.sample(batch_.key, graph_, some, executor_, batch_.sample_arena);
            batch_.nodes = gneiss::lay_out(sample, batch_.layers, executor_).nodes;
            gneiss::labels_of(some, gneiss::classes_of(data_.labels.values()), data_.classes, batch_.labels);
            batch_.in = rows_.of(*data_.rows, batch_.nodes, executor_);
            weights_.zero_gradients();
            backend_.differentiate(batch_);
            const double share = static_cast<double>(some.size()) / static_cast<double>(seeds.size());
            for (std::size_t i = 0; i < sum.size(); ++i)
                sum[i] += share * static_cast<double>(std::as_const(weights_).gradients()[i]);
        }
        std::vector<float> result(sum.size());
        std::ranges::transform(sum, result.begin(), [](double x) { return static_cast<float>(x); });
        return result;
    }

private:
    static constexpr std::size_t chunk = 1000;

    const labeled_nodes& data_;
    const gneiss::memory_csc& graph_;
    const gneiss::tbb_executor& executor_;
    gneiss::dense_parameters<> weights_;
    gneiss::cpu_encoder encode_;
    gneiss::neighbor_sampler<> sampler_;
    gneiss::cpu_encoder_backend<gneiss::classification_head> backend_;
    gneiss::training_batch batch_;
    gathered rows_;
};

/// Trains by Joestar's batches, and measures the error of each gradient.
class gradient_study {
public:
    gradient_study(const labeled_nodes& data, const gneiss::memory_csc& graph, const gradients_flags& flags,
        std::shared_ptr<const std::vector<std::uint16_t>> parts, const gneiss::tbb_executor& executor,
        gneiss::memory_budget& budget)
        : data_(data),
          graph_(graph),
          flags_(flags),
          parts_(std::move(parts)),
          executor_(executor),
          budget_(budget),
          direction_(read_sampling(flags.fanout, flags.direction, "neighbor").direction),
          layers_(gneiss::parse_layers(flags.layers, {.last_width = data.classes})),
          all_(exact_gradients::all_neighbors(gneiss::hops_of(layers_), direction_)),
          second_(gneiss::parse_fanout(flags.fanout, direction_)),
          exact_(data, graph, direction_, layers_, executor) {
        gneiss::validate(second_, gneiss::hops_of(layers_));
    }

    /// Returns one stage, large batches with either second stage, and partitions with each use of the halo.
    [[nodiscard]] std::vector<setting> settings() const {
        const std::uint64_t all = data_.training.size(),
                            large = std::max(flags_.batch, gneiss::ceil_div(all, flags_.large));
        std::string wide = flags_.first_fanout;
        for (std::size_t i = 1; i < all_.size(); ++i) wide += "," + flags_.first_fanout;
        return {
            {.name = "single", .first = all_, .large_batch = std::max(all, flags_.batch)},
            {.name = "lbs, hops", .form = gneiss::second_stage::hops, .first = second_, .large_batch = large},
            {.name = "lbs, union", .first = gneiss::parse_fanout(wide, direction_), .large_batch = large},
            {.name = "pbs, feature", .past = {.halo_features = true}},
            {.name = "pbs, drop"},
            {.name = "pbs, ignored", .past = {.most_age = 0}},
        };
    }

    [[nodiscard]] gradient_error run(const setting& of, std::uint64_t seed, const std::stop_token& stop) {
        const std::uint64_t most = flags_.epochs *
            (gneiss::ceil_div(std::uint64_t{data_.training.size()}, flags_.batch) + states(of, seed, 0).size());
        const auto charge =
            budget_.charge({"weights and gradients of the steps", most * 3 * sizeof(float) * exact_.weights()});
        std::vector<recorded_step> steps;
        gneiss::dense_parameters<> weights;
        train(of, seed, second_, weights, "adam", [&](gneiss::dense_parameters<>& w) {
            return gneiss::any_reducer(std::in_place_type<step_recorder>, w, steps);
        });
        std::vector<std::vector<float>> first_alone;
        train(of, seed, of.form == gneiss::second_stage::hops ? second_ : all_, weights, "sgd",
            [&](gneiss::dense_parameters<>& w) {
                return gneiss::any_reducer(std::in_place_type<step_replayer>, w, steps, first_alone);
            });
        gradient_error sum;
        std::vector<double> mean(steps.front().gradient.size(), 0);
        double differences = 0;
        std::vector<node_id> nodes, seeds;
        const std::vector<float> zero(mean.size(), 0);
        for (std::size_t k = 0; k < steps.size(); ++k) {
            if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
            const recorded_step& step = steps[k];
            training_nodes(of, seed, step.key, nodes);
            const gneiss::batch_number at = step.key.number;
            gneiss::node_batches(nodes, flags_.batch, seed, step.key.epoch, at.state).choose(at.index, seeds, at.pass);
            const std::vector<float> full = exact_.of(step.weights, data_.training),
                                     macro = exact_.of(step.weights, nodes), batch = exact_.of(step.weights, seeds);
            sum.full += squared_distance(full, zero);
            sum.macro += squared_distance(macro, full);
            sum.batch += squared_distance(batch, macro);
            sum.first += squared_distance(first_alone[k], batch);
            sum.second += squared_distance(step.gradient, first_alone[k]);
            sum.trained += squared_distance(step.gradient, full);
            differences += squared_distance(step.gradient, batch);
            for (std::size_t i = 0; i < mean.size(); ++i)
                mean[i] += static_cast<double>(step.gradient[i]) - static_cast<double>(batch[i]);
        }
        const auto count = static_cast<double>(steps.size());
        for (double* part : {&sum.full, &sum.macro, &sum.batch, &sum.first, &sum.second, &sum.trained}) *part /= count;
        const double squares = std::transform_reduce(
            mean.begin(), mean.end(), 0.0, std::plus{}, [&](double x) { return x * x / count / count; });
        // The mean of independent differences without a bias has 1/count of their variance.
        sum.bias = std::max(0.0, (count * squares - differences / count) / std::max(count - 1, 1.0));
        return sum;
    }

private:
    void training_nodes(
        const setting& of, std::uint64_t seed, const gneiss::batch_key& key, std::vector<node_id>& to) const {
        if (of.large_batch != 0)
            return gneiss::large_batches(data_.training, of.large_batch, seed, key.epoch).choose(key.number.state, to);
        gneiss::macro_batch_border inside(parts_, partitions());
        inside.enter(states(of, seed, key.epoch).at(key.number.state).resident);
        to.clear();
        std::ranges::copy_if(data_.training, std::back_inserter(to), [&](node_id v) { return inside[v]; });
        std::ranges::sort(to);
    }
    [[nodiscard]] std::uint32_t partitions() const { return std::uint32_t{*std::ranges::max_element(*parts_)} + 1; }
    [[nodiscard]] gneiss::epoch_plan states(const setting& of, std::uint64_t seed, std::uint64_t epoch) const {
        if (of.large_batch != 0) return gneiss::large_batches(data_.training, of.large_batch, seed, epoch).states();
        return gneiss::macro_batches(
            partitions(), 0, programs::narrow<std::uint32_t>(flags_.macro, "macro"), seed, epoch)
            .states;
    }

    /// Trains with the gradients that `reducer(weights)` leaves.
    template <class Reducer>
    void train(const setting& of, std::uint64_t seed, const std::vector<gneiss::hop_fanout>& second,
        gneiss::dense_parameters<>& weights, const char* optimizer, const Reducer& reducer) {
        weights = {};
        gneiss::cpu_encoder encode(weights, layers_, data_.columns());
        weights.allocate(seed);
        const auto steps = gneiss::make_dense_optimizer(optimizer, static_cast<float>(flags_.lr));
        steps.allocate_state(weights);
        std::shared_ptr<gneiss::macro_batch_border> border;
        std::optional<gneiss::histories> past;
        std::optional<gneiss::any_sampler> first;
        if (of.large_batch == 0) {
            border = std::make_shared<gneiss::macro_batch_border>(parts_, partitions());
            past.emplace(gneiss::hidden_rows_of(encode), graph_.nodes(), of.past, executor_, budget_);
            first.emplace(graph_, [border, whole = exact_gradients::all_neighbors(1, direction_), seed] {
                return gneiss::bordered_sampler(border, {.fanout = whole}, seed);
            });
        } else {
            first.emplace(gneiss::make_sampler(graph_, gneiss::sampler_kind::neighbor, {.fanout = of.first}, seed));
        }
        gneiss::joestar_trainer training =
            gneiss::make_joestar({.batch = flags_.batch,
                                     .large_batch = of.large_batch == 0 ? flags_.batch : of.large_batch,
                                     .second = {.fanout = second},
                                     .macro_batches = {.form = of.form},
                                     .seed = seed,
                                     .replicas = {.reducer = reducer(weights)}},
                {.first_stage = *first,
                    .features = data_.rows,
                    .task = gneiss::classified_nodes{gneiss::classes_of(data_.labels.values()),
                        [&](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data_.training; }},
                    .nodes = graph_.nodes(),
                    .encode = encode,
                    .weights = weights,
                    .optimizer = steps,
                    .border = border,
                    .past = past ? &*past : nullptr},
                executor_, budget_);
        for (std::uint64_t e = 0; e < flags_.epochs; ++e) training.run(states(of, seed, e), e);
    }

    const labeled_nodes& data_;
    const gneiss::memory_csc& graph_;
    const gradients_flags& flags_;
    std::shared_ptr<const std::vector<std::uint16_t>> parts_;
    const gneiss::tbb_executor& executor_;
    gneiss::memory_budget& budget_;
    gneiss::neighbor_direction direction_;
    std::vector<gneiss::layer_options> layers_;
    std::vector<gneiss::hop_fanout> all_, second_;
    exact_gradients exact_;
};

constexpr std::pair<const char*, double gradient_error::*> columns[]{{"macro", &gradient_error::macro},
    {"batch", &gradient_error::batch}, {"first", &gradient_error::first}, {"second", &gradient_error::second},
    {"error", &gradient_error::trained}, {"bias", &gradient_error::bias}};

programs::exit_code gradients(const gradients_flags& flags) {
    const auto start = std::chrono::steady_clock::now();
    programs::check_dataset(flags.dataset);
    const gneiss::dataset data(flags.dataset);
    check_classes(data, false);
    const std::string name = programs::directory_name(flags.dataset);
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    const gneiss::tbb_executor executor(
        flags.threads != 0 ? programs::narrow<unsigned>(flags.threads, "threads") : programs::usable_cpus());
    gneiss::memory_budget budget(programs::available_memory() / 2);
    const sampling hops = read_sampling(flags.fanout, flags.direction, "neighbor");
    const programs::placed_lists lists =
        programs::place_lists(data, hops.direction, std::filesystem::temp_directory_path());
    programs::make_lists(data, lists.files, budget.available(), executor, interrupts.token(), {});
    const gneiss::memory_csc graph(lists.files, budget);
    const labeled_nodes nodes(data, budget, interrupts.token());

    std::vector<std::uint16_t> parts(static_cast<std::size_t>(data.manifest().nodes));
    if (flags.by) {
        const auto of = gneiss::read_assignment(data, *flags.by);
        parts.assign(of.begin(), of.end());
    } else {
        const gneiss::random_key key{0, gneiss::random_domain::partition};
        for (std::size_t v = 0; v < parts.size(); ++v) parts[v] = static_cast<std::uint16_t>(key[v] % flags.partitions);
    }
    if (const std::uint64_t count = std::uint64_t{*std::ranges::max_element(parts)} + 1; flags.macro > count)
        throw programs::usage_error(
            fmt::format("--macro {} exceeds the {} partitions: give fewer", flags.macro, count));
    gradient_study study(
        nodes, graph, flags, std::make_shared<const std::vector<std::uint16_t>>(std::move(parts)), executor, budget);

    std::vector<std::pair<std::string, std::map<std::string, programs::estimate>>> results;
    for (const setting& of : study.settings()) {
        std::map<std::string, std::vector<double>> values;
        for (std::uint64_t seed = 1; seed <= flags.runs; ++seed) {
            live.update([&] { return fmt::format("{}: seed {} of {}", of.name, seed, flags.runs); });
            const gradient_error error = study.run(of, seed, interrupts.token());
            for (const auto& [column, part] : columns) values[column].push_back(error.*part / error.full);
        }
        auto& row = results.emplace_back(of.name, std::map<std::string, programs::estimate>{}).second;
        for (const auto& [column, of_runs] : values) row[column] = programs::estimate_mean(of_runs);
    }
    live.clear();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (flags.json) {
        ordered_json list = ordered_json::array();
        for (const auto& [setting_name, row] : results) {
            ordered_json one{{"name", setting_name}};
            for (const auto& [column, part] : columns) {
                one[column]["mean"] = row.at(column).mean;
                if (row.at(column).half) one[column]["half"] = *row.at(column).half;
            }
            list.push_back(std::move(one));
        }
        programs::print_json_line(ordered_json{{"dataset", name}, {"training", nodes.training.size()},
            {"batch", flags.batch}, {"epochs", flags.epochs}, {"runs", flags.runs}, {"settings", list},
            {"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()}});
        return programs::exit_code::done;
    }
    programs::table table({{"", programs::align::left}, {"variance of macro-batches"}, {"of batches"},
        {"approximation, 1st stage"}, {"2nd stage"}, {"error"}, {"bias"}});
    for (const auto& [setting_name, row] : results) {
        std::vector<std::string> cells{setting_name};
        for (const auto& [column, part] : columns) cells.push_back(programs::to_text(row.at(column)));
        table.add(std::move(cells));
    }
    programs::print_text(
        "{}: squared errors of gradients over that of the full gradient, means of the steps of {} epochs "
        "and {} seeds\n\n{}\n{}, peak RSS {}\n",
        name, flags.epochs, flags.runs, table.str(), programs::human_seconds(seconds),
        gneiss::format_bytes(programs::peak_rss()));
    return programs::exit_code::done;
}

} // namespace

void add_gradients(programs::command_line& to) {
    const auto flags = std::make_shared<gradients_flags>();
    programs::command& command = to.add("gradients",
        "Measures the error of gradients that batches estimate, and its parts: sampling in one stage, by large "
        "batches, "
        "and by partitions with histories (Joestar, equations 3.4 to 3.7).",
        [flags](programs::command&) { return gradients(*flags); });
    command.positional("dataset", flags->dataset,
        "directory of the dataset, loaded into memory; small: each step needs the full gradient");
    command.option("layers", flags->layers, "layers of the GNN, without dropout").value_name("LIST");
    command.option("fanout", flags->fanout, "neighbors per hop of a batch, seeds first; all").value_name("LIST");
    command.option("first-fanout", flags->first_fanout, "neighbors per hop of a large batch with one list a node");
    command.option("direction", flags->direction, "direction of edges to neighbors").choices({"in", "out", "both"});
    command.option("batch", flags->batch, "training nodes per batch").range(1);
    command.option("epochs", flags->epochs, "epochs of each training").range(1, 1e6);
    command.option("lr", flags->lr, "learning rate of Adam").range(1e-9, 10);
    command.option("large", flags->large, "large batches of an epoch").range(1);
    command.option("partitions", flags->partitions, "random partitions").range(1, 65536);
    command.option("by", flags->by, "assignment of nodes to partitions, in place of random ones")
        .value_name("FILE.npy");
    command.option("macro", flags->macro, "partitions of a macro-batch").range(1);
    command.option("runs", flags->runs, "runs per setting, with seeds 1 to N").range(1, 1000);
    command.option("threads", flags->threads, "worker threads").range(0, 1024).default_text("all CPUs");
    command.option("json", flags->json, "print the result as one JSON object").transient();
    command.option("quiet", flags->quiet, "no progress on stderr").transient();
    command.example("gneiss-study gradients data/cora --batch 20 --macro 2");
}

} // namespace study
