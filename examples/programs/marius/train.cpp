#include <memory>
#include <optional>

#include <fmt/format.h>

#include <gneiss/model/schedule.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/machine.hpp"
#include "common/signals.hpp"
#include "training_plan.hpp"
#include "common/training/checkpoint.hpp"
#include "common/training/run_loop.hpp"
#include "common/training/device.hpp"
#include "common/training/engine.hpp"
#include "common/training/link_evaluation.hpp"
#include "common/training/open_run.hpp"
#include "common/training/row_store.hpp"
#include "common/training/training_observer.hpp"

namespace marius {

namespace {

using trainers::clock;
using trainers::training_plan;

/// The table of relations, with room for the optimizer's state.
gneiss::embedding_table make_relations(const gneiss::any_link_model& model, const gneiss::any_row_optimizer& optimizer, const gneiss::dataset_manifest& graph) {
    return {model.relation_rows(std::max<std::uint64_t>(graph.relations, 1)),
        {static_cast<std::uint32_t>(model.relation_floats()), static_cast<std::uint32_t>(optimizer.state_floats(model.relation_floats()))}};
}

/// What trains a plan's rows and these relations on a device.
gneiss::any_backend backend_on(trainers::compute_device& device, const options& settings, const training_plan& plan, gneiss::embedding_table& relations) {
    return device.embed(trainers::decoder_of(settings, *settings.batch, *settings.dim, relations), trainers::device_embeddings_of(settings, plan.partitioning.nodes, plan.layout));
}

/// Assembles Marius: rows in a partition buffer, edges by bucket, negatives, a decoder, Adagrad, the pipeline.
class marius_trainer final : public trainers::trainer {
public:
    /// Starts a run, or goes on with it as `saved` tells.
    marius_trainer(options& settings, programs::command& command, const gneiss::dataset& data, const training_plan& plan,
        const trainers::opened_run& run, std::unique_ptr<gneiss::dataset> rebucketed, const gneiss::engine_choice& engine,
        trainers::compute_device* device, programs::progress& live, const std::stop_token& stop)
        : options_(settings), command_(command), data_(data), plan_(plan), checkpoint_(run.directory.checkpoint()), stop_(stop),
          rebucketed_(std::move(rebucketed)), buckets_((rebucketed_ ? *rebucketed_ : data).buckets()), executor_(settings.threads),
          budget_(plan_.budget), model_(gneiss::make_link_model(*settings.decoder, settings.loss, *settings.dim, settings.model_options(), static_cast<float>(settings.margin))),
          relations_(make_relations(model_, optimizer_of(0), data.manifest())) {
        charges_ = plan_.memory.charge_run(budget_);
        if (run.saved)
            load(*run.saved, engine);
        else
            initialize(engine, live);
        rows_ = std::make_unique<gneiss::partition_buffer>(*rows_file_,
            gneiss::partition_buffer_options{.resident_partitions = plan_.in_memory ? plan_.partitioning.partitions : plan_.slots, .prefetch = plan_.prefetch},
            budget_);
        reader_ = std::make_unique<gneiss::bucket_reader>(buckets_, engine.make);
        edges_ = std::make_unique<gneiss::edge_buffer>(
            reader_->source(), gneiss::edge_buffer_options{.cache_all = rows_->keeps_all(), .bytes = plan_.edge_bytes}, budget_);
        if (device != nullptr) backend_ = backend_on(*device, options_, plan_, relations_);
        gneiss::embedding_trainer_options training = options_.training_options();
        training.batches_in_flight = plan_.batches;
        training_ = std::make_unique<gneiss::embedding_trainer>(training,
            gneiss::embedding_parts{.model = model_, .optimizer = optimizer_of(0), .rows = *rows_, .edges = *edges_, .relations = relations_,
                .backend = backend_ ? &*backend_ : nullptr},
            executor_, budget_);
        if (run.saved) training_->set_steps(trainers::progress_of(*run.saved).at("steps").get<std::uint64_t>());
    }

    void warm_up() override {
        if (rows_->keeps_all()) rows_->for_each_block([](std::uint64_t, gneiss::matrix_view<const float>) {});
    }

    trainers::epoch_end train(const gneiss::resume_position& from, const trainers::run_observer& observer, const std::stop_token& stop) override {
        training_->set_optimizer(optimizer_of(from.epoch));
        const gneiss::training_epoch done =
            training_->run(plan_.order(from.epoch), from.epoch, from.next, trainers::training_observer_of(observer), stop);
        return {done.position, done.stopped};
    }

    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) override {
        rows_->flush();
        gneiss::checkpoint c = trainers::begin_checkpoint(command_, data_, at);
        c.generation = ++generation_;
        trainers::put_rows(c, *rows_file_);
        c.sections["relations"] = trainers::to_bytes(relations_.data());
        trainers::put_progress(c, progress);
        gneiss::save_checkpoint(checkpoint_ / trainers::checkpoint_name, c);
        rows_->committed();
    }

    programs::metric_values evaluate(const std::string& split) override {
        const trainers::link_evaluation ranking{options_, options_.seed, data_, buckets_, model_.scorer(relations_.values()), executor_, plan_.evaluation_bytes, stop_};
        return ranking(split, {*rows_, stop_});
    }
    void keep_best() override {}

    [[nodiscard]] std::uint64_t steps() const override { return training_->steps(); }
    [[nodiscard]] gneiss::pipeline_statistics pipeline() const override { return training_->statistics(); }
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const override { return training_->row_staleness(); }
    [[nodiscard]] double device_seconds() const override { return backend_ ? backend_->device_seconds() : 0; }
    [[nodiscard]] gneiss::io_stats io() const override { return rows_file_->statistics() + reader_->statistics(); }

private:
    /// With the learning rate of an epoch.
    [[nodiscard]] gneiss::any_row_optimizer optimizer_of(std::uint64_t epoch) const {
        const double factor = gneiss::make_schedule(options_.lr_schedule).factor(epoch, *options_.epochs);
        return gneiss::make_row_optimizer(options_.optimizer, static_cast<float>(options_.lr * factor));
    }

    void initialize(const gneiss::engine_choice& engine, programs::progress& live) {
        const auto given = trainers::load_initial_embeddings(options_.init, plan_.partitioning.nodes, plan_.layout.dim);
        const float state = optimizer_of(0).initial_state();
        rows_file_ = trainers::create_rows(engine.make, checkpoint_, plan_,
            {.values = options_.node_initializer(), .state = state, .seed = options_.seed, .given = given ? &*given : nullptr}, live, executor_, stop_);
        gneiss::initialize_rows(options_.relation_initializer(), state, options_.seed, gneiss::embedding_kind::relations, 0,
            model_.relation_floats(), relations_.table(), executor_);
    }
    void load(const gneiss::checkpoint& saved, const gneiss::engine_choice& engine) {
        rows_file_ = trainers::open_rows(engine.make, checkpoint_, plan_, saved);
        trainers::from_bytes(saved.sections.at("relations"), relations_.data(), "relations");
        generation_ = saved.generation;
    }

    options& options_;
    programs::command& command_;
    const gneiss::dataset& data_;
    const training_plan& plan_;
    std::filesystem::path checkpoint_;
    std::stop_token stop_;
    std::unique_ptr<gneiss::dataset> rebucketed_;
    gneiss::bucket_store buckets_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    std::vector<gneiss::memory_charge> charges_;
    gneiss::any_link_model model_;
    gneiss::embedding_table relations_;
    std::uint64_t generation_ = 0;

    std::unique_ptr<gneiss::embedding_file> rows_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
    std::unique_ptr<gneiss::bucket_reader> reader_;
    std::unique_ptr<gneiss::edge_buffer> edges_;
    std::optional<gneiss::any_backend> backend_;
    std::unique_ptr<gneiss::embedding_trainer> training_;
};

programs::exit_code train(options& settings, programs::command& command) {
    const auto began = clock::now();
    const std::unique_ptr<trainers::compute_device> device = trainers::open_device(settings);
    programs::check_dataset(settings.dataset);
    const gneiss::dataset data(settings.dataset);
    const gneiss::dataset_manifest& graph = data.manifest();
    if (graph.train_edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = settings.dataset});
    settings.resolve(graph);
    const auto model = gneiss::make_link_model(*settings.decoder, settings.loss, *settings.dim, settings.model_options(), static_cast<float>(settings.margin));
    const auto optimizer = gneiss::make_row_optimizer(settings.optimizer, static_cast<float>(settings.lr));
    const gneiss::bucket_store buckets = data.buckets();
    const training_plan plan = plan_training(settings, graph, buckets, model, optimizer.state_floats(*settings.dim));
    if (device) { // what it cannot hold is told before a run is touched
        gneiss::embedding_table relations = make_relations(model, optimizer, graph);
        (void)backend_on(*device, settings, plan, relations);
    }
    programs::progress live(settings.quiet);
    const gneiss::engine_choice engine = trainers::choose_engine(settings);
    live.say(trainers::describe_machine(program, settings, engine, device.get()));
    live.say(fmt::format("{}: {} nodes, {} edges, {} relations; {} d={}", graph.name, graph.nodes, graph.train_edges,
        graph.relations, *settings.decoder, *settings.dim));
    if (settings.dry_run) {
        trainers::report_dry_run(program, settings, command, plan, buckets);
        return programs::exit_code::done;
    }
    (void)trainers::load_initial_embeddings(settings.init, graph.nodes, *settings.dim); // what cannot be is told before a run is touched
    const auto run = trainers::open_run(program, settings, command, data, plan);
    if (!run) return programs::exit_code::done;
    const programs::interrupt_guard interrupts;
    std::unique_ptr<gneiss::dataset> rebucketed = trainers::rebucketed(data, *run, plan, settings, live, interrupts.token());
    const programs::plan_record planned = rebucketed ? plan.record(rebucketed->buckets()) : plan.record(buckets);
    if (!settings.quiet) live.say(trainers::describe(plan, planned));

    marius_trainer training(settings, command, data, plan, *run, std::move(rebucketed), engine, device.get(), live, interrupts.token());
    trainers::run_loop run_loop(settings,
        {.unit = "edges", .measure = "MRR", .examples = graph.train_edges, .validates = graph.valid_edges != 0}, plan,
        run->directory, live, command.configuration());
    return trainers::run_training(training, run_loop, *run, trainers::begin_record(program, engine, device.get(), data, command, planned), settings, live,
        interrupts.token(), began);
}

} // namespace

void add_train(programs::command_line& to) {
    static options settings;
    programs::command& command = to.add("train", "Trains embeddings of a dataset's nodes and relations.",
        [](programs::command& self) { return train(settings, self); });
    settings.add_to(command);
}

} // namespace marius
