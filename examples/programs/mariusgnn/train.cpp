// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include <gneiss/io/reorder.hpp>
#include <gneiss/io/reorder_rows.hpp>
#include <gneiss/order/tune.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

#include "device.hpp"
#include "graph.hpp"
#include "inference.hpp"
#include "kit/cli/machine.hpp"
#include "kit/gnn/class_weights.hpp"
#include "kit/gnn/device_network.hpp"
#include "kit/gnn/epoch_shape.hpp"
#include "kit/gnn/feature_diagnosis.hpp"
#include "kit/gnn/node_classification_predictions.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/report/best_state.hpp"
#include "kit/run/candidates.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/divergence.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/row_store.hpp"
#include "kit/run/train.hpp"
#include "kit/run/training_observer.hpp"
#include "kit/run/warm_start.hpp"
#include "network.hpp"
#include "program.hpp"
#include "trained_model.hpp"
#include "training_plan.hpp"

namespace mariusgnn {

namespace {

using gneiss::training_plan;
using trainers::clock;

/// Returns D of `gneiss::tune`: four times the bytes that the device reads in the time of one request, so that reads
/// reach four fifths of its rate. A power of two, so that noise rarely changes plans.
std::uint64_t least_full_read(const gneiss::dataset& data, const options& how) {
    constexpr std::uint64_t usual = gneiss::tuning_input{}.read_bytes;
    const auto device = trainers::device_profile(data, how);
    return device ? std::bit_ceil(std::clamp<std::uint64_t>(4 * device->coalesce_bytes, usual / 4, 16 * usual)) : usual;
}

/// Opens the run of --warm-start. Throws errc::config_mismatch for another model, errc::invalid_argument for other
/// features.
trainers::warm_start open_warm_start(
    const options& how, const programs::command& command, const gneiss::dataset& data) {
    trainers::warm_start warm(program, how);
    warm.refuse_other_model(command, {"task", "inputs", "layers", "dim", "decoder", "reciprocal"});
    if (how.uses_features()) trainers::refuse_other_features(warm.data().features(), data.features(), data.directory());
    return warm;
}

/// Assembles MariusGNN: graph, embeddings and features of the resident partitions, samples, an encoder, a head for the
/// task.
class training final : public trainers::trainer {
public:
    struct parts {
        const options& how;
        const programs::command& command;
        const gneiss::dataset& dataset; ///< the run's
        const training_plan& plan;
        const trainers::opened_run& run;
        const gneiss::engine_choice& engine;
        trainers::device_network_parts* device; ///< computes batches; null: the CPU does
        /// makes it once more, for a graph whose nodes are in another order
        std::function<void(const run_graph&)> renew_device;
        const trainers::run_negatives& negatives;
        trainers::run_reporter& live;
    };

    /// Starts a run, or resumes it. `data` is the graph that the run's checkpoint names.
    /// \param graph  its name in the run; empty: the run's dataset
    training(
        const parts& of, std::unique_ptr<run_graph> data, std::string graph, network& net, const std::stop_token& stop)
        : of_(of),
          plan_(of.plan),
          data_(std::move(data)),
          graph_name_(std::move(graph)),
          net_(net),
          stop_(stop),
          executor_(of.how.threads),
          budget_(of.plan.budget) {
        charges_ = plan_.memory.charge_reserved(budget_);
        const options& how = of.how;
        (void)gneiss::make_directory(of.run.directory.checkpoint());
        if (const float scale = how.neighbor_scale(plan_.slots, plan_.partitioning.partitions); scale != 1)
            gneiss::scale_neighbor_weights(net.weights, scale);
        if (of.run.saved) {
            net.take(*of.run.saved);
            generation_ = of.run.saved->generation;
        } else {
            net.initialize(how, executor_);
        }
        std::optional<trainers::warm_start> warm;
        if (!of.run.saved && how.warm_start) warm.emplace(open_warm_start(how, of.command, of.dataset));
        if (how.uses_rows()) make_rows(warm ? &*warm : nullptr);
        if (warm) {
            network shape(how, warm->data().manifest());
            warm->take_weights(net.weights, shape.weights, data_->data(), !how.links());
            if (how.links()) warm->take_relations(net.relations, data_->data(), *how.reciprocal);
        }
        assemble();
        if (warm) {
            warm_steps_ = warm->steps();
            warm->report(of.run.directory.checkpoint(), of.live);
        }
        if (of.run.saved) epoch_ = trainers::last_trained(of.run.saved->position);
        remove_other_graphs(of.run.directory.path(), graph_name_);
    }

    void warm_up() override {
        if (rows_ && rows_->keeps_all()) rows_->for_each_block([](std::uint64_t, gneiss::matrix_view<const float>) {});
    }

    trainers::epoch_end train(const gneiss::resume_position& from, const trainers::run_observer& observer,
        const std::stop_token& stop) override {
        evaluated_.clear();
        epoch_ = from.epoch;
        if (reshuffles_at(from) && !reshuffle(from, observer, stop)) return {from, true};
        training_->set_optimizers(
            {of_.how.any_row_optimizer(from.epoch, plateau()), of_.how.dense_optimizer(from.epoch, plateau())});
        try {
            std::optional<gneiss::buffer_state> ahead;
            if (plan_.loads_next_epoch && from.epoch + 1 < *of_.how.epochs &&
                (!of_.how.validates_after(from.epoch + 1) || evaluates_beside()))
                ahead = plan_.order(from.epoch + 1).front();
            const gneiss::training_epoch done =
                training_->run(plan_.order(from.epoch), from, trainers::training_observer_of(observer), stop, ahead);
            return {done.position, done.stopped};
        } catch (const gneiss::error& e) {
            if (e.code() == gneiss::errc::not_finite && data_->features() != nullptr)
                trainers::diagnose_features(data_->data(), *data_->features());
            throw;
        }
    }

    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) override {
        if (rows_) rows_->flush();
        gneiss::checkpoint c = header(at);
        c.generation = ++generation_;
        if (rows_file_) gneiss::put_rows(c, *rows_file_);
        trainers::put_progress(c, progress);
        gneiss::save_checkpoint(of_.run.directory.checkpoint() / trainers::checkpoint_name, c);
        if (rows_) rows_->committed();
    }

    /// Writes RUN/best: like a checkpoint, but embeddings without optimizer state.
    void keep_best(const programs::best_metrics& metrics) override {
        gneiss::checkpoint c = header({epoch_ + 1, {}});
        c.generation = ++best_generation_;
        programs::row_writer write_rows;
        if (rows_) write_rows = trainers::best_rows(*rows_);
        programs::keep_best(of_.run.directory.best() / trainers::checkpoint_name, std::move(c), metrics, write_rows);
    }

    [[nodiscard]] bool evaluates_all_splits() const override { return !of_.how.links(); }
    programs::metric_values evaluate_best(const std::string& split) override {
        dismantle();
        rows_file_.reset();
        return rank_edges(
            of_.run.directory.path(), of_.dataset.directory(), split, executor_, plan_.budget - budget_.used(), stop_);
    }
    programs::metric_values evaluate(const std::string& split) override {
        if (of_.how.links()) return evaluate_links(split, *of_.how.eval_edges);
        if (evaluated_.empty()) evaluate_nodes();
        return evaluated_.at(split);
    }
    programs::metric_values validate() override {
        return of_.how.links() ? evaluate_links("valid", *of_.how.valid_edges) : evaluate("valid");
    }

    [[nodiscard]] nlohmann::ordered_json per_class(const std::string& split) const override {
        const auto found = per_class_.find(split);
        return found == per_class_.end() ? nlohmann::ordered_json() : found->second;
    }

    [[nodiscard]] const gneiss::memory_budget& budget() const override { return budget_; }
    [[nodiscard]] std::uint64_t first_steps() const override { return warm_steps_; }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return activity().pipeline; }
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const override { return activity().row_staleness; }
    [[nodiscard]] bool has_finite_parameters() const override {
        return trainers::have_finite_squares(net_.weights.values()) &&
            trainers::have_finite_squares(net_.relations.values()) &&
            (!rows_ || trainers::have_finite_squares(*rows_)); // reads those on disk once
    }
    [[nodiscard]] double learning_rate(std::uint64_t epoch) const override {
        return of_.how.learning_rate(epoch, plateau());
    }
    [[nodiscard]] double device_seconds() const override {
        const std::scoped_lock lock(assembling_);
        return of_.device == nullptr ? 0 : device_before_ + of_.device->backend.device_seconds();
    }
    [[nodiscard]] gneiss::io_stats io() const override { return activity().io; }

private:
    /// Totals since the process began.
    struct totals {
        gneiss::pipeline_statistics pipeline;
        gneiss::staleness_histogram row_staleness;
        gneiss::io_stats io;
    };

    [[nodiscard]] totals activity() const {
        const std::scoped_lock lock(assembling_);
        totals sum = before_;
        add_parts(sum);
        if (rows_file_) sum.io += rows_file_->statistics();
        return sum;
    }
    void add_parts(totals& to) const {
        if (!training_) return;
        to.pipeline += training_->statistics();
        to.row_staleness += training_->row_staleness();
        to.io += graph_->statistics();
        if (features_) to.io += features_->statistics();
        if (reader_) to.io += reader_->statistics();
    }

    /// \param warm  null: none
    void make_rows(trainers::warm_start* warm) {
        const options& how = of_.how;
        const std::filesystem::path where = of_.run.directory.checkpoint();
        if (of_.run.saved) {
            rows_file_ = trainers::open_rows(of_.engine.make, where, plan_, *of_.run.saved);
        } else {
            rows_file_ = trainers::create_rows(of_.engine.make, where, plan_,
                {.values = how.node_initializer(),
                    .state = how.any_row_optimizer(0).initial_state(),
                    .seed = how.seed,
                    .file = how.init,
                    .data = data_->data(),
                    .warm = warm,
                    .warm_memory = trainers::warm_start_memory(budget_)},
                of_.live, executor_, stop_);
        }
    }

    /// Makes the buffers of embeddings and graph, and the training that uses them.
    void assemble() {
        const std::scoped_lock lock(assembling_);
        const options& how = of_.how;
        const gneiss::bucket_store& buckets = data_->buckets();
        if (rows_file_) {
            gneiss::partition_buffer_options buffer = plan_.buffer_options();
            buffer.trace = of_.run.recorder();
            rows_ = std::make_unique<gneiss::partition_buffer>(*rows_file_, buffer, budget_);
        }
        if (const auto* features = data_->gathered_features(how)) {
            feature_store_.emplace(features->files(), plan_.partitioning);
            features_ = std::make_unique<gneiss::feature_buffer>(
                *feature_store_, of_.engine.make, plan_.feature_bytes, budget_, of_.run.recorder());
        }
        gneiss::graph_buffer_options form = graph_form_of(how, plan_);
        form.trace = of_.run.recorder();
        graph_ = std::make_unique<gneiss::graph_buffer>(
            buckets, of_.engine.make, how.neighbors(), plan_.graph_bytes, budget_, form);
        if (how.links()) {
            block_charge_.emplace(budget_.charge(gneiss::bucket_reader::need(buckets)));
            reader_ = std::make_unique<gneiss::bucket_reader>(buckets, of_.engine.make);
            edges_ = std::make_unique<gneiss::edge_buffer>(reader_->source(),
                gneiss::edge_buffer_options{
                    .cache_all = plan_.keeps_all(), .bytes = plan_.edge_bytes, .trace = of_.run.recorder()},
                budget_);
        }
        gneiss::gnn_options loop = how.training_options();
        loop.batches_in_flight = plan_.batches;
        loop.row_memory = plan_.row_bytes;
        loop.own_negatives = of_.negatives.source;
        loop.sample_memory = plan_.sample_bytes;
        loop.encoder_memory = plan_.encoder_bytes;
        loop.pipeline.trace = of_.run.recorder();
        loop.resident_partitions = plan_.slots;
        if (of_.device != nullptr) loop.device_sampler = of_.device->sampler;
        gneiss::graph_inputs inputs{.rows = rows_.get(), .features = features_.get(), .graph = *graph_};
        if (how.places_features())
            inputs.device_features.emplace(static_cast<std::size_t>(data_->features()->columns()));
        training_.emplace(gneiss::make_mariusgnn(loop,
            gneiss::gnn_parts{.task = make_task(),
                .encode = net_.encode,
                .weights = net_.weights,
                .optimizer = how.dense_optimizer(0),
                .row_optimizer = how.any_row_optimizer(0),
                .inputs = inputs,
                .backend = of_.device == nullptr ? nullptr : &of_.device->backend,
                .frozen = {.nodes = how.freezes("nodes"),
                    .relations = how.freezes("relations"),
                    .weights = how.freezes("weights")}},
            executor_, budget_));
    }

    /// Destroys what `assemble` made. Embeddings must have been flushed.
    void dismantle() {
        const std::scoped_lock lock(assembling_);
        add_parts(before_);
        training_.reset();
        edges_.reset();
        reader_.reset();
        block_charge_.reset();
        graph_.reset();
        features_.reset();
        feature_store_.reset();
        rows_.reset();
        metrics_.clear();
    }

    [[nodiscard]] bool reshuffles_at(const gneiss::resume_position& at) const {
        return of_.how.reshuffles() != 0 && at.epoch != 0 && at.epoch % of_.how.reshuffles() == 0 &&
            at.next == gneiss::batch_number{} && graph_name_ != graph_name(at.epoch);
    }

    /// Moves all nodes to other partitions: a new graph, the embeddings in its order, and a checkpoint that names both.
    /// False: a stop came first, and nothing has changed.
    bool reshuffle(
        const gneiss::resume_position& at, const trainers::run_observer& observer, const std::stop_token& stop) {
        const auto began = clock::now();
        observer.checkpoint(at); // fallback for a failure from here on
        const std::string name = graph_name(at.epoch);
        const std::filesystem::path checkpoint = of_.run.directory.checkpoint(), to = checkpoint / name;
        dismantle();
        const std::uint64_t free = plan_.budget - budget_.used() + plan_.evaluation_bytes - plan_.freed_bytes();
        const std::uint64_t memory = free / 4 * 3;
        gneiss::row_shuffle new_row = data_->shuffle(of_.how.seed, at.epoch);
        gneiss::remove_tree(to); // leftovers of a process killed before a checkpoint named them
        bool done = true;
        try {
            gneiss::reorder(data_->data(), to,
                {.shuffle = new_row,
                    .partitions = plan_.partitioning.partitions,
                    .memory = memory,
                    .progress =
                        [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
                            of_.live.step(fmt::format("reshuffle  {}", phase), done, total);
                        },
                    .stop = stop},
                executor_);
        } catch (const gneiss::error& e) {
            if (e.code() != gneiss::errc::canceled) throw;
            done = false;
        }
        if (done) {
            if (rows_file_) {
                gneiss::reorder_rows(*rows_file_, new_row, checkpoint / "rows.dealt", memory);
                rows_file_->sync();
            }
            data_ = std::make_unique<run_graph>(of_.how, std::make_shared<const gneiss::dataset>(to));
            graph_name_ = name;
            if (of_.device != nullptr) {
                const std::scoped_lock lock(assembling_);
                device_before_ += of_.device->backend.device_seconds();
                of_.renew_device(*data_);
                device_before_ -= of_.device->backend.device_seconds(); // those of a backend that stayed
            }
            take_order(of_.how, plan_, *data_);
        }
        assemble();
        if (!done) return false;
        observer.checkpoint(at);
        remove_other_graphs(of_.run.directory.path(), name);
        of_.live.say(fmt::format("nodes are in other partitions ({:.1f} s)", trainers::seconds_since(began)));
        return true;
    }

    gneiss::gnn_task make_task() {
        if (!of_.how.links()) {
            const auto epochs = node_epochs(of_.how, plan_.partitioning, plan_.slots, *data_);
            const auto nodes = [this, epochs](std::uint32_t state, std::vector<gneiss::node_id>& out) {
                gneiss::append_training_nodes(epochs(epoch_), state, plan_.partitioning, data_->training_nodes(), out);
            };
            return data_->truth().task(nodes, of_.how.class_weights, data_->data(), data_->training_nodes());
        }
        return gneiss::predicted_links{*net_.links, net_.relations, *edges_};
    }

    [[nodiscard]] gneiss::checkpoint header(const gneiss::resume_position& at) const {
        gneiss::checkpoint c = trainers::begin_checkpoint(of_.command, of_.dataset, at);
        net_.put(c);
        name_graph(c, graph_name_);
        return c;
    }

    [[nodiscard]] inference_source source() {
        return {of_.how, net_, data_->buckets(), data_->features(), rows_.get(), of_.engine.make,
            of_.run.directory.checkpoint() / programs::scratch_directory_name, executor_, memory_between_epochs(),
            stop_};
    }
    [[nodiscard]] bool evaluates_resident() const { return of_.how.eval_graph == "resident"; }
    /// True if evaluations keep the resident partitions in memory.
    [[nodiscard]] bool evaluates_beside() const {
        const options& how = of_.how;
        return plan_.keeps_all() ||
            (!evaluates_resident() &&
                trainers::evaluates_in_memory(net_.encode,
                    input_shape(how, net_.encode.inputs(), data_->features(), plan_.partitioning), data_->buckets(),
                    trainers::inference_options(how), plan_.evaluation_bytes));
    }
    /// Returns the memory of an evaluation: its part and, for the whole graph if that is too little, the memory that
    /// buffers free.
    [[nodiscard]] std::uint64_t memory_between_epochs() {
        return trainers::enter_evaluation(plan_, *training_, evaluates_resident() || evaluates_beside());
    }
    [[nodiscard]] resident_source resident() {
        return {*graph_, features_.get(), evaluation_states(of_.how, plan_, epoch_)};
    }

    programs::metric_values evaluate_links(const std::string& split, const programs::count_or_all& edges) {
        const inference_source from = source();
        inferred_rows rows = evaluates_resident() ? infer_resident(from, resident()) : infer_full(from);
        const trainers::link_evaluation ranking{of_.how, of_.how.seed, data_->data(), data_->buckets(), net_.scorer(),
            executor_, from.memory - rows.bytes(), stop_, {}, edges};
        return ranking(split, {*rows.rows, stop_});
    }

    void evaluate_nodes() {
        if (metrics_.empty())
            for (const auto& [name, part] :
                {std::pair("valid", gneiss::node_split::valid), std::pair("test", gneiss::node_split::test)})
                metrics_.try_emplace(name, data_->data().nodes_of(part), data_->truth());
        for (auto& [name, metrics] : metrics_) metrics.clear();
        const auto add = [&](gneiss::node_id node, std::span<const float> scores) {
            for (auto& [name, metrics] : metrics_) metrics.add(node, scores);
        };
        const inference_source from = source();
        if (evaluates_resident()) {
            std::vector<gneiss::node_id> some;
            const auto wanted = [&](gneiss::partition_id p) {
                some.clear();
                for (const auto& [name, metrics] : metrics_)
                    some.insert(some.end(), std::ranges::lower_bound(metrics.nodes(), plan_.partitioning.begin(p)),
                        std::ranges::lower_bound(metrics.nodes(), plan_.partitioning.begin(p + 1)));
                std::ranges::sort(some);
                return std::span<const gneiss::node_id>(some);
            };
            infer_resident(from, resident(), wanted,
                [&](std::span<const gneiss::node_id> ids, gneiss::matrix_view<const float> rows) {
                    for (std::size_t i = 0; i < ids.size(); ++i) add(ids[i], rows[i]);
                });
        } else {
            infer_full(from).rows->for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
                for (std::size_t i = 0; i < rows.rows(); ++i) add(static_cast<gneiss::node_id>(first + i), rows[i]);
            });
        }
        for (auto& [name, metrics] : metrics_) {
            evaluated_[name] = metrics.values();
            per_class_[name] = metrics.per_class(name, data_->data());
        }
    }

    parts of_;
    training_plan plan_; // for data_
    std::unique_ptr<run_graph> data_;
    std::string graph_name_; // name of data_ in checkpoints
    network& net_;
    std::stop_token stop_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    std::vector<gneiss::memory_charge> charges_;
    std::uint64_t generation_ = 0, best_generation_ = 0, warm_steps_ = 0;
    std::uint64_t epoch_ = 0;

    mutable std::mutex assembling_; // another thread reads totals
    double device_before_ = 0;      ///< seconds of the device's backends before this one
    totals before_;                 // totals of dismantled parts
    std::unique_ptr<gneiss::embedding_file> rows_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
    std::optional<gneiss::feature_store> feature_store_;
    std::unique_ptr<gneiss::feature_buffer> features_;
    std::unique_ptr<gneiss::graph_buffer> graph_;
    std::optional<gneiss::memory_charge> block_charge_;
    std::unique_ptr<gneiss::bucket_reader> reader_;
    std::unique_ptr<gneiss::edge_buffer> edges_;
    std::optional<gneiss::mariusgnn_trainer> training_;

    std::map<std::string, node_metrics> metrics_;              // validation and test nodes
    std::map<std::string, programs::metric_values> evaluated_; // since the last epoch was trained
    std::map<std::string, nlohmann::ordered_json> per_class_;  // of the last evaluation
};

/// A run of MariusGNN: resolved flags and a memory plan, then the graph in the plan's partitions.
class run final : public trainers::configured_run<options> {
public:
    static constexpr const char* program = mariusgnn::program;

    run(const options& given, trainers::run_context&& context)
        : configured_run(std::move(context), resolve(given, *context.data)),
          net_(asked_, context_.data->manifest()),
          trained_(std::make_unique<run_graph>(asked_, context_.data)) {
        if (asked_.links())
            negatives_ =
                trainers::negatives_for(asked_, asked_.seed, *context_.data, asked_.memory->bytes, context_.stop);
        if (trained_->features() != nullptr)
            trainers::choose_feature_place(asked_, context_.device.get(), *trained_->features(), context_.live);
        config_.flags.feature_place = asked_.feature_place;
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        tuned_plan tuned = choose();
        plan_ = std::move(tuned.plan);
        config_.flags = trainers::chosen(config_.flags, plan_);
        const options& o = config_.flags;
        context_.live.say(fmt::format("{}: {} nodes, {} edges, {}; {} of {}, fan-out {} ({}), {}", graph.name,
            graph.nodes, graph.train_edges,
            o.links()
                ? fmt::format("{} relations", graph.relations)
                : fmt::format("{}, {} nodes to train", trainers::classes_text(graph), graph.node_attributes.train),
            *o.layers, *o.inputs, *o.fanout, *o.direction, o.links() ? *o.decoder : *o.node_task));
        if (o.links() && o.warm_start && !given.lr) context_.live.say(trainers::warm_rate_text("--lr", *o.lr));
        if (o.links() && o.warm_start && !given.row_lr)
            context_.live.say(trainers::warm_rate_text("--row-lr", *o.row_lr));
        if (trained_->features() != nullptr)
            if (const std::string doubt = trainers::doubt_features(trained_->data(), *trained_->features());
                !doubt.empty())
                context_.live.warn(doubt);
        if (const std::string doubt = trainers::doubt_buffer(plan_, trained_->buckets()); !doubt.empty())
            context_.live.warn(doubt);
        for (const std::string& reason : tuned.reasons) context_.live.say(reason);
        if (o.training_first.value_or(false))
            context_.live.say(fmt::format("training nodes come first: they are in {} of {} partitions",
                trained_->leading(o, plan_.partitioning), plan_.partitioning.partitions));
        make_device(*trained_);
        trainers::check_class_weights(o.class_weights, *context_.data);
        if (o.uses_rows()) (void)trainers::load_initial_embeddings(o.init, graph.nodes, *o.dim);
        if (o.warm_start && !o.resume) (void)open_warm_start(o, config_.command(), *context_.data);
        if (o.links() && !o.no_eval)
            trainers::check_candidates(o, o.seed, *context_.data, plan_.evaluation_bytes, context_.stop);
    }

    [[nodiscard]] const training_plan& plan() const override { return plan_; }
    [[nodiscard]] const gneiss::bucket_store& buckets() const override { return trained_->buckets(); }
    [[nodiscard]] trainers::run_loop_options loop() const override {
        const gneiss::dataset_manifest& graph = context_.data->manifest();
        const options& o = config_.flags;
        return o.links() ? trainers::link_prediction_loop(o, o, graph)
                         : trainers::node_classification_loop(o, *context_.data);
    }
    [[nodiscard]] programs::epoch_work work() const override {
        const options& o = config_.flags;
        return trainers::gnn_epoch_work(o, o.links() ? &o : nullptr, *context_.data,
            plan_.keeps_all() ? 1 : static_cast<double>(plan_.slots) / plan_.partitioning.partitions,
            o.uses_rows() ? *o.dim : 0, o.uses_features());
    }
    void open(const trainers::opened_run& opened) override {
        std::shared_ptr<const gneiss::dataset> reshuffled, sorted;
        if (opened.saved) {
            graph_ = graph_named(*opened.saved);
            reshuffled = open_graph(opened.directory.path(), *opened.saved);
        } else if (asked_.training_first.value_or(false)) {
            graph_ = graph_name(0);
            reshuffled = place_training_first(opened.directory.checkpoint() / graph_);
        }
        if (!reshuffled)
            sorted = trainers::rebucketed(*context_.data, opened, plan_, asked_, context_.live, context_.stop);
        if (!reshuffled && !sorted) return;
        trained_ = std::make_unique<run_graph>(asked_, reshuffled ? reshuffled : context_.data, sorted);
        plan_ = plan_again(asked_, {*trained_, net_, {}, negatives_.memory, drawing()}, plan_);
        config_.flags = trainers::chosen(config_.flags, plan_);
        renew_device(*trained_);
    }
    [[nodiscard]] std::unique_ptr<trainers::trainer> begin(const trainers::opened_run& opened) override {
        return std::make_unique<training>(
            training::parts{config_.flags, config_.command(), *context_.data, plan_, opened, context_.engine,
                device_ ? &*device_ : nullptr, [this](const run_graph& graph) { renew_device(graph); }, negatives_,
                context_.live},
            std::move(trained_), graph_, net_, context_.stop);
    }

private:
    void make_device(const run_graph& graph) {
        device_ = backend_on(context_.device.get(), config_.flags, plan_, graph, net_, context_.engine.make);
    }
    /// Makes the backend on the device once more, for a graph whose nodes are in another order, if it has something of
    /// the graph: features of all nodes, or room for the edges of a state.
    void renew_device(const run_graph& graph) {
        if (!device_ || (!config_.flags.places_features() && config_.flags.sample_on == "cpu")) return;
        device_.reset(); // first: both do not fit
        make_device(graph);
    }
    [[nodiscard]] tuned_plan plan_now() {
        return plan_training(asked_,
            {*trained_, net_, [&] { return least_full_read(*context_.data, asked_); }, negatives_.memory, drawing()});
    }
    /// Returns the plan, and sets what flags leave open and depends on it: --reshuffle and --training-first.
    [[nodiscard]] tuned_plan choose() {
        tuned_plan found = plan_now();
        if (!asked_.links()) return choose_placement(std::move(found));
        if (!asked_.reshuffle) asked_.reshuffle = config_.flags.reshuffle = found.plan.choice.moves ? 1 : 0;
        return found;
    }
    /// Returns the plan, and whether training nodes are placed first: if flags leave both that and the order open,
    /// placement is used if it saves more reads over all epochs than the copy costs, which is read and written a few
    /// times.
    [[nodiscard]] tuned_plan choose_placement(tuned_plan found) {
        const bool open = !asked_.training_first && !asked_.order && !asked_.init;
        if (!open || found.plan.keeps_all()) return found;
        const std::uint32_t scattered = trained_->leading(asked_, found.plan.partitioning);
        asked_.training_first = true;
        if (trained_->leading(asked_, found.plan.partitioning) < scattered) {
            tuned_plan placed = plan_now();
            const auto reads = [&](const training_plan& plan) { return *asked_.epochs * plan.traffic().read_bytes; };
            if (!placed.plan.keeps_all() &&
                reads(placed.plan) + 4 * copy_bytes(context_.data->manifest()) < reads(found.plan)) {
                config_.flags.training_first = true;
                return placed;
            }
        }
        asked_.training_first.reset();
        return found;
    }
    /// Copies the dataset to `to`, with training nodes first, in the plan's partitions.
    [[nodiscard]] std::shared_ptr<const gneiss::dataset> place_training_first(const std::filesystem::path& to) {
        const auto began = trainers::clock::now();
        gneiss::remove_tree(to); // leftovers of a process killed before a checkpoint named them
        (void)gneiss::make_directory(to.parent_path());
        constexpr std::uint64_t least = std::uint64_t{16} << 20;
        const std::uint64_t taken = asked_.program_need().bytes;
        gneiss::reorder(*context_.data, to,
            {.training_first = true,
                .seed = asked_.seed,
                .partitions = plan_.partitioning.partitions,
                .memory = std::max(plan_.budget - std::min(plan_.budget, taken), least),
                .progress =
                    [&](std::string_view phase, std::uint64_t done, std::uint64_t total) {
                        context_.live.step(fmt::format("training nodes first  {}", phase), done, total);
                    },
                .stop = context_.stop},
            gneiss::tbb_executor(asked_.threads));
        context_.live.say(
            fmt::format("training nodes are in the first partitions ({:.1f} s)", trainers::seconds_since(began)));
        return std::make_shared<const gneiss::dataset>(to);
    }

    options asked_ = config_.flags; ///< input of plans
    trainers::run_negatives negatives_;
    network net_;
    std::unique_ptr<run_graph> trained_; ///< until `begin`
    training_plan plan_;
    std::string graph_; ///< name of the graph in the run; empty: the dataset
    std::optional<trainers::device_network_parts> device_;
};

} // namespace

trainers::run_result train(const options& flags, trainers::run_events events, const std::stop_token& stop) {
    return trainers::run_trainer<run>(flags, std::move(events), stop);
}

void add_commands(programs::command_line& to) {
    trainers::add_train<run>(to, "Trains a GNN for link prediction or node classification.");
    add_run_commands(to);
}

} // namespace mariusgnn
