#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <gneiss/cache/adjacency_cache_score.hpp>
#include <gneiss/train/superbatch_trainer.hpp>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/machine.hpp"
#include "common/signals.hpp"
#include "stores.hpp"
#include "training_plan.hpp"
#include "common/training/node_classification_training.hpp"
#include "common/training/run_loop.hpp"
#include "common/training/device.hpp"
#include "common/training/engine.hpp"
#include "common/training/open_run.hpp"

namespace ginex {

namespace {

using trainers::clock;

/// Unwanted bytes between rows that are read rather than asked around.
std::size_t coalesce_bytes_of(const gneiss::dataset& data, const options& how) {
    const auto device = trainers::device_profile(data, how);
    return device ? static_cast<std::size_t>(device->coalesce_bytes) : features::settings{}.coalesce_bytes;
}

std::filesystem::path superbatches_of(const std::filesystem::path& run) { return run / "superbatches"; }

/// Assembles Ginex: a graph and features on disk, caches of both, superbatches, an encoder.
class ginex_trainer final : public trainers::node_classification_training {
public:
    /// Starts a run, or goes on with it. `lists` are charged to the budget, too.
    ginex_trainer(const parts& of, const options& how, const training_plan& plan, topology& lists, trainers::compute_device* device, programs::progress& live)
        : node_classification_training(of),
          options_(how), plan_(plan), graph_(lists) {
        std::filesystem::remove_all(superbatches()); // of a run that could not, and that may have no batch left to train
        if (plan.neighbor_bytes != 0) open_neighbor_cache(live);
        std::vector<std::uint32_t> ranked_by;
        if (how.feature_cache == "static") ranked_by = occurrences(lists_of(of.data, how.neighbors()));
        programs::trim_memory();
        features_.emplace(how, of.features,
            features::settings{.slots = plan.slots, .table = plan.table, .coalesce_bytes = coalesce_bytes_of(of.data, how), .rank = ranked_by},
            of.engine.make, executor_, of.budget);
        const bool in_turns = *how.pipeline == "alternate";
        if (neighbors_ && !in_turns) neighbors_->load();
        if (in_turns && features_->cache() != nullptr) features_->cache()->release();
        gneiss::superbatch_trainer_options options{.batch = *how.batch, .seed = how.seed,
            .rows_in_flight = static_cast<std::size_t>(*how.in_flight), .sample_workers = how.pipeline_options().sample_workers,
            .batch_nodes = plan.batch_nodes,
            .superbatches = {.schedule = how.schedule(), .batches = plan.superbatch, .directory = superbatches(),
                .cache_capacity = 0, .direct_table = plan.direct_table, .carry = *how.carry == "on", .accesses = plan.accesses, .epochs = *how.epochs,
                .change_sets = device == nullptr ? gneiss::change_set_maker{} : device->change_sets()}};
        gneiss::superbatch_parts parts{.sampler = lists.sampler(), .features = features_->input(), .labels = of.classes.labels(),
            .training_nodes = of.classes.train, .encode = of.net.encode, .weights = of.net.weights,
            .optimizer = how.dense_optimizer(0), .backend = of.backend,
            .before_sampling = [this] {
                if (features_->cache() != nullptr) features_->cache()->release();
                programs::trim_memory();
                if (neighbors_) neighbors_->load();
            },
            .before_gathering = [this] {
                if (neighbors_) neighbors_->release();
                programs::trim_memory();
                if (features_->cache() != nullptr) features_->cache()->acquire();
            }};
        training_ = std::make_unique<gneiss::superbatch_trainer>(std::move(options), std::move(parts), executor_);
        if (of.run.saved) training_->set_steps(saved_progress().at("steps").get<std::uint64_t>());
    }

    /// Files of the largest superbatch [bytes]; 0 without superbatches.
    [[nodiscard]] std::uint64_t largest_superbatch() const { return training_->inspected().largest_bytes; }
    [[nodiscard]] std::uint64_t steps() const override { return training_->steps(); }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::io_stats io() const override {
        if (*options_.topology == "mmap" || *options_.feature_cache == "mmap") return {.read_bytes = programs::bytes_read_from_device()};
        return features_->statistics().io + graph_.io();
    }
    [[nodiscard]] programs::named<double> stage_seconds() const override {
        const gneiss::superbatch_times t = training_->times();
        return {{"sample", t.sample}, {"changeset", t.change_set}, {"switch", t.switching}, {"load", t.load}, {"gather", t.gather},
            {"update", t.update}, {"compute", t.compute}, {"wait", t.wait}};
    }
    [[nodiscard]] trainers::cache_counts cache() const override {
        if (features_->cache() == nullptr) return {};
        const gneiss::gather_stats seen = features_->statistics();
        return {seen.rows, seen.hits};
    }

private:
    trainers::epoch_end train_epoch(const gneiss::resume_position& from, gneiss::training_observer told, const std::stop_token& stop) override {
        training_->set_optimizer(options_.dense_optimizer(from.epoch));
        const auto done = training_->run(from.epoch, from.next, told, stop);
        return {done.position, done.stopped};
    }

    std::uint64_t memory_between_epochs() override {
        if (!plan_.shares_caches) return node_classification_training::memory_between_epochs();
        if (features_->cache() != nullptr) features_->cache()->release();
        if (neighbors_) neighbors_->release();
        programs::trim_memory();
        return node_classification_training::memory_between_epochs() + plan_.cache_bytes;
    }

    [[nodiscard]] std::filesystem::path superbatches() const { return superbatches_of(of_.run.directory.path()); }

    /// That of the run, unless there is none yet, it is damaged, or it is larger than this process' plan.
    void open_neighbor_cache(programs::progress& live) {
        const std::filesystem::path path = of_.run.directory.path() / "neighbors.cache";
        const gneiss::neighbor_direction d = options_.neighbors();
        gneiss::disk_csc& graph = *graph_.on_disk();
        const std::uint64_t fingerprint = graph.fingerprint(d);
        const auto open = [&] { neighbors_ = std::make_unique<gneiss::neighbor_cache>(path, fingerprint, of_.budget); };
        if (of_.run.saved && std::filesystem::exists(path)) {
            try {
                open();
                if (neighbors_->memory_bytes() <= plan_.neighbor_bytes) neighbors_->load(); // verified
                neighbors_->release();
            } catch (const gneiss::error& e) { // what is damaged, or of another version, is built again
                if (e.code() == gneiss::errc::over_budget) throw;
                live.say(fmt::format("{}: not used", e.what()));
                neighbors_.reset();
            }
        }
        if (!neighbors_ || neighbors_->memory_bytes() > plan_.neighbor_bytes) {
            live.say(fmt::format("building the cache of neighbors, {}", gneiss::format_bytes(plan_.neighbor_bytes)));
            const std::vector<std::uint32_t> lengths = graph_.lengths();
            const std::vector<std::uint32_t> value = *options_.adjacency_cache_score == "visits"
                ? graph_.visits(gneiss::node_batches(of_.classes.train, *options_.batch, options_.seed, ~std::uint64_t{0}, 0), 100, executor_, of_.stop)
                : occurrences(lists_of(of_.data, d));
            gneiss::neighbor_cache::build(path, graph, d, gneiss::rank_lists(value, lengths, executor_), plan_.neighbor_bytes, fingerprint);
            open();
        }
        graph.set_cache(neighbors_.get());
    }

    const options& options_;
    const training_plan& plan_;
    topology& graph_;
    std::unique_ptr<gneiss::neighbor_cache> neighbors_;
    std::optional<features> features_;
    std::unique_ptr<gneiss::superbatch_trainer> training_;
};

programs::exit_code train(options& settings, programs::command& command) {
    const auto began = clock::now();
    const std::unique_ptr<trainers::compute_device> device = trainers::open_device(settings);
    programs::check_dataset(settings.dataset);
    const gneiss::dataset data(settings.dataset);
    const gneiss::dataset_manifest& graph = data.manifest();
    settings.resolve(data);
    trainers::classifier net(settings, data);
    gneiss::node_features given = data.features();
    if (*settings.normalize_features) given.normalize_rows();
    const trainers::node_classification classes(data);
    choose_stores(settings, data, net);
    programs::progress live(settings.quiet);
    const gneiss::engine_choice engine = trainers::choose_engine(settings);
    live.say(trainers::describe_machine(program, settings, engine, device.get()));
    live.say(fmt::format("{}: {} nodes, {} edges, {} classes, {} nodes to train; {} of {} features, fan-out {} ({}); neighbors {}, rows {}, {}",
        graph.name, graph.nodes, graph.train_edges, graph.node_attributes.classes, graph.node_attributes.train, *settings.layers, graph.node_attributes.features,
        *settings.fanout, *settings.direction, *settings.topology, *settings.feature_cache, *settings.pipeline));
    auto backend = trainers::classifier_on(device.get(), settings, net); // what a device cannot hold is told before a run is touched
    const programs::interrupt_guard interrupts;
    const gneiss::tbb_executor executor(settings.threads);
    make_lists(data, settings.neighbors(), trainers::budget_of(settings) / 2, executor, interrupts.token(), [&](std::uint64_t done, std::uint64_t edges) {
        live.update([&] { return fmt::format("sorting neighbors: {} of {} edges", programs::human_count(static_cast<double>(done)), programs::human_count(static_cast<double>(edges))); });
    });
    gneiss::memory_budget budget(trainers::budget_of(settings));
    topology lists(settings, lists_of(data, settings.neighbors()), engine.make, budget);
    const gneiss::node_batches first(classes.train, *settings.batch, settings.seed, 0, 0);
    const profile seen = take_profile(settings, lists, lists_of(data, settings.neighbors()), static_cast<std::size_t>(given.bytes() / given.rows()), first, executor, interrupts.token());
    const training_plan plan = plan_training(settings, data, given, net, seen, budget.used());
    live.say(fmt::format("{} batches drawn: {} nodes and {} each, {:.1f} ms{}{}", seen.batches, programs::human_count(seen.nodes),
        gneiss::format_bytes(static_cast<std::uint64_t>(seen.sample_bytes)), 1000 * seen.seconds,
        seen.rows.requests() == 0 ? "" : fmt::format("; {} of the caches' memory for neighbors", programs::human_percent(*settings.cache_split)),
        plan.superbatch == 0 ? "" : fmt::format("; superbatches of {}, {} of files", plan.superbatch, gneiss::format_bytes(plan.run_file_bytes))));
    const gneiss::bucket_store buckets = data.buckets();
    if (settings.dry_run) {
        trainers::report_dry_run(program, settings, command, plan.common, buckets);
        return programs::exit_code::done;
    }
    const auto run = trainers::open_run(program, settings, command, data, plan.common);
    if (!run) { // it was finished; what it left when it was killed right after that
        if (settings.out) std::filesystem::remove_all(superbatches_of(*settings.out));
        return programs::exit_code::done;
    }
    const programs::plan_record planned = plan.common.record(buckets);
    if (!settings.quiet) live.say(trainers::describe(plan.common, planned));
    ginex_trainer training({settings, command, data, data, given, classes, plan.common, *run, engine, net, budget, backend ? &*backend : nullptr, interrupts.token()}, settings, plan, lists, device.get(), live);
    trainers::run_loop run_loop(settings, trainers::node_classification_loop(settings, graph), plan.common, run->directory, live, command.configuration());
    const programs::exit_code code = trainers::run_training(training, run_loop, *run, trainers::begin_record(program, engine, device.get(), data, command, planned),
        settings, live, interrupts.token(), began);
    if (plan.superbatch != 0)
        live.say(fmt::format("files of the largest superbatch: {}, planned {}", gneiss::format_bytes(training.largest_superbatch()), gneiss::format_bytes(plan.run_file_bytes / 2)));
    return code;
}

} // namespace

void add_train(programs::command_line& to) {
    static options settings;
    programs::command& command = to.add("train", "Trains a GNN for node classification.",
        [](programs::command& self) { return train(settings, self); });
    settings.add_to(command);
}

} // namespace ginex
