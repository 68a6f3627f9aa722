// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/trainers/armada.hpp>
#include <gneiss/train/worker_batches.hpp>

#include "actors.hpp"
#include "cluster.hpp"
#include "driver.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/gnn/class_weights.hpp"
#include "kit/gnn/epoch_shape.hpp"
#include "kit/gnn/feature_run.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/gnn/node_metrics.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/plan.hpp"
#include "kit/run/refused_plan.hpp"
#include "kit/run/train.hpp"
#include "model.hpp"
#include "program.hpp"

namespace armada {

namespace {

/// States that a worker loads in an epoch: its own, then its first one of the next epoch.
struct worker_states {
    gneiss::epoch_plan features, graph;
};
worker_states loaded(const options& o, std::uint32_t partitions, std::uint64_t epoch, std::uint32_t worker) {
    worker_states result;
    for (std::uint64_t e = epoch; e < std::min(epoch + 2, *o.epochs); ++e) {
        const std::vector<gneiss::node_plan> all = o.assignment(partitions, e);
        const gneiss::epoch_plan &own = all[worker].states, owned = gneiss::owned_rounds(all, worker);
        const auto add = [&](gneiss::epoch_plan& to, const gneiss::epoch_plan& from) {
            to.insert(to.end(), from.begin(), e == epoch ? from.end() : from.begin() + 1);
        };
        add(result.features, o.replicates_features() ? owned : own);
        add(result.graph, o.construction() == gneiss::construction::remote ? owned : own);
    }
    return result;
}

/// Returns the memory of the samplers of all threads. Remote construction has a sample's draws up to three times: as
/// answers, as their bytes, and in the order of the batch.
gneiss::memory_need samplers_of(const options& o, const gneiss::gnn_memory& bound) {
    gneiss::memory_need result = bound.samplers(o.armada_options().pipeline.sample_workers);
    if (o.construction() == gneiss::construction::remote) result.bytes *= 4;
    return result;
}

/// Returns the memory of grouped frames by the bounds of a batch.
gneiss::memory_need group_need(const options& o, const gneiss::gnn_memory& bound) {
    return gneiss::worker_batches::group_need(
        {.group = o.batches_of_group(), .compute_workers = o.compute_workers}, o.batch_workers, bound.batch.sample);
}

/// Returns the bytes of the rows of a batch's node: read, and their gradients if some are learned.
std::uint64_t row_bytes(const gneiss::gnn_shape& shape) {
    return shape.columns.dense * sizeof(float) * (shape.learned != 0 ? 2 : 1);
}

/// Returns the memory of learned rows: of this process's, of the sums of a step's gradients, and those of the processes
/// that own them, with what is sent to these at the start of an epoch.
std::vector<gneiss::memory_need> learned_needs(
    const options& o, const gneiss::gnn_shape& shape, const gneiss::gnn_memory& bound) {
    if (shape.learned == 0) return {};
    gneiss::memory_need rows = trainers::classifier::rows_need(o, shape.all_nodes, shape.learned);
    const std::uint64_t most = std::min(shape.all_nodes, o.replicas * (bound.batch.rows / row_bytes(shape)));
    std::vector<gneiss::memory_need> result{rows, gneiss::row_sums::need(shape.all_nodes, most, shape.learned)};
    if (o.elsewhere()) result.push_back({"learned rows of their owners", rows.bytes});
    return result;
}

/// Returns the memory of the cache, of its planning, and of the rows of groups that come from it, by the bounds of a
/// batch.
std::vector<gneiss::memory_need> cache_needs(
    const options& o, const gneiss::gnn_shape& shape, const gneiss::gnn_memory& bound) {
    const std::size_t columns = shape.columns.dense - shape.learned;
    const std::uint64_t rows = o.cached_rows(shape.all_nodes), row = columns * sizeof(float);
    if (rows == 0) return {};
    gneiss::memory_need cache = gneiss::rows_mirror::need(rows, columns);
    cache.bytes += gneiss::delivery_planner::bytes_needed(rows) + rows * sizeof(gneiss::node_id);
    const std::uint64_t group = std::min(o.batches_of_group() * bound.batch.rows / row_bytes(shape), shape.nodes);
    const std::uint64_t groups = gneiss::ceil_div(shape.nodes, *o.batch) * o.batch_workers;
    return {cache, gneiss::worker_batches::window_need({.window = o.superbatch}, groups, group),
        {"rows from the cache", o.batch_workers * group * row}};
}

/// Plans the memory of a run by the number of partitions that a worker holds.
class planner {
public:
    planner(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
        const trainers::classifier& net)
        : options_(settings),
          graph_(data.manifest()),
          buckets_(data.buckets()),
          store_(files_of(features, buckets_.rows().nodes), buckets_.rows()),
          sizes_(buckets_, &store_),
          net_(net),
          evaluation_(trainers::least_evaluation(settings, net, features, buckets_)) {}

    /// Returns the largest share of a worker.
    [[nodiscard]] std::uint32_t share() const {
        return gneiss::ceil_div(buckets_.rows().partitions - options_.hubs, options_.batch_workers);
    }

    [[nodiscard]] gneiss::training_plan with(std::uint32_t held) const {
        options o = options_;
        o.buffer = held;
        const std::uint32_t partitions = buckets_.rows().partitions;
        gneiss::training_plan plan;
        plan.partitioning = buckets_.rows();
        plan.slots = std::min(held * o.batch_workers + o.hubs, partitions);
        plan.in_memory = o.batch_workers == 1 && held >= partitions - o.hubs;
        plan.budget = o.memory->bytes;
        plan.order = [o, partitions](
                         std::uint64_t epoch) { return gneiss::rounds_of(o.assignment(partitions, epoch)); };
        std::uint64_t graph = 0, features = 0; // of a worker
        for (std::uint64_t e = 0; e < std::min<std::uint64_t>(*o.epochs, planned_epochs); ++e)
            for (std::uint32_t w = 0; w < o.batch_workers; ++w) {
                const worker_states states = loaded(o, partitions, e, w);
                graph = std::max(
                    graph, gneiss::graph_buffer::need(states.graph, buckets_, o.neighbors(), worker_graph(o)).bytes);
                features = std::max(features, gneiss::feature_buffer::need(states.features, store_).bytes);
            }
        if (*o.epochs > planned_epochs && !plan.in_memory) // later epochs draw other partitions
            for (std::uint64_t* bytes : {&graph, &features}) *bytes += *bytes / 16;
        plan.graph_bytes = graph * o.batch_workers;
        plan.feature_bytes = features * o.batch_workers;
        const gneiss::gnn_options training = o.armada_options();
        gneiss::gnn_shape shape = sizes_.of(o.sampled_partitions(partitions));
        shape.columns = net_.encode.inputs();
        shape.learned = net_.learned;
        if (graph_.node_attributes.target != gneiss::node_target_kind::classes) shape.targets = net_.encode.outputs();
        const gneiss::gnn_memory bound = gneiss::bound_armada_memory(training, shape, trainers::layers_of(net_.encode));
        plan.memory.reserve(o.program_need());
        plan.memory.add(gneiss::feature_buffer::need(plan.feature_bytes));
        plan.memory.add(gneiss::graph_buffer::need(plan.graph_bytes));
        plan.memory.reserve(trainers::label_need(graph_, !o.no_eval));
        if (!o.no_eval) plan.memory.reserve(trainers::node_metrics::need(graph_));
        if (o.batches_of_group() > 1) plan.memory.add(group_need(o, bound));
        for (gneiss::memory_need& need : cache_needs(o, shape, bound)) plan.memory.add(std::move(need));
        plan.memory.add(samplers_of(o, bound));
        plan.memory.reserve(net_.need());
        for (gneiss::memory_need& need : learned_needs(o, shape, bound)) plan.memory.reserve(std::move(need));
        if (o.replicas > 1) {
            const std::uint64_t gradients = net_.weights.values().size();
            plan.memory.add(gneiss::train_loop_options::shared_gradients(gradients));
            plan.memory.add(gneiss::sum_of_replicas::need(gradients));
        }
        const trainers::gnn_needs needs = trainers::needs_of(bound, {}, row_bytes(shape));
        trainers::add_batches_and_evaluation(plan, training.in_flight(), o.deterministic, needs,
            trainers::evaluation_part(evaluation_, plan.borrowable_bytes()));
        plan.further_reads = [o, this](const gneiss::epoch_plan& /*rounds*/) { return reads(o); };
        return plan;
    }

    /// Returns the plan for --buffer, or the largest one. Throws over_budget.
    [[nodiscard]] std::pair<gneiss::training_plan, std::uint32_t> choose() const {
        const std::uint32_t most = std::min(options_.buffer.value_or(share()), share());
        gneiss::training_plan plan = with(most);
        if (plan.fits()) return {for_processes(std::move(plan)), most};
        std::uint32_t fits = 0, fails = most;
        while (fits + 1 < fails) {
            const std::uint32_t middle = fits + (fails - fits) / 2;
            (with(middle).fits() ? fits : fails) = middle;
        }
        if (fits != 0 && !options_.buffer) return {for_processes(with(fits)), fits};
        if (fits == 0) plan = with(1);
        if (fits != 0)
            throw trainers::refused_plan(
                plan.budget, plan.memory, fmt::format("--buffer {} fits, {} does not", fits, most));
        const bool learns = options_.learned_columns() != 0;
        throw trainers::refused_plan(plan.budget, plan.memory,
            trainers::what_helps(plan.memory.parts(),
                {options_.batch_workers > 1 ? "fewer --batch-workers" : "", "a dataset of more partitions",
                    learns ? "a smaller --dim" : "",
                    learns ? "gneiss-mariusgnn --store disk, whose rows may be on disk" : ""},
                "--memory", options_.threads));
    }

private:
    static constexpr std::uint64_t planned_epochs = 32;

    /// Adds what processes hold that one process would not: it does not decide --buffer, which would decide bits.
    [[nodiscard]] gneiss::training_plan for_processes(gneiss::training_plan plan) const {
        if (!options_.aggregated()) return plan;
        // Each may make batches of all logical workers.
        plan.memory.reserve({"partitions of further compute workers",
            (options_.compute_workers - 1) * (plan.graph_bytes + plan.feature_bytes)});
        if (!plan.fits())
            throw trainers::refused_plan(
                plan.budget, plan.memory, "fewer compute workers, batch workers beside them, or a smaller --buffer");
        return plan;
    }
    /// Returns the bytes that the workers read in epoch 0.
    [[nodiscard]] std::uint64_t reads(const options& o) const {
        std::uint64_t bytes = 0;
        const std::vector<gneiss::node_plan> all = o.assignment(buckets_.rows().partitions, 0);
        for (std::uint32_t w = 0; w < all.size(); ++w)
            bytes += o.construction() == gneiss::construction::remote
                ? owned_reads(o, gneiss::owned_rounds(all, w))
                : gneiss::reads_of(all[w].states, buckets_.rows().partitions, o.neighbors(), buckets_, &store_);
        return bytes;
    }
    /// Returns the partitions of a round whose features a worker holds.
    [[nodiscard]] static std::set<gneiss::partition_id> with_features(
        const options& o, const gneiss::buffer_state& round) {
        std::set<gneiss::partition_id> result;
        if (o.replicates_features()) result.insert(round.resident.begin(), round.resident.end());
        for (const auto& [own, other] : round.edge_buckets) result.insert(own);
        return result;
    }
    /// Returns the bytes that a worker reads which owns the partitions that begin the edge buckets of these states.
    [[nodiscard]] std::uint64_t owned_reads(const options& o, const gneiss::epoch_plan& rounds) const {
        std::uint64_t bytes = 0;
        std::set<gneiss::edge_bucket> before;
        std::set<gneiss::partition_id> had;
        for (const gneiss::buffer_state& round : rounds) {
            const std::set<gneiss::edge_bucket> now(round.edge_buckets.begin(), round.edge_buckets.end());
            for (const auto& [own, other] : now) {
                if (before.contains({own, other})) continue;
                gneiss::for_each_side(o.neighbors(), [&, own = own, other = other](gneiss::edge_direction d) {
                    bytes += buckets_.extent(gneiss::bucket_of(own, other, d)).range(d).length;
                });
            }
            const std::set<gneiss::partition_id> held = with_features(o, round);
            for (const gneiss::partition_id p : held) {
                if (had.contains(p)) continue;
                for (const auto part :
                    {gneiss::feature_part::values, gneiss::feature_part::offsets, gneiss::feature_part::indices})
                    bytes += store_.blocks(p, part).length;
            }
            before = now;
            had = held;
        }
        return bytes;
    }

    const options& options_;
    const gneiss::dataset_manifest& graph_;
    gneiss::bucket_store buckets_;
    gneiss::feature_store store_;
    gneiss::state_sizes sizes_;
    const trainers::classifier& net_;
    std::uint64_t evaluation_;
};

/// Assembles Armada in one process: workers with their partitions, frames, replicas that share a step.
class training final : public trainers::node_classification_training {
public:
    /// Starts a run, or resumes it.
    training(const parts& of, const options& settings)
        : node_classification_training(of),
          options_(settings),
          store_(files_of(of.features, of.plan.partitioning.nodes), of.plan.partitioning),
          loop_(loop_options(of, settings)),
          shape_(
              gneiss::state_sizes(buckets_, &store_).of(settings.sampled_partitions(of.plan.partitioning.partitions))),
          task_(of.classes->truth.task({}, settings.class_weights, of.data, of.classes->train)),
          cutter_(gneiss::make_worker_task(task_, of.net.encode.outputs(), of.plan.partitioning)),
          source_(source_options(), cutter_, buffers(), executor_, of.budget.charge(samplers_of(settings, bound()))),
          shared_(charge_shared()),
          batches_(source_, {.run = settings.frame_run(of.data), .sampler = settings.sampling()}, executor_),
          training_(gneiss::make_armada(loop_,
              gneiss::armada_parts{.batches = gneiss::any_batches(std::ref(batches_)),
                  .task = task_,
                  .encode = of.net.encode,
                  .weights = of.net.weights,
                  .optimizer = settings.dense_optimizer(0),
                  .shape = shape_,
                  .cached_rows = static_cast<std::size_t>(settings.cached_rows(buckets_.rows().nodes)),
                  .rows = of.net.learned == 0 ? nullptr : &of.net.rows,
                  .row_optimizer = settings.any_row_optimizer(0)},
              executor_, of.budget)) {}

    void add_to(programs::run_record& record) override { record.weights_sha256 = hash_of(of_.net); }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_.statistics(); }
    [[nodiscard]] programs::named<std::uint64_t> moved() const override {
        const gneiss::frame_statistics read = batches_.statistics();
        programs::named<std::uint64_t> result{{"frames", read.frames}, {"frame_bytes", read.bytes},
            {"frame_rows", read.rows}, {"gradient_bytes", read.frames * of_.net.weights.values().size_bytes()}};
        if (options_.construction() == gneiss::construction::remote) add_traffic(result, source_.traffic());
        if (options_.feature_cache == "none") return result;
        result.emplace_back("cached_rows", read.cached);
        result.emplace_back("cache_fills", source_.cache_fills());
        result.emplace_back("id_bytes", source_.id_bytes());
        return result;
    }
    [[nodiscard]] gneiss::io_stats io() const override {
        gneiss::io_stats sum;
        for (const gneiss::worker_buffers& of : source_.buffers()) {
            sum += of.graph->statistics();
            sum += of.features->statistics();
        }
        return sum;
    }

private:
    [[nodiscard]] static gneiss::gnn_options loop_options(const parts& of, const options& settings) {
        gneiss::gnn_options loop = settings.armada_options();
        loop.batches_in_flight = of.plan.batches;
        loop.row_memory = of.plan.row_bytes;
        loop.sample_memory = of.plan.sample_bytes;
        loop.encoder_memory = of.plan.encoder_bytes;
        loop.pipeline.trace = of.run.recorder();
        return loop;
    }
    [[nodiscard]] gneiss::gnn_shape shape() const {
        gneiss::gnn_shape shape = shape_;
        shape.columns = of_.net.encode.inputs();
        shape.learned = of_.net.learned;
        if (const auto* targets = std::get_if<gneiss::targeted_nodes>(&task_))
            shape.targets = targets->task.targets.columns;
        return shape;
    }
    [[nodiscard]] gneiss::gnn_memory bound() const {
        return gneiss::bound_armada_memory(loop_, shape(), trainers::layers_of(of_.net.encode));
    }
    [[nodiscard]] std::vector<gneiss::memory_charge> charge_shared() const {
        std::vector<gneiss::memory_need> needs = cache_needs(options_, shape(), bound());
        if (options_.batches_of_group() > 1) needs.push_back(group_need(options_, bound()));
        std::vector<gneiss::memory_charge> result;
        for (gneiss::memory_need& need : needs) result.push_back(of_.budget.charge(std::move(need)));
        return result;
    }
    [[nodiscard]] gneiss::worker_options source_options() const {
        gneiss::worker_options result =
            worker_options_of(options_, of_.data, of_.plan.partitioning, of_.classes->train);
        result.cache = make_cache(options_, buckets_);
        return result;
    }
    [[nodiscard]] std::vector<gneiss::worker_buffers> buffers() {
        std::vector<gneiss::worker_buffers> result;
        gneiss::graph_buffer_options form = worker_graph(options_);
        form.trace = of_.run.recorder();
        for (std::uint32_t w = 0; w < options_.batch_workers; ++w)
            result.push_back({std::make_unique<gneiss::graph_buffer>(buckets_, of_.engine.make, options_.neighbors(),
                                  of_.plan.graph_bytes / options_.batch_workers, of_.budget, form),
                std::make_unique<gneiss::feature_buffer>(store_, of_.engine.make,
                    of_.plan.feature_bytes / options_.batch_workers, of_.budget, of_.run.recorder())});
        return result;
    }
    trainers::epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) override {
        training_.set_optimizers({.rows = options_.any_row_optimizer(from.epoch, plateau()),
            .dense = options_.dense_optimizer(from.epoch, plateau())});
        std::optional<gneiss::buffer_state> ahead;
        if (from.epoch + 1 < *options_.epochs && !of_.plan.in_memory &&
            (!options_.validates_after(from.epoch + 1) || evaluates_beside()))
            ahead = of_.plan.order(from.epoch + 1).front();
        const gneiss::training_epoch done = training_.run(of_.plan.order(from.epoch), from, observer, stop, ahead);
        return {done.position, done.stopped};
    }
    std::uint64_t memory_between_epochs() override {
        return trainers::enter_evaluation(of_.plan, training_, evaluates_beside());
    }

    const options& options_;
    gneiss::feature_store store_;
    gneiss::bucket_store buckets_ = of_.data.buckets();
    gneiss::gnn_options loop_;
    gneiss::gnn_shape shape_;
    gneiss::gnn_task task_;
    gneiss::node_task cutter_;
    gneiss::worker_batches source_;
    std::vector<gneiss::memory_charge> shared_; // of groups and the cache
    gneiss::remote_batches<gneiss::worker_batches> batches_;
    gneiss::armada_trainer training_;
};

/// A run of Armada: resolved flags and a memory plan.
class run final : public trainers::feature_run<options> {
public:
    static constexpr const char* program = armada::program;

    run(const options& given, trainers::run_context&& context)
        : feature_run(std::move(context), resolve(given, *context.data)),
          elsewhere_(given.elsewhere() ? &engine_of_clusters() : nullptr),
          threads_(given.threads) {
        if (elsewhere_ != nullptr) elsewhere_->check();
        options& o = config_.flags;
        context_.live.say(introduction());
        check();
        planner_.emplace(o, *data_, features_, net_);
        if (!o.resume) refuse_without_effect(given);
        std::tie(plan_, o.buffer) = planner_->choose();
        plan_.disk_bytes = 4 * net_.weights.size_bytes() + (std::uint64_t{1} << 20) +
            trainers::evaluation_files(o, net_, features_, buckets_, plan_.evaluation_bytes + plan_.borrowable_bytes());
        context_.live.say(fmt::format("{} batch workers hold {} of {} partitions each; {} replicas share a step",
            o.batch_workers, *o.buffer, plan_.partitioning.partitions - o.hubs, o.replicas));
        if (const std::uint32_t within = o.sampled_partitions(plan_.partitioning.partitions);
            o.construction() == gneiss::construction::remote && within < plan_.partitioning.partitions)
            context_.live.say(fmt::format("batches sample within the partitions that workers hold in a round: {} of {}",
                within, plan_.partitioning.partitions));
    }

    [[nodiscard]] const gneiss::training_plan& plan() const override { return plan_; }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        return trainers::node_classification_loop(config_.flags, *data_);
    }
    [[nodiscard]] programs::epoch_work work() const override {
        const std::uint32_t partitions = plan_.partitioning.partitions;
        return trainers::gnn_epoch_work(config_.flags, nullptr, *data_,
            static_cast<double>(config_.flags.sampled_partitions(partitions)) / partitions,
            config_.flags.learned_columns(), config_.flags.reads_features());
    }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        const options& o = config_.flags;
        net_.add_rows(o, data_->manifest().nodes);
        if (const float scale = o.neighbor_scale(o.sampled_partitions(plan_.partitioning.partitions),
                plan_.partitioning.partitions, gneiss::relative_cut(buckets_));
            scale != 1)
            gneiss::scale_neighbor_weights(net_.weights, scale);
        const training::parts of = parts(plan_, opened);
        if (elsewhere_ != nullptr) return make_driver(of, o, elsewhere_->start(request()));
        return std::make_unique<training>(of, o);
    }

private:
    /// Throws usage_error for flags that would have no effect.
    void refuse_without_effect(const options& given) const {
        const options usual;
        if (given.feature_cache == "none" && (given.cache != usual.cache || given.superbatch != usual.superbatch))
            throw programs::usage_error(fmt::format("--{} is for --feature-cache lru, static or belady",
                given.cache != usual.cache ? "cache" : "superbatch"));
        if (const std::uint32_t share = planner_->share(); given.buffer.value_or(0) > share)
            throw programs::usage_error(
                fmt::format("--buffer {}: a batch worker has {} partitions", *given.buffer, share));
    }
    [[nodiscard]] cluster_request request() {
        const options& o = config_.flags;
        return {.local = o.local.value_or(""),
            .address = o.address.value_or(""),
            .config = config_.command().to_toml(),
            .dataset = dataset_sum(*data_),
            .run = o.frame_run(*data_),
            .batch_workers = o.batch_workers,
            .replicas = o.replicas,
            .group_batches = o.batches_of_group(),
            .compute_workers = o.compute_workers,
            .threads = threads_,
            .graph_bytes = plan_.graph_bytes / o.batch_workers,
            .feature_bytes = plan_.feature_bytes / o.batch_workers,
            .gradient_bytes = net_.weights.values().size_bytes(),
            .owners = o.row_owners(buckets_.rows().partitions),
            .rows = buckets_.rows(),
            .row_floats = net_.rows.layout().floats(),
            .memory_bytes = o.memory->bytes,
            .superbatch = o.superbatch,
            .asks_owners = o.construction() == gneiss::construction::remote,
            .cache = make_cache(o, buckets_),
            .say = [this](const std::string& text) { context_.live.say(text); },
            .warn = [this](const std::string& text) { context_.live.warn(text); }};
    }

    const cluster_engine* elsewhere_; // null: all in this process
    std::uint64_t threads_;           // as given; 0: not
    std::optional<planner> planner_;
    gneiss::training_plan plan_;
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains a GNN for node classification.");
    trainers::add_gnn_commands<options>(to, program);
    add_model(to);
}

} // namespace armada
