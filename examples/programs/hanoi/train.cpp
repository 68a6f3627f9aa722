#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <gneiss/cache/miss_ratio_sampler.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/train/gnn_trainer.hpp>
#include <gneiss/train/macro_batch_reuse.hpp>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/machine.hpp"
#include "common/node_file.hpp"
#include "common/run_directory.hpp"
#include "common/signals.hpp"
#include "io_cost.hpp"
#include "preprocessing.hpp"
#include "training_plan.hpp"
#include "common/training/node_classification_commands.hpp"
#include "common/training/node_classification_training.hpp"
#include "common/training/run_loop.hpp"
#include "common/training/device.hpp"
#include "common/training/engine.hpp"
#include "common/training/open_run.hpp"

namespace hanoi {

namespace {

using trainers::clock;

/// The passes that a file names: {"passes": [[1, 2, …], …]}, epoch by epoch. Throws errc::invalid_format.
gneiss::pass_record read_passes(const std::filesystem::path& file) {
    const auto wrong = [&] { return gneiss::error(gneiss::errc::invalid_format, "is no record of passes, as reuse.json of a run is", {.path = file}); };
    try {
        const auto read = nlohmann::ordered_json::parse(programs::read_file(file)).at("passes");
        for (const auto& epoch : read)
            for (const auto& passes : epoch) // the type that they are read as would take -1 for four billions
                if (!passes.is_number_unsigned() || passes.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) throw wrong();
        return read.get<gneiss::pass_record>();
    } catch (const nlohmann::ordered_json::exception&) {
        throw wrong();
    }
}

/// Of a node, on average where features are sparse.
double row_bytes(const gneiss::node_features& features) { return static_cast<double>(features.bytes()) / static_cast<double>(features.rows()); }

/// Assembles Hanoi: graph and features of a macro-batch, the next one on its way, samples within it, an encoder.
class hanoi_trainer final : public trainers::node_classification_training {
public:
    /// Starts a run, or goes on with it.
    hanoi_trainer(const parts& of, const options& settings, const std::optional<tier_rates>& rates)
        : node_classification_training(of), options_(settings), rates_(rates), asked_(of.features.rows()),
          store_(of.features.files(), of.plan.partitioning) {
        gneiss::pass_record done;
        if (of.run.saved) done = saved_progress().at("passes").get<gneiss::pass_record>();
        std::optional<gneiss::pass_record> replay;
        if (settings.reuse_plan) replay = read_passes(*settings.reuse_plan);
        reuse_.emplace(settings.reuse, std::move(done), std::move(replay));
        features_ = std::make_unique<gneiss::feature_buffer>(store_, of.engine.make, of.plan.feature_bytes, of.budget);
        graph_ = std::make_unique<gneiss::graph_buffer>(buckets_, of.engine.make, settings.neighbors(), of.plan.graph_bytes, of.budget, macro_graph);
        gneiss::gnn_trainer_options training = settings.training_options();
        training.batches_in_flight = of.plan.batches;
        training.resident_partitions = of.plan.slots;
        if (rates) training.on_rows = [this](std::span<const gneiss::node_id> rows) { asked_.add(rows); };
        const gneiss::classified_nodes task{of.classes.labels(), [this](std::uint32_t state, std::vector<gneiss::node_id>& out) {
            gneiss::append_training_nodes(now_, state, of_.plan.partitioning, of_.classes.train, out);
        }};
        training_ = std::make_unique<gneiss::gnn_trainer>(training,
            gneiss::gnn_parts{.task = task, .encode = of.net.encode, .weights = of.net.weights, .optimizer = settings.dense_optimizer(0),
                .inputs = {.features = features_.get(), .graph = *graph_}, .backend = of.backend},
            executor_, of.budget);
        if (of.run.saved) training_->set_steps(saved_progress().at("steps").get<std::uint64_t>());
    }

    /// What I/O cost by the model and as measured, once training has ended and if something was trained in this process.
    [[nodiscard]] const std::optional<io_cost>& cost() const { return cost_; }
    void tell(programs::run_record& record) override {
        if (!rates_ || seen_.batches == 0) return;
        seen_.read_bytes = io().read_bytes;
        seen_.wait_seconds = pipeline().wait_seconds[static_cast<std::size_t>(gneiss::stage::compute)];
        const double row = row_bytes(of_.features);
        const std::uint64_t memory = of_.plan.feature_bytes;
        cost_ = cost_of(seen_, *rates_, row, memory, asked_.miss_ratio(static_cast<std::uint64_t>(static_cast<double>(memory) / row)));
        record.io_cost = cost_->record();
    }

    [[nodiscard]] std::uint64_t steps() const override { return training_->steps(); }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::io_stats io() const override {
        gneiss::io_stats sum = graph_->statistics();
        sum += features_->statistics();
        return sum;
    }
    [[nodiscard]] std::vector<std::uint32_t> passes(std::uint64_t epoch) const override {
        const gneiss::pass_record& record = reuse_->record();
        std::vector<std::uint32_t> result = epoch < record.size() ? record[static_cast<std::size_t>(epoch)] : std::vector<std::uint32_t>{};
        result.resize(now_.states.size(), 0); // the last ones may have nothing to train
        return result;
    }

private:
    trainers::epoch_end train_epoch(const gneiss::resume_position& from, gneiss::training_observer told, const std::stop_token& stop) override {
        now_ = epoch_of(options_, of_.data, from.epoch);
        training_->set_optimizers(gneiss::sgd{}, options_.dense_optimizer(from.epoch));
        told.again = [&](std::uint32_t state, std::uint32_t passes, bool next_is_ready) { return reuse_->again(from.epoch, state, passes, next_is_ready); };
        const gneiss::epoch_plan states = with_next(options_, of_.data, from.epoch);
        std::optional<gneiss::buffer_state> ahead;
        if (states.size() > now_.states.size() && !of_.plan.in_memory && (!options_.validates_after(from.epoch + 1) || evaluates_beside()))
            ahead = states.back();
        const auto began = clock::now();
        const gneiss::training_epoch done = training_->run(now_.states, from.epoch, from.next, told, stop, ahead);
        seen_.seconds += trainers::seconds_since(began);
        seen_.batches += done.batches;
        seen_.input_rows += done.model.input_nodes;
        seen_.sampled_edges += done.model.sampled_edges;
        seen_.macro_batches += (done.stopped ? done.position.next.state + 1 : now_.states.size()) - from.next.state;
        write_passes();
        return {done.position, done.stopped};
    }
    std::uint64_t memory_between_epochs() override {
        return evaluates_beside() ? of_.plan.evaluation_bytes : trainers::enter_evaluation(of_.plan, *training_);
    }
    void add_progress(nlohmann::ordered_json& to) const override { to["passes"] = reuse_->record(); }

    /// RUN/reuse.json: what --reuse-plan of another run takes.
    void write_passes() const {
        const std::string text = nlohmann::ordered_json{{"passes", reuse_->record()}}.dump() + "\n";
        gneiss::atomic_write_file(of_.run.directory.path() / "reuse.json", std::as_bytes(std::span(text)));
    }

    const options& options_;
    std::optional<tier_rates> rates_;
    gneiss::miss_ratio_sampler asked_; // by batches, of rows
    gneiss::feature_store store_;
    gneiss::bucket_store buckets_ = of_.data.buckets();
    gneiss::node_plan now_; // of the epoch
    std::optional<gneiss::macro_batch_reuse> reuse_;
    io_counts seen_; // in this process
    std::optional<io_cost> cost_;

    std::unique_ptr<gneiss::feature_buffer> features_;
    std::unique_ptr<gneiss::graph_buffer> graph_;
    std::unique_ptr<gneiss::gnn_trainer> training_;
};

/// What can be told of files before a run is touched.
void check_files(const options& settings, const gneiss::dataset& data, std::uint64_t memory) {
    if (settings.assignment) (void)sizes_in_assignment(*settings.assignment, data);
    if (const auto file = settings.choice_of_hubs().file) (void)programs::rows_in(*file, data, memory / 8);
    if (settings.reuse_plan) (void)read_passes(*settings.reuse_plan);
}

programs::exit_code train(options& how, programs::command& command) {
    const auto began = clock::now();
    const std::unique_ptr<trainers::compute_device> device = trainers::open_device(how);
    programs::check_dataset(how.dataset);
    const auto dataset = std::make_shared<const gneiss::dataset>(how.dataset);
    const gneiss::dataset_manifest& graph = dataset->manifest();
    how.resolve(*dataset);
    check_files(how, *dataset, trainers::budget_of(how));
    trainers::classifier net(how, *dataset);
    gneiss::node_features given = dataset->features();
    if (*how.normalize_features) given.normalize_rows();
    programs::progress live(how.quiet);
    const gneiss::engine_choice engine = trainers::choose_engine(how);
    live.say(trainers::describe_machine(program, how, engine, device.get()));
    live.say(fmt::format("{}: {} nodes, {} edges, {} classes, {} nodes to train; {} of {} features, fan-out {} ({})", graph.name, graph.nodes,
        graph.train_edges, graph.node_attributes.classes, graph.node_attributes.train, *how.layers, graph.node_attributes.features, *how.fanout, *how.direction));
    auto backend = trainers::classifier_on(device.get(), how, net); // what a device cannot hold is told before a run is touched
    if (const std::string chosen = choose_partitions(how, *dataset, given, net); !chosen.empty()) live.say(chosen);
    check_hubs(how, *dataset, trainers::budget_of(how));
    trainers::training_plan plan;
    if (!how.repartitions()) {
        plan = plan_training(how, *dataset, given, net);
    } else { // what fits is known to the byte when they are made
        if (how.dry_run) {
            plan = plan_by_sizes(how, *dataset, given, net);
            live.say("the partitions are not made yet: this is about the plan for those with as many nodes as one may have, as if no edge lay between two");
        }
        plan.budget = trainers::budget_of(how);
        plan.disk_bytes = 12 * graph.train_edges + 8 * graph.nodes;
        for (const gneiss::dataset_array& a : graph.arrays) plan.disk_bytes += 2 * a.bytes;
    }
    if (how.dry_run) {
        trainers::report_dry_run(program, how, command, plan, dataset->buckets());
        return programs::exit_code::done;
    }
    const auto run = trainers::open_run(program, how, command, *dataset, plan);
    if (!run) return programs::exit_code::done;
    const programs::interrupt_guard interrupts;
    std::shared_ptr<const gneiss::dataset> data = dataset;
    nlohmann::ordered_json before_training;
    if (how.repartitions()) {
        preprocessed ready = preprocess({how, *dataset, *run, plan.budget, gneiss::tbb_executor(how.threads), live, interrupts.token()});
        data = std::move(ready.data);
        before_training = std::move(ready.record);
        programs::trim_memory();
        given = data->features();
        if (*how.normalize_features) given.normalize_rows();
        const std::uint64_t disk = plan.disk_bytes;
        plan = plan_training(how, *data, given, net);
        plan.disk_bytes = disk;
        run->directory.write_config(command.to_toml()); // with the macro-batch that was chosen
    }
    const programs::plan_record planned = plan.record(data->buckets());
    if (!how.quiet) {
        live.say(trainers::describe(plan, planned));
        live.say(fmt::format("macro-batches of {} partitions{}, {} an epoch", *how.macro,
            how.pinned(*data) == 0 ? "" : fmt::format(" and {} hubs", data->rows().begin(how.pinned(*data))), *planned.states));
    }
    const trainers::node_classification classes(*data);
    gneiss::memory_budget budget(plan.budget);
    hanoi_trainer training({how, command, *dataset, *data, given, classes, plan, *run, engine, net, budget, backend ? &*backend : nullptr, interrupts.token()}, how,
        measure_tiers(*data, how, row_bytes(given), plan.budget));
    trainers::run_loop_options settings = trainers::node_classification_loop(how, graph);
    settings.state = "macro-batch";
    trainers::run_loop run_loop(how, settings, plan, run->directory, live, command.configuration());
    programs::run_record known = trainers::begin_record(program, engine, device.get(), *dataset, command, planned);
    known.preprocessing = std::move(before_training);
    const programs::exit_code code = trainers::run_training(training, run_loop, *run, known, how, live, interrupts.token(), began);
    if (training.cost()) live.say(training.cost()->text());
    return code;
}

} // namespace

void add_train(programs::command_line& to) {
    static options settings;
    programs::command& command = to.add("train", "Trains a GNN for node classification.",
        [](programs::command& self) { return train(settings, self); });
    settings.add_to(command);
}

} // namespace hanoi
