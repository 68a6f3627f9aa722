// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <gneiss/cache/adjacency_cache_score.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/train/trainers/ginex.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/epoch_shape.hpp"
#include "kit/gnn/feature_run.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/gnn/neighbor_store.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/run/candidates.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/train.hpp"
#include "program.hpp"
#include "stores.hpp"
#include "training_plan.hpp"

namespace ginex {

namespace {

using trainers::clock;

/// Returns both costs of a superbatch's rows, and the way that is taken.
std::string text_of(const gneiss::gather_choice& of) {
    if (of.random.requests == 0) return fmt::format("rows are read at random from here on: {}", of.obstacle);
    const auto cost = [](const gneiss::gather_cost& c, double seconds) {
        return fmt::format("{}, {:.1f} s", gneiss::format_bytes(c.bytes), seconds);
    };
    return fmt::format("gather: random {} requests, {}; scan {}, {} of them written; {}{}",
        programs::human_count(static_cast<double>(of.random.requests)), cost(of.random, of.random_seconds),
        cost(of.scan, of.scan_seconds), gneiss::format_bytes(of.dealt_bytes), of.scanned ? "scan" : "random",
        of.obstacle.empty() ? "" : fmt::format(": {}", of.obstacle));
}

/// Returns both costs of a superbatch's neighbors, and the way that is taken.
std::string text_of(const gneiss::neighbor_choice& of) {
    const auto cost = [](const gneiss::gather_cost& c, double seconds) {
        return fmt::format("{} requests, {}, {:.1f} s", programs::human_count(static_cast<double>(c.requests)),
            gneiss::format_bytes(c.bytes), seconds);
    };
    return fmt::format("neighbors of {} batches: random {}; scan {} in {} {}; {}", of.batches,
        cost(of.random, of.random_seconds), cost(of.scan, of.scan_seconds), of.groups,
        of.groups == 1 ? "group" : "groups", of.scanned ? "scan" : "random from here on");
}

/// Returns the settings of passes over neighbors.
gneiss::superbatch_sampler_options pass_settings(
    const gneiss::dataset& data, const options& how, const training_plan& plan, trainers::run_reporter& live) {
    gneiss::superbatch_sampler_options result{
        .way = *how.neighbor_reads == "scan" ? gneiss::gather_way::scan : gneiss::gather_way::automatic,
        .memory = plan.pass_bytes,
        .batch_bytes = plan.batch_bytes};
    if (const auto device = trainers::device_profile(data, how)) result.device = *device;
    result.chosen = [&live](const gneiss::neighbor_choice& of) { live.say(text_of(of)); };
    return result;
}

/// Returns the settings of the features: the rates of the device say which rows are read together, and whether they are
/// dealt out.
features::settings feature_settings(const gneiss::dataset& data, const options& how, const training_plan& plan,
    std::span<const std::uint32_t> rank, const std::filesystem::path& directory, trainers::run_reporter& live) {
    features::settings result{.staging_bytes = static_cast<std::size_t>(plan.staging_bytes),
        .slots = plan.slots,
        .table = plan.table,
        .rank = rank};
    const auto device = trainers::device_profile(data, how);
    if (device) result.coalesce_bytes = static_cast<std::size_t>(device->coalesce_bytes);
    if (plan.dealing_bytes == 0) return result;
    auto& deal = result.deal.emplace();
    deal.way = *how.gather == "scan" ? gneiss::gather_way::scan : gneiss::gather_way::automatic;
    deal.directory = directory;
    deal.memory = plan.dealing_bytes;
    if (device) deal.device = *device;
    deal.chosen = [&live](const gneiss::gather_choice& of) { live.say(text_of(of)); };
    return result;
}

std::filesystem::path superbatches_of(const std::filesystem::path& run) {
    return run / gneiss::superbatch_inspector::subdirectory;
}

/// Assembles Ginex: graph and features on disk, a cache of each, superbatches, an encoder.
class training final : public trainers::node_classification_training {
public:
    /// Starts a run, or resumes it. `lists` are charged to the budget, too.
    training(const parts& of, const options& how, const training_plan& plan, topology& lists, training_edges* edges,
        const std::optional<gneiss::any_negatives>& negatives, trainers::compute_device* device,
        trainers::run_reporter& live)
        : node_classification_training(of),
          options_(how),
          plan_(plan),
          graph_(lists),
          edges_(edges),
          live_(live) {
        gneiss::remove_tree(superbatches()); // leftovers of a process that was killed; no batch may be left to train
        if (plan.neighbor_bytes != 0) open_neighbor_cache(live);
        std::vector<std::uint32_t> ranked_by;
        if (how.feature_cache == "static") ranked_by = occurrences(lists.files());
        programs::trim_memory();
        features_.emplace(how, of.features, feature_settings(of.data, how, plan, ranked_by, superbatches(), live),
            of.engine.make, executor_, of.budget);
        const bool in_turns = *how.pipeline == "alternate";
        if (neighbors_ && !in_turns) neighbors_->load();
        if (in_turns && features_->cache() != nullptr) features_->cache()->release();
        if (plan.pass_bytes != 0) ahead_ = lists.ahead(pass_settings(of.data, how, plan, live), executor_, passes_);
        gneiss::ginex_options options{.batch = *how.batch,
            .negatives = how.links() ? how.negative_options() : gneiss::negative_options{},
            .own_negatives = negatives,
            .seed = how.seed,
            .rows_in_flight = static_cast<std::size_t>(*how.in_flight),
            .sample_workers = how.pipeline_options().sample_workers,
            .batch_nodes = plan.room_nodes,
            .encoder_memory = plan.encoder_bytes,
            .spare_memory = plan.spare_bytes,
            .trace = of.run.recorder(),
            .superbatches = {.schedule = how.pipeline_schedule(),
                .batches = plan.superbatch,
                .directory = of_.run.directory.path(),
                .cache_capacity = 0,
                .direct_table = plan.direct_table,
                .carry = *how.carry,
                .accesses = plan.accesses,
                .epochs = *how.epochs,
                .change_sets = device == nullptr ? gneiss::change_set_maker{} : device->change_sets()}};
        const gneiss::ginex_parts parts{.sampler = lists.sampler(),
            .features = how.places_features() && !how.tier_by_change_sets()
                ? gneiss::feature_input(gneiss::features_on_device(of.net.encode.inputs().dense))
                : features_->input(),
            .task = make_task(how),
            .nodes = of.data.manifest().nodes,
            .encode = of.net.encode,
            .weights = of.net.weights,
            .optimizer = how.dense_optimizer(0),
            .row_optimizer = how.any_row_optimizer(0),
            .backend = of.device == nullptr ? nullptr : &of.device->backend,
            .before_sampling =
                [this] {
                    if (features_->cache() != nullptr) features_->cache()->release();
                    programs::trim_memory();
                    if (neighbors_) neighbors_->load();
                },
            .before_gathering =
                [this] {
                    if (neighbors_) neighbors_->release();
                    programs::trim_memory();
                    if (features_->cache() != nullptr) features_->cache()->acquire();
                },
            .ahead = ahead_.get(),
            .on_device = lists.draws_on(of.device)};
        training_.emplace(gneiss::make_ginex(options, parts, executor_));
    }

    void add_to(programs::run_record&) override {
        if (plan_.superbatch == 0) return;
        live_.say(fmt::format("files of the largest superbatch: {}, planned {}",
            gneiss::format_bytes(gneiss::inspected(*training_).largest_bytes),
            gneiss::format_bytes(plan_.run_file_bytes / 2)));
    }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::io_stats io() const override {
        if (*options_.topology == "mmap" || *options_.feature_cache == "mmap")
            return {.read_bytes = programs::bytes_moved().read};
        return features_->statistics().io + graph_.io() + (edges_ == nullptr ? gneiss::io_stats{} : edges_->io());
    }
    [[nodiscard]] programs::named<double> stage_seconds() const override {
        const gneiss::superbatch_times t = gneiss::times_of(*training_);
        return {{"sample", t.sample}, {"changeset", t.change_set}, {"switch", t.switching}, {"load", t.load},
            {"gather", t.gather}, {"update", t.update}, {"compute", t.compute}, {"wait", t.wait}};
    }
    [[nodiscard]] programs::named<std::uint64_t> moved() const override {
        programs::named<std::uint64_t> bytes; // reads of mapped files are not counted by purpose
        if (*options_.feature_cache != "mmap")
            bytes.emplace_back("gather_bytes", features_->statistics().io.read_bytes);
        if (*options_.topology != "mmap") bytes.emplace_back("sample_bytes", graph_.io().read_bytes);
        if (plan_.dealing_bytes != 0) {
            const gneiss::extent_statistics of = features_->dealt();
            bytes.emplace_back("scanned_bytes", of.scanned_bytes);
            bytes.emplace_back("dealt_bytes", of.dealt_bytes);
        }
        if (ahead_) bytes.emplace_back("sample_scanned_bytes", ahead_->scanned().read_bytes);
        return bytes;
    }
    [[nodiscard]] trainers::cache_counts cache() const override {
        if (const auto* there = training_->features().get_if<gneiss::device_cached_features>())
            return {there->counts().first, there->counts().second};
        if (features_->cache() == nullptr) return {};
        const gneiss::gather_stats seen = features_->statistics();
        return {seen.rows, seen.hits};
    }

private:
    [[nodiscard]] gneiss::gnn_task make_task(const options& how) {
        if (edges_ != nullptr)
            return gneiss::predicted_links{*of_.edges->net.links, of_.edges->net.relations, edges_->buffer()};
        return of_.classes->truth.task(
            [this](std::uint32_t /*state*/, std::vector<gneiss::node_id>& out) { out = of_.classes->train; },
            how.class_weights, of_.data, of_.classes->train);
    }

    trainers::epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) override {
        training_->set_optimizers(
            {options_.any_row_optimizer(from.epoch, plateau()), options_.dense_optimizer(from.epoch, plateau())});
        const auto done = training_->run(gneiss::whole_graph(), from, observer, stop);
        return {done.position, done.stopped};
    }

    std::uint64_t memory_between_epochs() override {
        const std::uint64_t own = trainers::enter_evaluation(of_.plan, *training_, true);
        if (!plan_.shares_caches) return own;
        if (features_->cache() != nullptr) features_->cache()->release();
        if (neighbors_) neighbors_->release();
        programs::trim_memory();
        return own + plan_.cache_bytes;
    }

    [[nodiscard]] gneiss::seed_batches batches_of(std::uint64_t epoch) {
        if (edges_ != nullptr) return edges_->batches(epoch);
        return gneiss::node_batches(of_.classes->train, *options_.batch, options_.seed, epoch, 0);
    }

    [[nodiscard]] std::filesystem::path superbatches() const { return superbatches_of(of_.run.directory.path()); }

    /// Opens the run's neighbor cache, unless it is missing, damaged, or larger than this process' plan.
    void open_neighbor_cache(trainers::run_reporter& live) {
        const std::filesystem::path path = of_.run.directory.path() / programs::neighbor_cache_name;
        const gneiss::neighbor_direction d = options_.neighbors();
        gneiss::disk_csc& graph = *graph_.on_disk();
        const std::uint64_t fingerprint = graph.fingerprint(d);
        const auto open = [&] { neighbors_ = std::make_unique<gneiss::neighbor_cache>(path, fingerprint, of_.budget); };
        if (of_.run.saved && std::filesystem::exists(path)) {
            try {
                open();
                if (neighbors_->memory_bytes() <= plan_.neighbor_bytes) neighbors_->load(); // verified
                neighbors_->release();
            } catch (const gneiss::error& e) { // damaged, or of another version: rebuilt
                if (e.code() == gneiss::errc::over_budget) throw;
                live.warn(fmt::format("{}: not used, and rebuilt", e.what()));
                neighbors_.reset();
            }
        }
        if (!neighbors_ || neighbors_->memory_bytes() > plan_.neighbor_bytes) {
            live.say(fmt::format("building the neighbor cache, {}", gneiss::format_bytes(plan_.neighbor_bytes)));
            const std::vector<std::uint32_t> lengths = graph_.lengths();
            const std::vector<std::uint32_t> value = *options_.adjacency_cache_score == "visits"
                ? graph_.visits(batches_of(~std::uint64_t{0}), 100, executor_, of_.stop)
                : occurrences(graph_.files());
            gneiss::neighbor_cache::build(
                path, graph, d, gneiss::rank_lists(value, lengths, executor_), plan_.neighbor_bytes, fingerprint);
            open();
        }
        graph.set_cache(neighbors_.get());
    }

    const options& options_;
    const training_plan& plan_;
    topology& graph_;
    training_edges* edges_; // null: nodes are classified
    trainers::run_reporter& live_;
    std::unique_ptr<gneiss::neighbor_cache> neighbors_;
    std::optional<features> features_;
    gneiss::memory_budget passes_{plan_.pass_bytes}; // a part of the plan's
    std::unique_ptr<gneiss::superbatch_sampler> ahead_;
    std::optional<gneiss::ginex_trainer> training_;
};

/// A run of Ginex: resolved flags, opened adjacency files, a profile of a few batches, and a memory plan based on it.
class run final : public trainers::feature_run<options> {
public:
    static constexpr const char* program = ginex::program;

    run(const options& given, trainers::run_context&& context)
        : run(std::move(context), resolve(given, *context.data)) {}

    [[nodiscard]] const gneiss::training_plan& plan() const override { return plan_.common; }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        const options& o = config_.flags;
        return o.links() ? trainers::link_prediction_loop(o, o, context_.data->manifest())
                         : trainers::node_classification_loop(o, *context_.data);
    }
    [[nodiscard]] programs::epoch_work work() const override {
        const options& o = config_.flags;
        return trainers::gnn_epoch_work(o, o.links() ? &o : nullptr, *context_.data);
    }
    void clean(const trainers::opened_run& opened) override {
        gneiss::remove_tree(superbatches_of(opened.directory.path()));
    }
    void open(const trainers::opened_run& opened) override {
        if (!lists_at_->homeless()) return;
        lists_.reset();
        lists_at_->move_to(opened.directory.checkpoint());
        lists_.emplace(config_.flags, **lists_at_, context_.engine.make, budget_);
    }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        training::parts of = parts(plan_.common, opened);
        if (edges_) of.edges.emplace(config_.flags, net_);
        return std::make_unique<training>(of, config_.flags, plan_, *lists_, edges_ ? &*edges_ : nullptr,
            negatives_.source, context_.device.get(), context_.live);
    }

private:
    run(trainers::run_context&& context, const options& resolved) : feature_run(std::move(context), resolved) {
        options& o = config_.flags;
        const options placed = o; // with the place of features
        o = choose_stores(placed, *data_, net_);
        const gneiss::dataset_manifest& graph = data_->manifest();
        if (o.links())
            negatives_ = trainers::negatives_for(o, o.seed, *data_, o.memory->bytes, context_.stop);
        else
            classes_.emplace(*data_);
        trainers::run_reporter& live = context_.live;
        live.say(fmt::format("{}; neighbors {}, rows {}, {}",
            introduction(o.links() ? fmt::format("{} relations, {}", graph.relations, *o.decoder) : ""), *o.topology,
            o.tier_by_change_sets()   ? "in a cache on the device"
                : o.places_features() ? "on the device"
                                      : *o.feature_cache,
            *o.pipeline));
        check();
        const gneiss::tbb_executor executor(o.threads);
        const trainers::run_lists& files = lists_at_.emplace(program, *data_, o);
        files.build(*data_, o.memory->bytes, executor, context_.stop, live);
        std::optional<profile> seen;
        const auto plan = [&] {
            lists_.emplace(o, *files, context_.engine.make, budget_);
            if (o.links()) edges_.emplace(o, buckets_, negatives_.source, context_.engine.make, budget_);
            const gneiss::seed_batches first =
                edges_ ? edges_->batches(0) : gneiss::node_batches(classes_->train, *o.batch, o.seed, 0, 0);
            seen.emplace(
                take_profile(o, *lists_, *files, static_cast<std::size_t>(features_.bytes() / features_.rows()), first,
                    net_, executor, budget_, context_.stop));
            plan_ = plan_training(o, *data_, features_, net_, *seen, first.size(), negatives_.memory, budget_.used());
        };
        const bool chosen = !placed.topology && !placed.feature_cache;
        const auto say_disk = [&](std::uint64_t bytes) {
            live.say(fmt::format("neighbors and features in memory need {}, more than the budget: they stay on disk",
                gneiss::format_bytes(bytes)));
        };
        if (chosen && *o.topology == "disk") say_disk(bytes_in_memory(o, *data_, net_));
        try {
            plan();
        } catch (const gneiss::over_budget& refused) { // batches were larger than estimated
            if (!chosen || *o.topology != "memory") throw;
            const std::exception_ptr in_memory = std::current_exception();
            edges_.reset();
            lists_.reset();
            options on_disk = placed;
            on_disk.topology = "disk";
            if (!data_->has("features.indptr") && !placed.places_features()) on_disk.feature_cache = "belady";
            o = choose_stores(on_disk, *data_, net_);
            try {
                plan();
            } catch (const gneiss::over_budget&) { // the disk does not help
                std::rethrow_exception(in_memory);
            }
            say_disk(refused.needed());
        }
        if (o.links() && !o.no_eval)
            trainers::check_candidates(o, o.seed, *data_, plan_.common.evaluation_bytes, context_.stop);
        open_backend(plan_.common);
        o.cache_split = plan_.cache_split;
        o.run_files = plan_.run_files;
        live.say(fmt::format("{} batches drawn: {} nodes and {} each, {:.1f} ms{}{}", seen->batches,
            programs::human_count(seen->nodes), gneiss::format_bytes(static_cast<std::uint64_t>(seen->sample_bytes)),
            1000 * seen->seconds,
            seen->rows.requests() == 0
                ? ""
                : fmt::format("; {} of the caches' memory for neighbors", programs::human_percent(plan_.cache_split)),
            plan_.superbatch == 0 ? ""
                                  : fmt::format("; superbatches of {}, {} of files", plan_.superbatch,
                                        gneiss::format_bytes(plan_.run_file_bytes))));
    }

    trainers::run_negatives negatives_;
    std::optional<training_edges> edges_; // with --task link
    std::optional<trainers::run_lists> lists_at_;
    std::optional<topology> lists_;
    training_plan plan_;
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains a GNN for node classification or link prediction.");
    trainers::add_gnn_commands<options>(to, program);
}

} // namespace ginex
