#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <gneiss/pipeline/graph_training.hpp>
#include <gneiss/storage/bucket_reader.hpp>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/machine.hpp"
#include "common/signals.hpp"
#include "inference.hpp"
#include "network.hpp"
#include "training_plan.hpp"
#include "trainers/common/checkpoint.hpp"
#include "trainers/common/course.hpp"
#include "trainers/common/engine.hpp"
#include "trainers/common/link_evaluation.hpp"
#include "trainers/common/open_run.hpp"
#include "trainers/common/row_store.hpp"

namespace mariusgnn {

namespace {

using trainers::clock;
using trainers::training_plan;

/// What a node task knows of nodes.
struct classes_of_nodes {
    gneiss::mapped_array<std::int32_t> stored;
    std::vector<gneiss::node_id> train;

    explicit classes_of_nodes(const gneiss::dataset& data)
        : stored(data.labels()), train(data.nodes_of(gneiss::node_split::train)) {}
    [[nodiscard]] std::span<const gneiss::class_id> labels() const { return gneiss::classes_of(stored.values()); }
};

/// Throws an error that names the first row of features with a number that is none.
void find_fault(const gneiss::dataset& data, const gneiss::node_features& features) {
    std::vector<float> row(static_cast<std::size_t>(features.columns()));
    for (std::uint64_t v = 0; v < features.rows(); ++v) {
        std::span<const float> values = row;
        gneiss::sparse_feature_rows sparse;
        if (features.sparse()) {
            sparse = features.read_sparse(v, 1);
            values = sparse.values;
        } else {
            features.read_dense(v, row);
        }
        if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
            throw gneiss::error(gneiss::errc::not_finite,
                "the features of node " + data.node_label(v) + " (row " + std::to_string(v) + ") are not all finite numbers",
                {.path = data.directory()});
    }
}

/// Assembles MariusGNN: graph, rows and features of the resident partitions, samples, an encoder, a head for the task.
class mariusgnn_design final : public trainers::design {
public:
    struct parts {
        options& how;
        programs::command& command;
        const gneiss::dataset& data;
        const gneiss::bucket_store& buckets; ///< of the plan's partitions
        const gneiss::node_features* features;
        const classes_of_nodes* classes; ///< of a node task
        const training_plan& plan;
        const trainers::opened_run& run;
        const gneiss::engine_choice& engine;
    };

    /// Starts a run, or goes on with it.
    mariusgnn_design(const parts& of, network& net, programs::progress& live, const std::stop_token& stop)
        : of_(of), net_(net), stop_(stop), on_(of.how.threads), budget_(of.plan.budget) {
        for (const char* name : {"program", "bucket blocks", "decoder", "classes of nodes", "weights", "evaluation"})
            for (const gneiss::memory_part& part : of.plan.parts) // the others charge for themselves
                if (part.name == name) charges_.push_back(budget_.charge(part.name, part.bytes));
        const options& how = of.how;
        std::filesystem::create_directories(of.run.directory.checkpoint());
        if (of.run.saved) {
            net.take(*of.run.saved);
            generation_ = of.run.saved->generation;
        } else {
            net.initialise(how, on_);
        }
        if (how.uses_rows()) make_rows(live);
        if (of.features != nullptr) {
            feature_store_.emplace(of.features->files(), of.plan.partitioning);
            features_ = std::make_unique<gneiss::feature_buffer>(*feature_store_, of.engine.make, of.plan.feature_bytes, budget_);
        }
        graph_ = std::make_unique<gneiss::graph_buffer>(of.buckets, of.engine.make, how.neighbours(), of.plan.graph_bytes, budget_);
        training_ = std::make_unique<gneiss::graph_training>(how.training_options(), make_task(), net.encode, net.weights,
            how.dense_optimizer(0), how.any_row_optimizer(0),
            gneiss::graph_inputs{.rows = rows_.get(), .features = features_.get(), .graph = *graph_}, on_, budget_);
        if (of.run.saved) training_->set_steps(trainers::progress_of(*of.run.saved).at("steps").get<std::uint64_t>());
    }

    /// Loads rows that stay, before the first epoch is timed.
    void warm_up() {
        if (rows_ && rows_->keeps_all()) rows_->for_each_block([](std::uint64_t, gneiss::matrix_view<const float>) {});
    }

    trainers::epoch_end train(const gneiss::resume_position& from, const trainers::course_observer& observer, const std::stop_token& stop) override {
        evaluated_.clear();
        epoch_ = from.epoch;
        training_->set_optimizers(of_.how.any_row_optimizer(from.epoch), of_.how.dense_optimizer(from.epoch));
        gneiss::graph_observer told;
        told.on_batch = [&](const gneiss::batch_key& key, const gneiss::graph_statistics& s) {
            observer.on_batch(key, {.loss = s.loss, .examples = s.examples, .sampled_edges = s.sampled_edges});
        };
        told.checkpoint_due = observer.checkpoint_due;
        told.checkpoint = observer.checkpoint;
        try {
            const gneiss::graph_epoch done = training_->run(of_.plan.order(from.epoch), from.epoch, from.next, told, stop);
            return {done.position, done.stopped};
        } catch (const gneiss::error& e) {
            if (e.code() == gneiss::errc::not_finite && of_.features != nullptr) find_fault(of_.data, *of_.features);
            throw;
        }
    }

    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) override {
        if (rows_) rows_->flush();
        gneiss::checkpoint c = header(at);
        c.generation = ++generation_;
        if (rows_file_) trainers::put_rows(c, *rows_file_);
        trainers::put_progress(c, progress);
        gneiss::save_checkpoint(of_.run.directory.checkpoint() / trainers::checkpoint_name, c);
        if (rows_) rows_->committed();
    }

    /// RUN/best: as a checkpoint, with the values of rows alone.
    void keep_best() override {
        const std::filesystem::path to = of_.run.directory.best();
        std::filesystem::create_directories(to);
        gneiss::checkpoint c = header({epoch_ + 1, {}, {}});
        c.generation = ++best_generation_;
        const std::filesystem::path rows = to / trainers::rows_name, beside = to / "rows.new";
        if (rows_) {
            const gneiss::row_layout values{of_.plan.layout.dim, 0};
            {
                gneiss::any_engine engine = of_.engine.make();
                gneiss::row_file::create(engine, beside, of_.plan.partitioning, values, 0);
            }
            gneiss::row_file copy(of_.engine.make, beside, of_.plan.partitioning, values, 0);
            copy_rows(copy);
            trainers::put_rows(c, copy);
        }
        // Rows and what names them are two files: between the renames, a crash leaves a best state that says it is damaged.
        if (rows_) std::filesystem::rename(beside, rows);
        gneiss::save_checkpoint(to / trainers::checkpoint_name, c);
    }

    programs::metric_values evaluate(const std::string& split) override {
        if (of_.how.links()) return evaluate_links(split);
        if (evaluated_.empty()) evaluate_nodes();
        return evaluated_.at(split);
    }

    [[nodiscard]] std::uint64_t steps() const override { return training_->steps(); }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const override { return training_->row_staleness(); }
    [[nodiscard]] gneiss::io_stats io() const override {
        gneiss::io_stats sum = graph_->statistics();
        if (rows_file_) sum = sum + rows_file_->statistics();
        if (features_) sum = sum + features_->statistics();
        if (reader_) sum = sum + reader_->statistics();
        return sum;
    }

private:
    void make_rows(programs::progress& live) {
        const options& how = of_.how;
        const std::filesystem::path where = of_.run.directory.checkpoint();
        if (of_.run.saved) {
            rows_file_ = trainers::open_rows(of_.engine.make, where, of_.plan, *of_.run.saved);
        } else {
            const auto given = trainers::first_values(how.init, of_.plan.partitioning.nodes, of_.plan.layout.dim);
            rows_file_ = trainers::create_rows(of_.engine.make, where, of_.plan,
                {.values = how.node_initializer(), .state = how.any_row_optimizer(0).initial_state(), .seed = how.seed,
                    .given = given ? &*given : nullptr}, live, on_, stop_);
        }
        rows_ = std::make_unique<gneiss::partition_buffer>(*rows_file_,
            gneiss::partition_buffer_options{.slots = of_.plan.in_memory ? of_.plan.partitioning.partitions : of_.plan.slots, .prefetch = of_.plan.prefetch},
            budget_);
    }

    gneiss::graph_task make_task() {
        if (!of_.how.links()) {
            const auto epochs = node_epochs(of_.how, of_.plan.partitioning, of_.plan.slots, of_.classes->train);
            const auto nodes = [this, epochs](std::uint32_t state, std::vector<gneiss::node_id>& out) {
                const std::vector<gneiss::node_id>& train = of_.classes->train;
                const gneiss::node_plan now = epochs(epoch_);
                for (const gneiss::partition_id p : now.trained[state]) {
                    const auto first = std::ranges::lower_bound(train, of_.plan.partitioning.begin(p));
                    out.insert(out.end(), first, std::ranges::lower_bound(train, of_.plan.partitioning.begin(p + 1)));
                }
            };
            return gneiss::node_task{of_.classes->labels(), nodes};
        }
        reader_ = std::make_unique<gneiss::bucket_reader>(of_.buckets, of_.engine.make);
        edges_ = std::make_unique<gneiss::edge_buffer>(reader_->source(), of_.plan.partitioning.partitions, of_.plan.keeps_all(),
            of_.plan.edge_bytes, budget_);
        return gneiss::link_task{*net_.links, net_.relations, *edges_};
    }

    [[nodiscard]] gneiss::checkpoint header(const gneiss::resume_position& at) const {
        gneiss::checkpoint c{.generation = 0,
            .configuration_hash = trainers::configuration_hash(of_.command),
            .dataset_hash = trainers::dataset_hash(of_.data),
            .layout = {}, .partitioning = {.nodes = 0, .partitions = 0}, .disk_slots = {}, .slots = {}, .row_checksums = {},
            .position = at,
            .sections = {}};
        net_.put(c);
        return c;
    }

    void copy_rows(gneiss::row_file& to) const {
        auto slot = gneiss::aligned_buffer<float>::zeroed(static_cast<std::size_t>(to.slot_bytes() / sizeof(float)));
        gneiss::partition_id p = 0;
        rows_->for_each_block([&](std::uint64_t, gneiss::matrix_view<const float> rows) {
            for (std::size_t i = 0; i < rows.rows(); ++i) std::ranges::copy(rows[i], slot.data() + i * rows.columns());
            const auto place = to.begin_write(p, 0);
            to.write(p, *place, slot.bytes());
            ++p;
        });
        to.sync();
    }

    [[nodiscard]] inference_source source() {
        return {of_.how, net_, of_.buckets, of_.features, rows_.get(), of_.engine.make, of_.run.directory.checkpoint() / "scratch",
            on_, of_.plan.evaluation_bytes, stop_};
    }
    [[nodiscard]] resident_source resident() { return {*graph_, features_.get(), of_.plan.order(epoch_)}; }

    programs::metric_values evaluate_links(const std::string& split) {
        const inference_source from = source();
        inferred_rows rows = of_.how.eval_graph == "resident" ? infer_resident(from, resident()) : infer_full(from);
        const trainers::link_evaluation ranking{of_.how, of_.how.seed, of_.data, of_.buckets, net_.relations, on_,
            of_.plan.evaluation_bytes - rows.bytes(), stop_};
        return ranking(split, {*rows.rows, stop_});
    }

    void evaluate_nodes() {
        if (metrics_.empty())
            for (const auto& [name, part] : {std::pair("valid", gneiss::node_split::valid), std::pair("test", gneiss::node_split::test)})
                metrics_.emplace(name, node_metrics(of_.data.nodes_of(part), net_.encode.outputs(), of_.classes->labels()));
        for (auto& [name, metrics] : metrics_) metrics.clear();
        const auto add = [&](gneiss::node_id node, std::span<const float> scores) {
            for (auto& [name, metrics] : metrics_) metrics.add(node, scores);
        };
        const inference_source from = source();
        if (of_.how.eval_graph == "resident") {
            std::vector<gneiss::node_id> some;
            const auto wanted = [&](gneiss::partition_id p) {
                some.clear();
                for (const auto& [name, metrics] : metrics_)
                    some.insert(some.end(), std::ranges::lower_bound(metrics.nodes(), of_.plan.partitioning.begin(p)),
                        std::ranges::lower_bound(metrics.nodes(), of_.plan.partitioning.begin(p + 1)));
                std::ranges::sort(some);
                return std::span<const gneiss::node_id>(some);
            };
            infer_resident(from, resident(), wanted, [&](std::span<const gneiss::node_id> ids, gneiss::matrix_view<const float> rows) {
                for (std::size_t i = 0; i < ids.size(); ++i) add(ids[i], rows[i]);
            });
        } else {
            infer_full(from).rows->for_each_block([&](std::uint64_t first, gneiss::matrix_view<const float> rows) {
                for (std::size_t i = 0; i < rows.rows(); ++i) add(static_cast<gneiss::node_id>(first + i), rows[i]);
            });
        }
        for (auto& [name, metrics] : metrics_) evaluated_[name] = metrics.values();
    }

    parts of_;
    network& net_;
    std::stop_token stop_;
    gneiss::tbb_executor on_;
    gneiss::memory_budget budget_;
    std::vector<gneiss::memory_charge> charges_;
    std::uint64_t generation_ = 0, best_generation_ = 0;
    std::uint64_t epoch_ = 0;

    std::unique_ptr<gneiss::row_file> rows_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
    std::optional<gneiss::feature_store> feature_store_;
    std::unique_ptr<gneiss::feature_buffer> features_;
    std::unique_ptr<gneiss::graph_buffer> graph_;
    std::unique_ptr<gneiss::bucket_reader> reader_;
    std::unique_ptr<gneiss::edge_buffer> edges_;
    std::unique_ptr<gneiss::graph_training> training_;

    std::map<std::string, node_metrics> metrics_; // of valid and test nodes
    std::map<std::string, programs::metric_values> evaluated_; // since the last epoch was trained
};

programs::exit_code train(options& how, programs::command& command) {
    const auto began = clock::now();
    trainers::require_device(how);
    programs::check_dataset(how.dataset);
    const gneiss::dataset data(how.dataset);
    const gneiss::dataset_manifest& graph = data.manifest();
    how.resolve(data, command);
    network net(how, graph);
    std::optional<gneiss::node_features> features;
    if (how.uses_features()) {
        features = data.features();
        if (*how.normalize_features) features->normalize_rows();
    }
    std::optional<classes_of_nodes> classes;
    if (!how.links()) classes.emplace(data);
    const gneiss::bucket_store stored = data.buckets();
    planning of{data, stored, features ? &*features : nullptr, net, classes ? std::span<const gneiss::node_id>(classes->train) : std::span<const gneiss::node_id>{}};
    tuned_plan tuned = plan_training(how, of);
    training_plan& plan = tuned.plan;
    programs::progress live(how.quiet);
    const gneiss::engine_choice engine = trainers::choose_engine(how);
    live.say(fmt::format("{} {} on {} CPUs ({}), I/O by {} ({})", program, programs::version(), how.threads,
        programs::cpu_name(), engine.name, engine.reason));
    live.say(fmt::format("{}: {} nodes, {} edges, {}; {} of {}, fan-out {} ({}), {}", graph.name, graph.nodes, graph.train_edges,
        how.links() ? fmt::format("{} relations", graph.relations) : fmt::format("{} classes, {} nodes to train", graph.node_data.classes, graph.node_data.train),
        *how.layers, *how.inputs, *how.fanout, *how.direction, how.links() ? *how.decoder : "softmax"));
    for (const std::string& reason : tuned.reasons) live.say(reason);
    if (how.dry_run) {
        trainers::tell_dry_run(program, how, command, plan, stored);
        return programs::exit_code::done;
    }
    if (how.uses_rows()) (void)trainers::first_values(how.init, graph.nodes, *how.dim); // what cannot be is told before a run is touched
    const auto run = trainers::open_run(program, how, command, data, plan);
    if (!run) return programs::exit_code::done;
    const programs::interrupt_guard interrupts;
    const std::unique_ptr<gneiss::dataset> rebucketed = trainers::rebucketed(data, *run, plan, how, live, interrupts.token());
    std::optional<gneiss::bucket_store> sorted;
    if (rebucketed) { // now the plan can be exact
        sorted.emplace(rebucketed->buckets());
        plan = plan_training(how, {data, *sorted, of.features, net, of.training_nodes}).plan;
    }
    const gneiss::bucket_store& buckets = sorted ? *sorted : stored;
    const programs::plan_record planned = plan.record(buckets);
    if (!how.quiet) live.say(trainers::describe(plan, planned));

    mariusgnn_design training({how, command, data, buckets, of.features, classes ? &*classes : nullptr, plan, *run, engine}, net,
        live, interrupts.token());
    const bool validates = how.links() ? graph.valid_edges != 0 : graph.node_data.valid != 0;
    trainers::course course(how,
        {.unit = how.links() ? "edges" : "nodes", .measure = how.links() ? "MRR" : "accuracy",
            .examples = how.links() ? graph.train_edges : graph.node_data.train, .validates = validates,
            .best = how.early_stop != 0 && validates},
        plan, run->directory, live, command.configuration());
    if (!run->saved) course.save(training, {});
    training.warm_up();
    const programs::run_record record = course(training, trainers::begin_record(program, engine, data, command, planned),
        trainers::course_position::of(run->saved), interrupts.token(), began);
    return trainers::tell_result(record, how, run->directory, live);
}

} // namespace

void add_train(programs::command_line& to) {
    static options how;
    programs::command& command = to.add("train", "Trains a graph network for edges, or for classes of nodes.",
        [](programs::command& self) { return train(how, self); });
    how.add_to(command);
}

} // namespace mariusgnn
