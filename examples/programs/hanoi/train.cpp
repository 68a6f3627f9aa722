// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <gneiss/cache/miss_ratio_sampler.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/train/macro_batch_reuse.hpp>
#include <gneiss/train/trainers/hanoi.hpp>

#include "io_cost.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/cli/machine.hpp"
#include "kit/gnn/epoch_shape.hpp"
#include "kit/gnn/feature_run.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/graph/node_file.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/train.hpp"
#include "preprocessing.hpp"
#include "program.hpp"
#include "training_plan.hpp"

namespace hanoi {

namespace {

using trainers::clock;

/// Most passes over a macro-batch that a record may ask for: more is a mistake, and would never end.
constexpr std::uint64_t most_passes = 1000;

/// Reads the passes in a file: {"passes": [[1, 2, …], …]}, epoch by epoch. Throws errc::invalid_format.
gneiss::pass_record read_passes(const std::filesystem::path& file) {
    const auto wrong = [&] {
        return gneiss::error(
            gneiss::errc::invalid_format, "is not a record of passes such as a run's reuse.json", {.path = file});
    };
    try {
        const auto read = programs::parse_json(programs::read_file(file), file).at("passes");
        for (const auto& epoch : read)
            for (const auto& passes : epoch) // reading as this unsigned type would turn -1 into four billion
                if (!passes.is_number_unsigned() || passes.get<std::uint64_t>() > most_passes) throw wrong();
        return read.get<gneiss::pass_record>();
    } catch (const nlohmann::ordered_json::exception&) {
        throw wrong();
    }
}

/// Returns the bytes of a node's features, an average if they are sparse.
double row_bytes(const gneiss::node_features& features) {
    return static_cast<double>(features.bytes()) / static_cast<double>(features.rows());
}

/// Assembles Hanoi: graph and features of a macro-batch, prefetch of the next one, samples within it, an encoder.
class training final : public trainers::node_classification_training {
public:
    /// Starts a run, or resumes it.
    training(
        const parts& of, const options& settings, const std::optional<tier_rates>& rates, trainers::run_reporter& live)
        : node_classification_training(of),
          options_(settings),
          live_(live),
          rates_(rates),
          asked_(of.features.rows()),
          store_(of.features.files(), of.plan.partitioning) {
        if (settings.pinned(of.data) != 0) homes_ = of.data.hub_partitions();
        gneiss::pass_record done;
        if (of.run.saved)
            done = trainers::read_progress(
                *of.run.saved, of.run.directory.path(), [](const nlohmann::ordered_json& progress) {
                    return progress.at("passes").get<gneiss::pass_record>();
                });
        std::optional<gneiss::pass_record> replay;
        if (settings.reuse_plan) replay = read_passes(*settings.reuse_plan);
        reuse_.emplace(settings.reuse, std::move(done), std::move(replay));
        if (!settings.places_features())
            features_ = std::make_unique<gneiss::feature_buffer>(
                store_, of.engine.make, of.plan.feature_bytes, of.budget, of.run.recorder());
        gneiss::graph_buffer_options form = macro_graph;
        form.trace = of.run.recorder();
        graph_ = std::make_unique<gneiss::graph_buffer>(
            buckets_, of.engine.make, settings.neighbors(), of.plan.graph_bytes, of.budget, form);
        gneiss::gnn_options loop = settings.training_options();
        loop.batches_in_flight = of.plan.batches;
        loop.row_memory = of.plan.row_bytes;
        loop.sample_memory = of.plan.sample_bytes;
        loop.encoder_memory = of.plan.encoder_bytes;
        loop.pipeline.trace = of.run.recorder();
        loop.resident_partitions = of.plan.slots;
        if (of.device != nullptr) loop.device_sampler = of.device->sampler;
        if (rates) loop.on_rows = [this](std::span<const gneiss::node_id> rows) { asked_.add(rows); };
        const auto nodes = [this](std::uint32_t state, std::vector<gneiss::node_id>& out) {
            gneiss::append_training_nodes(now_, state, of_.plan.partitioning, of_.classes->train, out, homes_.values());
        };
        const gneiss::gnn_task task = of.classes->truth.task(nodes, settings.class_weights, of.data, of.classes->train);
        gneiss::graph_inputs inputs{.features = features_.get(), .graph = *graph_};
        if (settings.places_features()) inputs.device_features.emplace(of.net.encode.inputs().dense);
        training_.emplace(gneiss::make_hanoi(loop,
            gneiss::gnn_parts{.task = task,
                .encode = of.net.encode,
                .weights = of.net.weights,
                .optimizer = settings.dense_optimizer(0),
                .inputs = inputs,
                .backend = of.device == nullptr ? nullptr : &of.device->backend},
            executor_, of.budget));
    }

    /// Adds the I/O cost, modeled and measured, if this process trained anything.
    void add_to(programs::run_record& record) override {
        if (!rates_ || seen_.batches == 0) return;
        seen_.read_bytes = io().read_bytes;
        seen_.wait_seconds = pipeline().wait_seconds[static_cast<std::size_t>(gneiss::stage::compute)];
        const double row = row_bytes(of_.features);
        const std::uint64_t memory = of_.plan.feature_bytes;
        const io_cost cost = cost_of(seen_, *rates_, row, memory,
            asked_.miss_ratio(static_cast<std::uint64_t>(static_cast<double>(memory) / row)));
        record.io_cost = cost.record();
        live_.say(cost.text());
    }

    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::io_stats io() const override {
        gneiss::io_stats sum = graph_->statistics();
        if (features_) sum += features_->statistics();
        return sum;
    }
    [[nodiscard]] std::vector<std::uint32_t> passes(std::uint64_t epoch) const override {
        const gneiss::pass_record& record = reuse_->record();
        std::vector<std::uint32_t> result =
            epoch < record.size() ? record[static_cast<std::size_t>(epoch)] : std::vector<std::uint32_t>{};
        result.resize(now_.states.size(), 0); // the last ones may have no training nodes
        return result;
    }

private:
    trainers::epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) override {
        now_ = epoch_of(options_, of_.data, from.epoch);
        training_->set_optimizers({.dense = options_.dense_optimizer(from.epoch, plateau())});
        observer.again = [&](std::uint32_t state, std::uint32_t passes, bool next_is_ready) {
            return reuse_->again(from.epoch, state, passes, next_is_ready);
        };
        const gneiss::epoch_plan states = with_next(options_, of_.data, from.epoch);
        std::optional<gneiss::buffer_state> ahead;
        if (states.size() > now_.states.size() && !of_.plan.in_memory &&
            (!options_.validates_after(from.epoch + 1) || evaluates_beside()))
            ahead = states.back();
        const auto began = clock::now();
        const gneiss::training_epoch done = training_->run(now_.states, from, observer, stop, ahead);
        seen_.seconds += trainers::seconds_since(began);
        seen_.batches += done.batches;
        seen_.input_rows += done.model.input_nodes;
        seen_.sampled_edges += done.model.sampled_edges;
        seen_.macro_batches += (done.stopped ? done.position.next.state + 1 : now_.states.size()) - from.next.state;
        write_passes();
        return {done.position, done.stopped};
    }
    std::uint64_t memory_between_epochs() override {
        return trainers::enter_evaluation(of_.plan, *training_, evaluates_beside());
    }
    void add_progress(nlohmann::ordered_json& to) const override { to["passes"] = reuse_->record(); }

    /// Writes RUN/reuse.json, the input of another run's --reuse-plan.
    void write_passes() const {
        const std::string text = nlohmann::ordered_json{{"passes", reuse_->record()}}.dump() + "\n";
        gneiss::atomic_write_file(of_.run.directory.path() / programs::passes_name, std::as_bytes(std::span(text)));
    }

    const options& options_;
    trainers::run_reporter& live_;
    std::optional<tier_rates> rates_;
    gneiss::miss_ratio_sampler asked_; // rows accessed by batches
    gneiss::feature_store store_;
    gneiss::bucket_store buckets_ = of_.data.buckets();
    gneiss::mapped_array<gneiss::partition_id> homes_; // of hubs, which train with their neighbors
    gneiss::node_plan now_;                            // current epoch
    std::optional<gneiss::macro_batch_reuse> reuse_;
    io_counts seen_; // this process

    std::unique_ptr<gneiss::feature_buffer> features_;
    std::unique_ptr<gneiss::graph_buffer> graph_;
    std::optional<gneiss::hanoi_trainer> training_;
};

/// Checks files before a run is touched.
void check_files(const options& settings, const gneiss::dataset& data, std::uint64_t memory) {
    if (settings.assignment) (void)sizes_in_assignment(*settings.assignment, data);
    if (const auto initial = settings.partitioning.initial_file())
        if (const std::size_t used = sizes_in_assignment(*initial, data).size();
            settings.partitions && used > *settings.partitions)
            throw programs::usage_error(fmt::format("--initial {}: names partition {}, --partitions is {}",
                initial->string(), used - 1, *settings.partitions));
    if (const auto file = settings.choice_of_hubs().file) (void)programs::rows_in(*file, data, memory / 8);
    if (settings.reuse_plan) (void)read_passes(*settings.reuse_plan);
}

/// Throws usage_error for more hubs than nodes, and for a larger macro-batch than all partitions.
void refuse_excess(const options& o, const gneiss::dataset& data) {
    const gneiss::dataset_manifest& graph = data.manifest();
    if (const auto hubs = o.choice_of_hubs(); hubs.count && hubs.count->count > graph.nodes)
        throw programs::usage_error(
            fmt::format("--hubs {}: {} has {} nodes", *o.hubs, data.directory().string(), graph.nodes));
    if (!o.macro) return;
    const std::uint64_t partitions = o.makes_parts() ? o.partitions.value_or(*o.macro)
        : o.assignment                               ? sizes_in_assignment(*o.assignment, data).size()
                                                     : std::max(graph.partitions - o.pinned(data), 1U);
    if (*o.macro > partitions)
        throw programs::usage_error(fmt::format("--macro {}: there are {} partitions", *o.macro, partitions));
}

/// A run of Hanoi: resolved flags and a memory plan, then partitions and hubs if the run makes its own.
class run final : public trainers::feature_run<options> {
public:
    static constexpr const char* program = hanoi::program;

    run(const options& given, trainers::run_context&& context)
        : feature_run(std::move(context), resolve(given, *context.data)) {
        options& o = config_.flags;
        check_files(o, *data_, o.memory->bytes);
        context_.live.say(introduction());
        check();
        partitions_choice chosen = choose_partitions(o, *data_, features_, net_);
        o = std::move(chosen.flags);
        if (!chosen.reason.empty()) context_.live.say(chosen.reason);
        if (!o.resume) refuse_excess(o, *data_);
        check_hubs(o, *data_, o.memory->bytes);
        if (!o.repartitions()) {
            take(plan_training(o, *data_, features_, net_, drawing()));
            open_backend(plan_);
            return;
        }
        // The exact sizes are known only after partitioning.
        if (o.dry_run) {
            take(plan_by_sizes(o, *data_, features_, net_));
            context_.live.say("the partitions do not exist yet: this plan is an estimate for the largest allowed "
                              "partitions, without edges between partitions");
        }
        plan_.budget = o.memory->bytes;
        if (!o.dry_run) plan_.disk_bytes = run_files(o, *data_, features_, net_, 0);
        plan_.disk_bytes += partition_files();
    }

    [[nodiscard]] const gneiss::training_plan& plan() const override { return plan_; }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        trainers::run_loop_options result = trainers::node_classification_loop(config_.flags, *data_);
        result.state = "macro-batch";
        return result;
    }
    [[nodiscard]] programs::epoch_work work() const override {
        return trainers::gnn_epoch_work(config_.flags, nullptr, *data_,
            plan_.keeps_all() ? 1 : static_cast<double>(plan_.slots) / plan_.partitioning.partitions);
    }
    void open(const trainers::opened_run& opened) override {
        const options& o = config_.flags;
        if (o.repartitions()) {
            preprocessed ready = preprocess(
                {o, *data_, opened, plan_.budget, gneiss::tbb_executor(o.threads), context_.live, context_.stop});
            data_ = std::move(ready.data);
            preprocessing_ = std::move(ready.record);
            programs::trim_memory();
            open_features();
            buckets_ = data_->buckets();
            take(plan_training(o, *data_, features_, net_, drawing()));
            open_backend(plan_);
            plan_.disk_bytes += partition_files();
        }
        const std::uint32_t pinned = o.pinned(*data_);
        context_.live.say(fmt::format("macro-batches of {} partitions{}, {} an epoch", *o.macro,
            pinned == 0 ? "" : fmt::format(" and {} hubs", data_->rows().begin(pinned)), plan_.order(0).size()));
    }
    void add_to(programs::run_record& record) const override { record.preprocessing = preprocessing_; }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        const options& o = config_.flags;
        if (const float scale =
                o.neighbor_scale(plan_.slots, plan_.partitioning.partitions, gneiss::relative_cut(buckets_));
            scale != 1)
            gneiss::scale_neighbor_weights(net_.weights, scale);
        return std::make_unique<training>(parts(plan_, opened), o,
            o.places_features() ? std::nullopt : measure_tiers(*data_, o, row_bytes(features_), plan_.budget),
            context_.live);
    }

private:
    /// Returns the disk space of partitions that the run makes, with the work of making them.
    [[nodiscard]] std::uint64_t partition_files() const {
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        std::uint64_t bytes = 12 * graph.train_edges + 8 * graph.nodes;
        for (const gneiss::dataset_array& a : graph.arrays) bytes += 2 * a.bytes;
        return bytes;
    }
    void take(macro_plan chosen) {
        plan_ = std::move(chosen.plan);
        config_.flags.macro = chosen.macro;
    }

    gneiss::training_plan plan_;
    nlohmann::ordered_json preprocessing_;
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains a GNN for node classification.");
    trainers::add_gnn_commands<options>(to, program);
}

} // namespace hanoi
