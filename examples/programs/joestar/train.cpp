// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/train/histories.hpp>
#include <gneiss/train/trainers/ginex.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include "kit/gnn/epoch_shape.hpp"
#include "kit/gnn/feature_run.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/gnn/neighbor_store.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/train.hpp"
#include "partitions.hpp"
#include "program.hpp"
#include "training_plan.hpp"

namespace joestar {

namespace {

/// Assembles Joestar: graph and features in memory or on disk, macro-batches one ahead, batches within them, an
/// encoder. Without macro-batches, batches are sampled in the whole graph.
class training final : public trainers::node_classification_training {
public:
    /// Starts a run, or resumes it. `lists` are charged to the budget, too. `border`: with --first-stage pbs.
    training(const parts& of, const options& how, const training_plan& plan, const trainers::neighbor_store& lists,
        const std::shared_ptr<gneiss::macro_batch_border>& border)
        : node_classification_training(of),
          options_(how),
          plan_(plan),
          lists_(lists) {
        const auto nodes = [this](std::uint32_t, std::vector<gneiss::node_id>& out) { out = of_.classes->train; };
        const gneiss::gnn_task task = of.classes->truth.task(nodes, how.class_weights, of.data, of.classes->train);
        const gneiss::any_sampler sampler = lists.visit([&](const auto& graph) {
            if (border)
                return gneiss::any_sampler(graph, [border, hops = how.first_hops(), seed = how.seed] {
                    return gneiss::bordered_sampler(border, hops, seed);
                });
            return how.single()
                ? gneiss::make_sampler(graph, how.sampling(), how.neighbor_options(), how.seed)
                : gneiss::make_sampler(graph, gneiss::sampler_kind::neighbor, how.first_hops(), how.seed);
        });
        const gneiss::feature_input rows = features(of.features);
        const made_of common{sampler, rows, task, border};
        schedule_layers(
            task, [&](gneiss::any_backend& by, const gneiss::training_observer& observer, const std::stop_token& stop) {
                std::optional<gneiss::histories> none; // that would be read and pushed
                gneiss::history_options ignored = how.histories();
                ignored.most_age = 0;
                if (border)
                    none.emplace(
                        gneiss::hidden_rows_of(of.net.encode), of.data.manifest().nodes, ignored, executor_, of.budget);
                make(common, &by, none ? &*none : nullptr, nullptr);
                if (single_)
                    (void)single_->run(gneiss::whole_graph(), gneiss::resume_position{}, observer, stop);
                else
                    (void)staged_->run(plan.common.order(0), gneiss::resume_position{}, observer, stop);
                single_.reset();
                staged_.reset();
            });
        if (border && of.device != nullptr) {
            if (of.device->histories->on_disk()) of.device->histories->open(stored_histories(*border), of.budget);
            past_ = of.device->histories.get();
        } else if (border) {
            if (plan.past == history_place::disk)
                here_.emplace(gneiss::hidden_rows_of(of.net.encode), stored_histories(*border), how.histories(),
                    executor_, of.budget);
            else
                here_.emplace(gneiss::hidden_rows_of(of.net.encode), of.data.manifest().nodes, how.histories(),
                    executor_, of.budget);
            past_ = &*here_;
        }
        if (border) {
            parts_hash_ = fmt::format("{:016x}", gneiss::checksum(std::as_bytes(border->parts())));
            if (of.run.saved && saved_as("partitions") != parts_hash_)
                throw gneiss::error(gneiss::errc::corrupt,
                    "was trained by other partitions than those of " +
                        (how.assignment ? how.assignment->string() : "checkpoint/parts.npy, or of the dataset"),
                    {.path = of.run.directory.path()});
        }
        if (past_ != nullptr && of.run.saved && !past_->on_disk()) load_histories();
        make(
            common, of.device == nullptr ? nullptr : &of.device->backend, here_ ? &*here_ : nullptr, of.run.recorder());
    }

    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override {
        return single_ ? single_->statistics() : staged_->statistics();
    }
    [[nodiscard]] gneiss::io_stats io() const override {
        gneiss::io_stats sum = lists_.io();
        if (rows_) sum += rows_->statistics().io;
        if (past_ != nullptr) sum += past_->io();
        return sum;
    }
    [[nodiscard]] programs::named<std::uint64_t> moved() const override {
        programs::named<std::uint64_t> result;
        if (rows_) result.emplace_back("gather_bytes", rows_->statistics().io.read_bytes);
        if (lists_.on_disk() != nullptr) result.emplace_back("sample_bytes", lists_.io().read_bytes);
        const gneiss::macro_batch_counts seen = staged_ ? gneiss::staged(*staged_) : single_counts_;
        if (staged_) result.emplace_back("macro_batches", seen.macro_batches);
        result.emplace_back("transferred_rows", seen.rows);
        result.emplace_back("transferred_edges", seen.edges);
        const gneiss::history_counts past = past_ != nullptr ? past_->counts() : gneiss::history_counts{};
        result.emplace_back("transferred_bytes", seen.bytes + past.read_bytes + past.push_bytes);
        if (past_ == nullptr) return result;
        result.emplace_back("history_rows", past.pulled);
        result.emplace_back("history_absent", past.absent);
        result.emplace_back("history_pushes", past.pushed);
        for (std::size_t age = 1; age < past.ages.count.size(); age *= 2) { // and the ages up to twice that
            std::uint64_t rows = 0;
            for (std::size_t a = age; a < std::min(2 * age, past.ages.count.size()); ++a) rows += past.ages.count[a];
            result.emplace_back(fmt::format("history_age_{}", age), rows);
        }
        return result;
    }

private:
    static constexpr const char* history_name = "histories-";

    /// Writes the histories that this checkpoint names, and removes those that the one before does not.
    void add_progress(nlohmann::ordered_json& to) const override {
        if (past_ == nullptr) return;
        to["partitions"] = parts_hash_;
        if (past_->on_disk()) {
            to["histories"] = past_->flush();
            return;
        }
        const std::filesystem::path in = of_.run.directory.checkpoint();
        std::vector<std::filesystem::path> old;
        for (const auto& entry : std::filesystem::directory_iterator(in))
            if (const std::string name = entry.path().filename().string();
                name.starts_with(history_name) && name != histories_)
                old.push_back(entry.path());
        for (const std::filesystem::path& file : old) std::filesystem::remove(file);
        histories_ = fmt::format("{}{}", history_name, ++histories_saved_);
        past_->save(in / histories_);
        to["histories"] = histories_;
    }
    [[nodiscard]] std::string saved_as(const char* name) const {
        return trainers::read_progress(*of_.run.saved, of_.run.directory.path(),
            [name](const nlohmann::ordered_json& progress) { return progress.at(name).get<std::string>(); });
    }
    /// Returns the file of histories, new or that of the run.
    [[nodiscard]] gneiss::history_store stored_histories(const gneiss::macro_batch_border& border) const {
        gneiss::history_store result{.path = of_.run.directory.checkpoint() / "histories",
            .parts = border.parts(),
            .partitions = border.partitions(),
            .most_inside = plan_.most_inside,
            .most_halo = plan_.most_halo};
        if (of_.run.saved) result.versions = saved_as("histories");
        return result;
    }
    void load_histories() {
        histories_ = saved_as("histories");
        if (!histories_.starts_with(history_name) || histories_.find('/') != std::string::npos)
            throw gneiss::error(
                gneiss::errc::corrupt, "names no file of histories", {.path = of_.run.directory.path()});
        past_->load(of_.run.directory.checkpoint() / histories_);
        histories_saved_ = std::strtoull(histories_.c_str() + std::string_view(history_name).size(), nullptr, 10);
    }

    /// Parts of the trainer that a warm-up has, too.
    struct made_of {
        const gneiss::any_sampler& sampler;
        const gneiss::feature_input& rows;
        const gneiss::gnn_task& task;
        const std::shared_ptr<gneiss::macro_batch_border>& border;
    };
    /// Makes the trainer, of one stage or two.
    void make(
        const made_of& common, gneiss::any_backend* backend, gneiss::histories* past, gneiss::trace_recorder* trace) {
        const options& how = options_;
        const std::size_t workers = how.pipeline_options().sample_workers;
        if (how.single()) {
            single_.emplace(
                gneiss::make_ginex({.batch = *how.batch,
                                       .seed = how.seed,
                                       .rows_in_flight = static_cast<std::size_t>(how.in_flight),
                                       .sample_workers = workers,
                                       .batch_nodes = plan_.room_nodes,
                                       .encoder_memory = plan_.encoder_bytes,
                                       .spare_memory = plan_.spare_bytes,
                                       .trace = trace,
                                       .superbatches = {.schedule = gneiss::superbatch_schedule::conventional}},
                    gneiss::ginex_parts{.sampler = common.sampler,
                        .features = common.rows,
                        .task = common.task,
                        .nodes = of_.data.manifest().nodes,
                        .encode = of_.net.encode,
                        .weights = of_.net.weights,
                        .optimizer = how.dense_optimizer(0),
                        .backend = backend,
                        .on_device = lists_.draws_on(of_.device)},
                    executor_));
            return;
        }
        gneiss::macro_batch_options macro_batches = plan_.macro_batches;
        if (of_.device != nullptr) macro_batches.device = of_.device->macros;
        staged_.emplace(gneiss::make_joestar({.batch = common.border ? *how.batch : std::min(*how.batch, plan_.large),
                                                 .large_batch = plan_.large,
                                                 .second = how.second_hops(),
                                                 .ahead = how.sampled(),
                                                 .macro_batches = macro_batches,
                                                 .seed = how.seed,
                                                 .rows_in_flight = static_cast<std::size_t>(how.in_flight),
                                                 .sample_workers = workers,
                                                 .batch_nodes = plan_.room_nodes,
                                                 .encoder_memory = plan_.encoder_bytes,
                                                 .spare_memory = plan_.spare_bytes,
                                                 .trace = trace},
            gneiss::joestar_parts{.first_stage = common.sampler,
                .features = common.rows,
                .task = common.task,
                .nodes = of_.data.manifest().nodes,
                .encode = of_.net.encode,
                .weights = of_.net.weights,
                .optimizer = how.dense_optimizer(0),
                .backend = backend,
                .border = common.border,
                .past = past,
                .past_on_device = past == nullptr ? past_ : nullptr,
                .second_on_device = of_.device == nullptr ? std::nullopt : of_.device->sampler},
            executor_, of_.budget));
    }

    /// Opens the features: in memory, or on disk.
    [[nodiscard]] gneiss::feature_input features(const gneiss::node_features& from) {
        if (options_.places_features()) return gneiss::features_on_device(static_cast<std::size_t>(from.columns()));
        const gneiss::feature_files files = from.files();
        if (*options_.feature_cache == "memory") {
            whole_.emplace(files, of_.engine.make, of_.budget);
            return whole_->all();
        }
        gneiss::gather_options reads{.staging_bytes = static_cast<std::size_t>(plan_.staging_bytes)};
        if (const auto device = trainers::device_profile(of_.data, options_))
            reads.coalesce_bytes = static_cast<std::size_t>(device->coalesce_bytes);
        rows_.emplace(std::in_place_type<gneiss::disk_rows>, of_.engine.make, trainers::rows_of(files, from.columns()),
            reads, executor_, of_.budget);
        return gneiss::feature_rows{.source = *rows_,
            .columns = static_cast<std::size_t>(from.columns()),
            .type = files.type,
            .normalized = *options_.normalize_features};
    }

    trainers::epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) override {
        const gneiss::training_optimizers by{
            gneiss::any_row_optimizer(gneiss::sgd{}), options_.dense_optimizer(from.epoch, plateau())};
        gneiss::training_epoch done;
        if (single_) {
            single_->set_optimizers(by);
            done = single_->run(gneiss::whole_graph(), from, observer, stop);
            const std::uint64_t row = of_.features.bytes() / of_.features.rows(); // on average, if they are sparse
            single_counts_.rows += done.model.input_nodes;
            single_counts_.edges += done.model.sampled_edges;
            single_counts_.bytes +=
                done.model.input_nodes * (row + sizeof(gneiss::node_id)) + 4 * done.model.sampled_edges;
        } else {
            staged_->set_optimizers(by);
            done = staged_->run(of_.plan.order(from.epoch), from, observer, stop);
        }
        return {done.position, done.stopped};
    }

    std::uint64_t memory_between_epochs() override {
        return single_ ? trainers::enter_evaluation(of_.plan, *single_, true)
                       : trainers::enter_evaluation(of_.plan, *staged_, false);
    }

    const options& options_;
    const training_plan& plan_;
    const trainers::neighbor_store& lists_;
    std::optional<trainers::whole_features> whole_;
    std::optional<gneiss::any_row_source> rows_;
    std::optional<gneiss::ginex_trainer> single_;
    gneiss::macro_batch_counts single_counts_; ///< of batches, which a device would get one by one
    std::optional<gneiss::histories> here_;    ///< histories on the CPU; or those of the device
    gneiss::history_keeper* past_ = nullptr;   ///< either of them; null: there are none
    std::string parts_hash_;                   ///< of the partitions
    mutable std::string histories_;            ///< file of the checkpoint saved last
    mutable std::uint64_t histories_saved_ = 0;
    std::optional<gneiss::joestar_trainer> staged_;
};

/// A run of Joestar: resolved flags, opened adjacency files, and a memory plan based on samples of a few macro-batches.
class run final : public trainers::feature_run<options> {
public:
    static constexpr const char* program = joestar::program;

    run(const options& given, trainers::run_context&& context)
        : feature_run(std::move(context), resolve(given, *context.data)) {
        classes_.emplace(*data_);
        options& o = config_.flags;
        const bool chosen = !o.topology && !o.feature_cache, fits = bytes_in_memory(o, *data_, net_) <= o.memory->bytes,
                   sparse = data_->has("features.indptr");
        if (o.places_features()) o.feature_cache = "none";
        if (!o.topology) o.topology = fits ? "memory" : "disk";
        if (!o.feature_cache) o.feature_cache = fits || sparse ? "memory" : "none";
        trainers::run_reporter& live = context_.live;
        live.say(fmt::format("{}; {}, neighbors in {}, rows {}", introduction(),
            o.single()              ? "one stage"
                : o.by_partitions() ? fmt::format("partitions (halo: {}, ahead: {})", *o.halo, *o.ahead)
                                    : fmt::format("two stages ({})", *o.second_stage),
            *o.topology == "disk" ? "a file" : "memory",
            o.feature_place == "device" || o.places_features() ? "on the device"
                : *o.feature_cache == "none"                   ? "in a file"
                                                               : "in memory"));
        if (chosen && !fits)
            live.say(fmt::format("neighbors and features in memory need {}, more than the budget: they stay on disk",
                gneiss::format_bytes(bytes_in_memory(o, *data_, net_))));
        check();
        const gneiss::tbb_executor executor(o.threads);
        const trainers::run_lists& files = lists_at_.emplace(program, *data_, o);
        files.build(*data_, o.memory->bytes, executor, context_.stop, live);
        open_lists();
        if (o.by_partitions()) {
            parts_ = partitions_of(o, *data_, executor, live, context_.stop);
            border_ = std::make_shared<gneiss::macro_batch_border>(parts_.of, parts_.count);
        }
        plan_ = plan_training({o, *data_, features_, net_, *lists_, classes_->train, border_.get(), executor,
            context_.device.get(), budget_.used(), context_.stop});
        trainers::staged_inputs staged;
        if (o.stages_on_device()) {
            staged.macros = plan_.on_device;
            staged.fanout = gneiss::bounded_fanout(o.form(), o.first_hops().fanout, o.second_hops().fanout);
        }
        if (border_ && context_.device) staged.histories = plan_.past_on_device;
        open_backend(plan_.common, &staged);
        if (o.single()) return;
        o.macro = std::to_string(plan_.large);
        if (border_ && !o.history_store) o.history_store = store_of(plan_.past);
        plan_.common.order = [this](std::uint64_t epoch) {
            return border_ ? gneiss::macro_batches(
                                 parts_.count, 0, static_cast<std::uint32_t>(plan_.large), config_.flags.seed, epoch)
                                 .states
                           : cut(epoch).states();
        };
        live.say(plan_.traffic);
    }

    [[nodiscard]] const gneiss::training_plan& plan() const override { return plan_.common; }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        trainers::run_loop_options result = trainers::node_classification_loop(config_.flags, *data_);
        if (!config_.flags.single()) result.state = "macro-batch";
        return result;
    }
    [[nodiscard]] programs::epoch_work work() const override {
        return trainers::gnn_epoch_work(config_.flags, nullptr, *data_);
    }
    void open(const trainers::opened_run& opened) override {
        if (parts_.made) keep_partitions(*data_, parts_, opened.directory.checkpoint());
        if (!lists_at_->homeless()) return;
        lists_.reset();
        lists_at_->move_to(opened.directory.checkpoint());
        open_lists();
    }
    void add_to(programs::run_record& record) const override { record.schedule = schedule_; }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        auto result = std::make_unique<training>(parts(plan_.common, opened), config_.flags, plan_, *lists_, border_);
        schedule_ = result->layer_schedule();
        return result;
    }

private:
    [[nodiscard]] gneiss::large_batches cut(std::uint64_t epoch) const {
        return {classes_->train, plan_.large, config_.flags.seed, epoch};
    }
    void open_lists() {
        const options& o = config_.flags;
        lists_.emplace(*o.topology, **lists_at_, o.reading(data_->manifest()), context_.engine.make, budget_);
    }

    std::optional<trainers::run_lists> lists_at_;
    std::optional<trainers::neighbor_store> lists_;
    node_partitions parts_;
    std::shared_ptr<gneiss::macro_batch_border> border_;
    training_plan plan_;
    nlohmann::ordered_json schedule_; ///< of the layers' products; null without --schedule
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains a GNN for node classification.");
    trainers::add_gnn_commands<options>(to, program);
}

} // namespace joestar
