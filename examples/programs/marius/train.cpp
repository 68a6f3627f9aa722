// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/train/batch_room.hpp>

#include "kit/cli/machine.hpp"
#include "kit/report/best_state.hpp"
#include "kit/run/candidates.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/row_store.hpp"
#include "kit/run/train.hpp"
#include "kit/run/training_observer.hpp"
#include "kit/run/warm_start.hpp"
#include "options.hpp"
#include "program.hpp"

namespace marius {

namespace {

using gneiss::training_plan;

/// Returns the relation table, with room for the optimizer state.
gneiss::embedding_table make_relations(const gneiss::any_link_model& model, const gneiss::any_row_optimizer& optimizer,
    const gneiss::dataset_manifest& graph) {
    return {model.relation_rows(std::max<std::uint64_t>(graph.relations, 1)),
        {static_cast<std::uint32_t>(model.relation_floats()),
            static_cast<std::uint32_t>(optimizer.state_floats(model.relation_floats()))}};
}

/// Returns the backend that trains a plan's embeddings and these relations on a device.
gneiss::any_backend backend_on(
    trainers::compute_device& device, const options& o, const training_plan& plan, gneiss::embedding_table& relations) {
    trainers::limit_pinned(device, plan);
    gneiss::decoder_setup links = trainers::decoder_of(o, *o.batch, *o.dim, relations);
    links.recorded = o.record;
    return device.embed(links, trainers::device_embeddings_of(o, plan.partitioning.nodes, plan.layout));
}

/// Returns training options with the plan's state sizes.
gneiss::marius_options sized(gneiss::marius_options loop, const training_plan& plan) {
    loop.batches_in_flight = plan.batches;
    loop.row_memory = plan.row_bytes;
    loop.state_nodes = plan.state_nodes();
    loop.state_edges = plan.state_edges;
    return loop;
}

/// Returns the bytes that an epoch reads while it computes: on a disk of 200 MB/s, at 20 GFLOP/s a thread. Others wait
/// less. Scores of each edge with its negatives, and their gradients by both sides, take most of the time.
std::uint64_t read_while_computing(const options& o, const gneiss::dataset_manifest& graph) {
    const double scores =
                     2. * static_cast<double>(graph.train_edges) * static_cast<double>(o.negatives->of(graph.nodes)),
                 threads = static_cast<double>(o.threads == 0 ? programs::usable_cpus() : o.threads);
    return static_cast<std::uint64_t>(6 * scores * *o.dim / (threads * 20e9) * 200e6);
}

/// Adds the batches in flight to a plan; on a device, as many as fit with their pinned memory.
void add_batches(training_plan& plan, const options& o, const gneiss::batch_needs& needs, std::uint64_t evaluation) {
    std::size_t most = o.training_options().in_flight();
    if (o.device == "cpu") return plan.add_batches(most, o.deterministic, needs, evaluation);
    const std::uint64_t of_batch =
        gneiss::pinned_bytes(needs.bound.sample + (o.store == "device" ? 0 : needs.bound.rows), o.record);
    const training_plan without = plan;
    for (;; --most) {
        const std::uint64_t pinned = most * of_batch;
        // Rows land in pinned memory, for which the plan has those of one batch at least.
        plan.memory.reserve({trainers::pinned_batches, pinned - std::min(pinned, needs.largest.rows)});
        plan.add_batches(most, o.deterministic, needs, evaluation);
        if (plan.fits() || o.deterministic || most <= 2) return;
        plan = without;
    }
}

/// Returns a maker of plans by choice, with the memory of --candidates, for batches as seen, or by
/// upper bounds. For partitions other than those of `buckets`, edges are estimated.
gneiss::plan_maker planner(const options& o, const gneiss::dataset_manifest& graph, const gneiss::bucket_store& buckets,
    const gneiss::memory_need& candidates, const gneiss::seen_batches& seen) {
    const auto shared = std::make_shared<const gneiss::any_link_model>(o.model());
    const auto sizes = std::make_shared<const gneiss::state_sizes>(buckets);
    const std::size_t state_floats = o.row_optimizer(0).state_floats(*o.dim);
    const std::uint64_t relation_rows = shared->relation_rows(std::max<std::uint64_t>(graph.relations, 1));
    const std::uint64_t relations = relation_rows * (shared->relation_floats() + state_floats) * sizeof(float);
    const std::uint64_t edges_read = buckets.bytes(gneiss::edge_direction::out);
    const auto states = [=, &o, &buckets](const gneiss::plan_choice& choice) {
        training_plan plan(choice, buckets.rows());
        plan.edges_read = edges_read;
        plan.layout = {static_cast<std::uint32_t>(shared->dim()), static_cast<std::uint32_t>(state_floats)};
        plan.frozen = o.freezes("nodes");
        plan.order = trainers::make_order(choice, o.seed);
        return plan;
    };
    const auto with = [=, &o, &graph, &buckets, taken = o.program_need()](
                          const gneiss::plan_choice& choice, std::uint64_t memory) {
        const gneiss::any_link_model& model = *shared;
        training_plan plan = states(choice);
        plan.budget = memory;
        plan.edge_bytes = trainers::edge_memory(o, plan, graph, buckets);
        const gneiss::memory_need tables = trainers::table_need(plan, buckets, true);
        plan.memory.reserve(taken);
        plan.memory.add(plan.buffer_need());
        plan.memory.add(gneiss::edge_buffer::need({.bytes = plan.edge_bytes}));
        plan.memory.reserve(tables);
        plan.memory.reserve(gneiss::bucket_reader::need(buckets));
        const trainers::state_edges edges = trainers::edges_of_states(o, plan, graph, buckets, *sizes);
        plan.state_edges = edges.most;
        if (o.device == "cpu")
            plan.memory.reserve(
                trainers::decoder_need(o, std::min(*o.batch, edges.most), o.threads, model, plan.state_nodes()));
        plan.memory.reserve({"relations", 2 * relations + 4096});
        plan.memory.reserve(candidates);
        gneiss::marius_options largest = sized(o.training_options(), plan), usual = largest;
        usual.state_edges = edges.median;
        const auto bound = [&](const gneiss::marius_options& of) {
            return of.bound_batch(plan.layout, graph.nodes, relation_rows * model.relation_floats());
        };
        gneiss::batch_needs needs{.bound = bound(largest), .largest = bound(largest), .usual = bound(usual)};
        if (seen) {
            needs.largest.rows = std::min(needs.bound.rows, seen->nodes_with_margin() * largest.row_bytes(plan.layout));
            needs.usual.rows = std::min(needs.usual.rows, needs.largest.rows);
        }
        const std::uint64_t evaluation = o.no_eval
            ? 0
            : std::max(plan.least_ranking_bytes, o.keeps_best(graph.valid_edges != 0) ? plan.best_bytes() : 0);
        add_batches(plan, o, needs, evaluation);
        plan.add_evaluation(evaluation, .5, std::uint64_t{1} << 30);
        return plan;
    };
    return {.states = states, .with = with, .hidden_bytes = read_while_computing(o, graph)};
}

/// Opens the run of --warm-start. Throws errc::config_mismatch for another model.
trainers::warm_start open_warm_start(const trainers::configuration<options>& of) {
    trainers::warm_start warm(program, of.flags);
    warm.refuse_other_model(of.command(), {"decoder", "dim", "reciprocal"});
    return warm;
}

/// Draws batches of a plan's first state; if its buckets are still to be made, of a state with the same share of the
/// stored ones. None if a device or --deterministic needs bounds, or without edges in that state.
gneiss::seen_batches profile_of(const options& o, const training_plan& plan, const gneiss::bucket_store& buckets,
    const gneiss::engine_factory& engines, const std::stop_token& stop) {
    if (o.device != "cpu" || o.deterministic) return std::nullopt;
    gneiss::plan_choice choice = gneiss::stored_choice(plan, buckets.rows().partitions);
    if (trainers::is_order_file(choice.order) && choice.partitions != plan.choice.partitions) return std::nullopt;
    // Some millions of edges are enough to draw from, within a quarter of the budget.
    const double enough = std::min<double>(1 << 24, static_cast<double>(o.memory->bytes) / 4 / sizeof(gneiss::edge));
    const auto edges_of = [&](std::uint32_t slots) {
        return static_cast<double>(buckets.edges()) * slots * slots / choice.partitions / choice.partitions;
    };
    for (; choice.slots > 2 && edges_of(choice.slots) > enough; --choice.slots) choice.order = "beta";
    const gneiss::epoch_plan states = trainers::make_order(choice, o.seed)(0);
    if (states.empty()) return std::nullopt;
    const gneiss::epoch_plan first{states.front()};
    gneiss::bucket_reader reader(buckets, engines);
    gneiss::memory_budget budget;
    const gneiss::edge_loader sizes{.size = [&](gneiss::edge_bucket b) { return buckets.extent(b).edges; }, .load = {}};
    gneiss::edge_buffer edges(
        reader.source(), gneiss::edge_buffer_options{.bytes = gneiss::edge_buffer::need(first, sizes).bytes}, budget);
    const auto seen = gneiss::profile_marius(o.training_options(), edges, buckets.rows(), first,
        gneiss::profiled_batches, gneiss::tbb_executor(o.threads), stop);
    return seen.batches == 0 ? std::nullopt : std::optional(seen);
}

/// Assembles Marius: embeddings in a partition buffer, edges by bucket, negatives, a decoder, Adagrad, the pipeline.
class training final : public trainers::trainer {
public:
    /// Starts a run, or resumes it. All arguments outlive the trainer.
    training(const trainers::configuration<options>& config, const training_plan& plan,
        const gneiss::bucket_store& buckets, const trainers::run_negatives& negatives,
        const trainers::run_context& context, const trainers::opened_run& run)
        : options_(config.flags),
          command_(config.command()),
          data_(*context.data),
          plan_(plan),
          checkpoint_(run.directory.checkpoint()),
          best_(run.directory.best()),
          engines_(context.engine.make),
          stop_(context.stop),
          buckets_(buckets),
          executor_(options_.threads),
          budget_(plan.budget),
          charges_(plan.memory.charge_reserved(budget_)),
          model_(options_.model()),
          relations_(make_relations(model_, options_.row_optimizer(0), data_.manifest())) {
        std::optional<trainers::warm_start> warm;
        if (!run.saved && options_.warm_start) warm.emplace(open_warm_start(config));
        if (run.saved)
            load(*run.saved);
        else
            initialize(context.live, warm ? &*warm : nullptr);
        gneiss::partition_buffer_options buffer = plan_.buffer_options();
        buffer.trace = run.recorder();
        rows_ = std::make_unique<gneiss::partition_buffer>(*rows_file_, buffer, budget_);
        reader_ = std::make_unique<gneiss::bucket_reader>(buckets_, engines_);
        edges_ = std::make_unique<gneiss::edge_buffer>(reader_->source(),
            gneiss::edge_buffer_options{
                .cache_all = rows_->keeps_all(), .bytes = plan_.edge_bytes, .trace = run.recorder()},
            budget_);
        if (context.device) backend_ = backend_on(*context.device, options_, plan_, relations_);
        gneiss::marius_options loop = sized(options_.training_options(), plan_);
        loop.own_negatives = negatives.source;
        loop.pipeline.trace = run.recorder();
        training_.emplace(gneiss::make_marius(loop,
            gneiss::marius_parts{.model = model_,
                .optimizer = options_.row_optimizer(0),
                .rows = *rows_,
                .edges = *edges_,
                .relations = relations_,
                .backend = backend_ ? &*backend_ : nullptr,
                .frozen = {.nodes = options_.freezes("nodes"),
                    .relations = options_.freezes("relations"),
                    .weights = false}},
            executor_, budget_));
        if (warm) {
            warm_steps_ = warm->steps();
            warm->report(checkpoint_, context.live);
        }
        if (!run.saved) return;
        epoch_ = trainers::last_trained(run.saved->position);
    }

    void warm_up() override {
        if (rows_->keeps_all()) rows_->for_each_block([](std::uint64_t, gneiss::matrix_view<const float>) {});
    }

    trainers::epoch_end train(const gneiss::resume_position& from, const trainers::run_observer& observer,
        const std::stop_token& stop) override {
        epoch_ = from.epoch;
        training_->set_optimizers({.rows = options_.row_optimizer(from.epoch, plateau())});
        const gneiss::training_epoch done =
            training_->run(plan_.order(from.epoch), from, trainers::training_observer_of(observer), stop);
        return {done.position, done.stopped};
    }

    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) override {
        rows_->flush();
        gneiss::checkpoint c = trainers::begin_checkpoint(command_, data_, at);
        c.generation = ++generation_;
        gneiss::put_rows(c, *rows_file_);
        c.sections["relations"] = trainers::to_bytes(relations_.data());
        trainers::put_progress(c, progress);
        gneiss::save_checkpoint(checkpoint_ / trainers::checkpoint_name, c);
        rows_->committed();
    }

    programs::metric_values evaluate(const std::string& split) override { return ranked(split, *options_.eval_edges); }
    programs::metric_values validate() override { return ranked("valid", *options_.valid_edges); }
    /// Writes RUN/best: like a checkpoint, but embeddings without optimizer state.
    void keep_best(const programs::best_metrics& metrics) override {
        gneiss::checkpoint c = trainers::begin_checkpoint(command_, data_, {epoch_ + 1, {}});
        c.generation = ++best_generation_;
        c.sections["relations"] = trainers::to_bytes(relations_.data());
        programs::keep_best(best_ / trainers::checkpoint_name, std::move(c), metrics, trainers::best_rows(*rows_));
    }

    programs::metric_values evaluate_best(const std::string& split) override {
        if (training_) {
            training_.reset();
            rows_.reset();
            const gneiss::checkpoint saved = gneiss::load_checkpoint(best_ / trainers::checkpoint_name, plan_.budget);
            trainers::from_bytes(saved.sections.at("relations"), relations_.data(), "relations");
            rows_file_ = trainers::open_rows(engines_, best_, plan_.partitioning, saved);
            rows_ = std::make_unique<gneiss::partition_buffer>(
                *rows_file_, gneiss::partition_buffer_options{.resident_partitions = 1, .prefetch = 1}, budget_);
        }
        return evaluate(split);
    }

    [[nodiscard]] const gneiss::memory_budget& budget() const override { return budget_; }
    [[nodiscard]] std::uint64_t first_steps() const override { return warm_steps_; }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const override { return training_->row_staleness(); }
    [[nodiscard]] bool has_finite_parameters() const override {
        return trainers::have_finite_squares(relations_.values()) &&
            trainers::have_finite_squares(*rows_); // reads those on disk once
    }
    [[nodiscard]] double learning_rate(std::uint64_t epoch) const override {
        return options_.learning_rate(epoch, plateau());
    }
    [[nodiscard]] double device_seconds() const override { return backend_ ? backend_->device_seconds() : 0; }
    [[nodiscard]] gneiss::io_stats io() const override { return rows_file_->statistics() + reader_->statistics(); }

private:
    [[nodiscard]] programs::metric_values ranked(const std::string& split, const programs::count_or_all& edges) {
        if (training_) training_->enter(gneiss::phase::between_epochs);
        programs::trim_memory();
        const trainers::link_evaluation ranking{options_, options_.seed, data_, buckets_,
            model_.scorer(relations_.values()), executor_, plan_.evaluation_bytes, stop_, {}, edges};
        return ranking(split, {*rows_, stop_});
    }
    /// \param warm  null: none
    void initialize(trainers::run_reporter& live, trainers::warm_start* warm) {
        const float state = options_.row_optimizer(0).initial_state();
        rows_file_ = trainers::create_rows(engines_, checkpoint_, plan_,
            {.values = options_.node_initializer(),
                .state = state,
                .seed = options_.seed,
                .file = options_.init,
                .data = data_,
                .warm = warm,
                .warm_memory = trainers::warm_start_memory(budget_)},
            live, executor_, stop_);
        gneiss::initialize_rows(options_.relation_initializer(), state, options_.seed,
            gneiss::embedding_kind::relations, 0, model_.relation_floats(), relations_.table(), executor_);
        if (warm != nullptr) warm->take_relations(relations_, data_, *options_.reciprocal);
    }
    void load(const gneiss::checkpoint& saved) {
        rows_file_ = trainers::open_rows(engines_, checkpoint_, plan_, saved);
        trainers::from_bytes(saved.sections.at("relations"), relations_.data(), "relations");
        generation_ = saved.generation;
    }

    const options& options_;
    const programs::command& command_;
    const gneiss::dataset& data_;
    const training_plan& plan_;
    std::filesystem::path checkpoint_, best_;
    gneiss::engine_factory engines_;
    std::stop_token stop_;
    const gneiss::bucket_store& buckets_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    std::vector<gneiss::memory_charge> charges_;
    gneiss::any_link_model model_;
    gneiss::embedding_table relations_;
    std::uint64_t generation_ = 0, best_generation_ = 0, warm_steps_ = 0;
    std::uint64_t epoch_ = 0; ///< trained last

    std::unique_ptr<gneiss::embedding_file> rows_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
    std::unique_ptr<gneiss::bucket_reader> reader_;
    std::unique_ptr<gneiss::edge_buffer> edges_;
    std::optional<gneiss::any_backend> backend_;
    std::optional<gneiss::marius_trainer> training_;
};

/// A run of Marius: resolved flags and a memory plan, then edges in the plan's partitions.
class run final : public trainers::configured_run<options> {
public:
    static constexpr const char* program = marius::program;

    run(const options& given, trainers::run_context&& context)
        : configured_run(std::move(context), resolve(given, *context.data)),
          buckets_(context_.data->buckets()),
          negatives_(
              trainers::negatives_for(asked_, asked_.seed, *context_.data, asked_.memory->bytes, context_.stop)) {
        options& o = config_.flags;
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        plan_ = trainers::choose_by_profile(
            [&](const gneiss::seen_batches& seen) {
                return trainers::choose_plan(o, graph, buckets_, {"comet-beta", "beta-randomized"},
                    planner(asked_, graph, buckets_, negatives_.memory, seen));
            },
            [&](const training_plan& plan, const gneiss::seen_batches& seen) {
                return gneiss::same_plan(plan, planner(asked_, graph, buckets_, negatives_.memory, seen));
            },
            [&](const training_plan& plan) {
                return profile_of(asked_, plan, buckets_, context_.engine.make, context_.stop);
            });
        o = trainers::chosen(o, plan_);
        if (keeps_best()) // the former best state and a new one, while it is written
            plan_.disk_bytes += 2 * plan_.partitioning.partitions * plan_.best_bytes();
        if (context_.device) { // refuses what exceeds the device's memory
            gneiss::embedding_table relations = make_relations(o.model(), o.row_optimizer(0), graph);
            (void)backend_on(*context_.device, o, plan_, relations);
        }
        context_.live.say(fmt::format("{}: {} nodes, {} edges, {} relations; {} d={}", graph.name, graph.nodes,
            graph.train_edges, graph.relations, *o.decoder, *o.dim));
        if (o.warm_start && !given.lr) context_.live.say(trainers::warm_rate_text("--lr", *o.lr));
        if (const std::string doubt = trainers::doubt_buffer(plan_, buckets_); !doubt.empty())
            context_.live.warn(doubt);
        (void)trainers::load_initial_embeddings(o.init, graph.nodes, *o.dim);
        if (o.warm_start && !o.resume) (void)open_warm_start(config_);
        if (!o.no_eval) trainers::check_candidates(o, o.seed, *context_.data, plan_.evaluation_bytes, context_.stop);
    }

    [[nodiscard]] const training_plan& plan() const override { return plan_; }
    [[nodiscard]] const gneiss::bucket_store& buckets() const override { return buckets_; }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        return {.unit = "edges",
            .measure = "MRR",
            .examples = graph.train_edges,
            .validates = graph.valid_edges != 0,
            .best = keeps_best(),
            .queries = 2 * config_.flags.valid_edges->of(graph.valid_edges),
            .validated = config_.flags.validated(graph),
            .scopes = config_.flags.scopes(graph),
            .remedy = fmt::format("try a lower --lr than {:g}", *config_.flags.lr),
            .plateau = config_.flags.plateau()};
    }
    [[nodiscard]] programs::epoch_work work() const override {
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        const options& o = config_.flags;
        return programs::work_of(programs::link_epoch_shape{.edges = graph.train_edges,
            .batch = *o.batch,
            .negatives = o.negatives->all ? graph.nodes : o.negatives->count,
            .dim = *o.dim});
    }
    void open(const trainers::opened_run& opened) override {
        rebucketed_ = trainers::rebucketed(*context_.data, opened, plan_, config_.flags, context_.live, context_.stop);
        if (!rebucketed_) return;
        buckets_ = rebucketed_->buckets();
        const auto seen = profile_of(asked_, plan_, buckets_, context_.engine.make, context_.stop);
        plan_ = trainers::choose_again(
            asked_, plan_, planner(asked_, context_.data->manifest(), buckets_, negatives_.memory, seen));
        config_.flags = trainers::chosen(config_.flags, plan_);
    }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        return std::make_unique<training>(config_, plan_, buckets_, negatives_, context_, opened);
    }

private:
    [[nodiscard]] bool keeps_best() const { return asked_.keeps_best(context_.data->manifest().valid_edges != 0); }

    options asked_ = config_.flags;               ///< input of plans
    std::unique_ptr<gneiss::dataset> rebucketed_; ///< edges in the plan's partitions, if the dataset has others
    gneiss::bucket_store buckets_;
    trainers::run_negatives negatives_;
    training_plan plan_;
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains embeddings of a dataset's nodes and relations.");
    add_run_commands(to);
}

} // namespace marius
