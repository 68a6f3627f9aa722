#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <gneiss/io/rebucket.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/storage/bucket_reader.hpp>
#include <gneiss/storage/durable.hpp>

#include "commands.hpp"
#include "common/machine.hpp"
#include "common/report.hpp"
#include "common/run_directory.hpp"
#include "common/sampler.hpp"
#include "common/signals.hpp"
#include "common/terminal.hpp"
#include "trained_model.hpp"
#include "training_plan.hpp"

namespace marius {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point since) { return std::chrono::duration<double>(clock::now() - since).count(); }

/// What an interrupted epoch had done, kept in the checkpoint so that its record is whole after a resume.
struct epoch_so_far {
    double seconds = 0, loss = 0;
    std::uint64_t examples = 0, read_bytes = 0, write_bytes = 0, read_requests = 0;
    double wait_seconds = 0;
    std::array<double, gneiss::stage_count> stage_seconds{};

    [[nodiscard]] nlohmann::ordered_json to_json() const {
        return {{"seconds", seconds}, {"loss", loss}, {"examples", examples}, {"read_bytes", read_bytes},
            {"write_bytes", write_bytes}, {"read_requests", read_requests}, {"wait_seconds", wait_seconds},
            {"stage_seconds", stage_seconds}};
    }
    static epoch_so_far from_json(const nlohmann::ordered_json& j) {
        return {j.at("seconds"), j.at("loss"), j.at("examples"), j.at("read_bytes"), j.at("write_bytes"),
            j.at("read_requests"), j.at("wait_seconds"), j.at("stage_seconds")};
    }
};

/// Throws when the command line would change the result of a run that it resumes.
void refuse_changes(const programs::command& command, const nlohmann::ordered_json& before) {
    const auto changed = command.differences(before, not_in_hash);
    if (!changed.empty())
        throw gneiss::error(gneiss::errc::config_mismatch,
            fmt::format("--resume with another configuration: {}{}", fmt::join(changed, "; "),
                command.given("out") ? "" : "; --resume --out RUN takes the flags of that run"));
}

/// The array that `--init` names, if any. Throws errc::invalid_format for another type or shape.
std::optional<gneiss::mapped_npy> first_values(const options& how, const training_plan& plan) {
    if (!how.init) return std::nullopt;
    gneiss::mapped_npy given(*how.init);
    const std::vector<std::uint64_t> shape{plan.partitioning.nodes, plan.layout.dim};
    if (given.header().dtype != gneiss::npy_dtype::f32 || given.header().shape != shape)
        throw gneiss::error(gneiss::errc::invalid_format,
            fmt::format("must be float32 [{}, {}], in the order of the dataset's nodes", shape[0], shape[1]),
            {.path = *how.init, .field = "--init"});
    return given;
}

/// The nearest directory above `path`, or itself, that exists.
std::filesystem::path existing_parent(std::filesystem::path path) {
    path = std::filesystem::absolute(path);
    while (!std::filesystem::exists(path) && path.has_relative_path()) path = path.parent_path();
    return path;
}

/// The program's section of a checkpoint.
nlohmann::ordered_json progress_of(const gneiss::checkpoint& saved) {
    const auto& text = saved.sections.at("progress");
    return nlohmann::ordered_json::parse(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
}

/// Assembles Marius: rows in a partition buffer, edges by bucket, negatives, a decoder, Adagrad, the pipeline.
class trainer {
public:
    trainer(options& how, programs::command& command, const gneiss::dataset& data, training_plan plan,
        programs::run_directory& run, std::unique_ptr<gneiss::dataset> rebucketed, gneiss::engine_choice engine,
        programs::progress& live)
        : how_(how), command_(command), data_(data), plan_(std::move(plan)), run_(run), rebucketed_(std::move(rebucketed)),
          live_(live), buckets_((rebucketed_ ? *rebucketed_ : data).buckets()), engine_(std::move(engine)), on_(how.threads),
          budget_(plan_.budget), model_(gneiss::make_link_model(*how.decoder, how.loss, *how.dim, how.model_options(), static_cast<float>(how.margin))),
          optimizer_(optimizer_of(0)),
          relations_(model_.relation_rows(std::max<std::uint64_t>(data.manifest().relations, 1)),
              {static_cast<std::uint32_t>(model_.relation_floats()),
                  static_cast<std::uint32_t>(optimizer_.state_floats(model_.relation_floats()))}) {
        for (const gneiss::memory_part& part : plan_.parts) // the buffers charge for themselves
            if (part.name != "partition buffer" && part.name != "edges" && part.name != "batches")
                charges_.push_back(budget_.charge(part.name, part.bytes));
    }

    /// Trains to the end or to a stop, evaluates, and returns what run.json holds.
    programs::run_record operator()(
        const std::optional<gneiss::checkpoint>& saved, const std::stop_token& stop, clock::time_point began);

private:
    [[nodiscard]] std::filesystem::path checkpoint_path() const { return run_.checkpoint() / checkpoint_name; }

    /// With the learning rate of an epoch.
    [[nodiscard]] gneiss::any_row_optimizer optimizer_of(std::uint64_t epoch) const {
        const double factor = gneiss::make_schedule(how_.lr_schedule).factor(epoch, *how_.epochs);
        return gneiss::make_row_optimizer(how_.optimizer, static_cast<float>(how_.lr * factor));
    }
    void prepare(const std::optional<gneiss::checkpoint>& saved, const std::stop_token& stop);
    void initialise_rows(const std::stop_token& stop);
    void load_rows(const gneiss::checkpoint& saved);
    void save(const gneiss::resume_position& at);
    /// The current epoch, with what processes before this one did of it.
    [[nodiscard]] epoch_so_far epoch_totals() const;
    [[nodiscard]] programs::epoch_record epoch_record(std::uint64_t epoch) const;
    std::string line(std::uint64_t epoch) const;
    [[nodiscard]] gneiss::io_stats io() const { return rows_file_->statistics() + reader_->statistics(); }

    options& how_;
    programs::command& command_;
    const gneiss::dataset& data_;
    training_plan plan_;
    programs::run_directory& run_;
    std::unique_ptr<gneiss::dataset> rebucketed_;
    programs::progress& live_;
    gneiss::bucket_store buckets_;
    gneiss::engine_choice engine_;
    gneiss::tbb_executor on_;
    gneiss::memory_budget budget_;
    std::vector<gneiss::memory_charge> charges_;
    gneiss::any_link_model model_;
    gneiss::any_row_optimizer optimizer_;
    gneiss::parameter relations_;

    std::unique_ptr<gneiss::row_file> rows_file_;
    std::unique_ptr<gneiss::partition_buffer> rows_;
    std::unique_ptr<gneiss::bucket_reader> reader_;
    std::unique_ptr<gneiss::edge_buffer> edges_;
    std::unique_ptr<gneiss::link_training> training_;

    std::uint64_t generation_ = 0;
    gneiss::resume_position at_{};
    epoch_so_far so_far_; // of the current epoch before this process
    gneiss::io_stats io_at_start_;                    // of the current epoch, in this process
    gneiss::pipeline_statistics pipeline_at_start_; // the same
    clock::time_point epoch_began_;
    std::atomic<double> loss_{0};
    std::atomic<std::uint64_t> examples_{0};
    clock::time_point saved_at_ = clock::now();
};

void trainer::initialise_rows(const std::stop_token& stop) {
    const std::filesystem::path path = run_.checkpoint() / rows_name;
    std::filesystem::create_directories(run_.checkpoint());
    {
        gneiss::any_engine engine = engine_.make();
        gneiss::row_file::create(engine, path, plan_.partitioning, plan_.layout, plan_.spare);
    }
    gneiss::preallocate(path, plan_.slot_bytes() * (std::uint64_t{plan_.partitioning.partitions} + plan_.spare));
    rows_file_ = std::make_unique<gneiss::row_file>(engine_.make, path, plan_.partitioning, plan_.layout, plan_.spare);
    const std::optional<gneiss::mapped_npy> given = first_values(how_, plan_);
    const gneiss::initializer nodes = how_.node_initializer();
    std::uint64_t filled = 0;
    rows_file_->fill([&](std::uint64_t first, gneiss::matrix_view<float> rows) {
        go_on(stop); // there is nothing to save yet
        gneiss::initialize_rows(nodes, optimizer_.initial_state(), how_.seed, gneiss::parameter_table::nodes, first,
            plan_.layout.dim, rows, on_);
        if (given)
            for (std::uint64_t i = 0; i < rows.rows(); ++i)
                std::ranges::copy(given->elements<float>().subspan((first + i) * plan_.layout.dim, plan_.layout.dim), rows[i].begin());
        filled += rows.rows();
        live_.update([&] { return fmt::format("first values  {}", programs::human_percent(static_cast<double>(filled) / static_cast<double>(plan_.partitioning.nodes))); });
    });
    gneiss::initialize_rows(how_.relation_initializer(), optimizer_.initial_state(), how_.seed,
        gneiss::parameter_table::relations, 0, model_.relation_floats(), relations_.table(), on_);
}

void trainer::load_rows(const gneiss::checkpoint& saved) {
    if (saved.partitioning != plan_.partitioning || saved.layout != plan_.layout)
        throw gneiss::error(gneiss::errc::config_mismatch, "the checkpoint has other rows or partitions", {.path = checkpoint_path()});
    rows_file_ = std::make_unique<gneiss::row_file>(engine_.make, run_.checkpoint() / rows_name, plan_.partitioning,
        plan_.layout, saved.slots, saved.disk_slots, saved.row_checksums);
    from_bytes(saved.sections.at("relations"), relations_);
    generation_ = saved.generation;
    at_ = saved.position;
}

void trainer::save(const gneiss::resume_position& at) {
    rows_->flush();
    const epoch_so_far now = at.next != gneiss::batch_number{} ? epoch_totals() : epoch_so_far{};
    const std::string progress =
        nlohmann::ordered_json{{"steps", training_ ? training_->steps() : 0}, {"epoch", now.to_json()}, {"config", command_.configuration()}}.dump();
    gneiss::checkpoint c{.generation = ++generation_,
        .configuration_hash = configuration_hash(command_),
        .dataset_hash = dataset_hash(data_),
        .layout = plan_.layout,
        .partitioning = plan_.partitioning,
        .disk_slots = rows_file_->disk_slots(),
        .slots = rows_file_->slots(),
        .row_checksums = rows_file_->checksums(),
        .position = at,
        .sections = {}};
    c.sections["relations"] = to_bytes(relations_);
    const auto bytes = std::as_bytes(std::span(progress));
    c.sections["progress"].assign(bytes.begin(), bytes.end());
    gneiss::save_checkpoint(checkpoint_path(), c);
    rows_->committed();
    saved_at_ = clock::now();
}

void trainer::prepare(const std::optional<gneiss::checkpoint>& saved, const std::stop_token& stop) {
    nlohmann::ordered_json progress;
    if (saved) {
        progress = progress_of(*saved);
        load_rows(*saved);
        so_far_ = epoch_so_far::from_json(progress.at("epoch"));
    } else {
        initialise_rows(stop);
    }
    rows_ = std::make_unique<gneiss::partition_buffer>(*rows_file_,
        gneiss::partition_buffer_options{.slots = plan_.in_memory ? plan_.partitioning.partitions : plan_.slots, .prefetch = plan_.prefetch},
        budget_);
    reader_ = std::make_unique<gneiss::bucket_reader>(buckets_, engine_.make);
    edges_ = std::make_unique<gneiss::edge_buffer>(
        reader_->source(), plan_.partitioning.partitions, rows_->keeps_all(), plan_.edge_bytes, budget_);
    training_ = std::make_unique<gneiss::link_training>(
        how_.training_options(), model_, optimizer_, *rows_, *edges_, relations_, on_, budget_);
    if (saved)
        training_->set_steps(progress.at("steps").get<std::uint64_t>());
    else
        save({});
    if (rows_->keeps_all()) rows_->for_each_block([](std::uint64_t, gneiss::matrix_view<const float>) {}); // load now
}

std::string trainer::line(std::uint64_t epoch) const {
    const double seconds = seconds_since(epoch_began_);
    const auto done = static_cast<double>(so_far_.examples + examples_);
    const auto all = static_cast<double>(data_.manifest().train_edges);
    const auto moved = io();
    const auto pipeline = training_->statistics();
    const double busy = pipeline.busy_seconds[static_cast<std::size_t>(gneiss::stage::compute)];
    const double wait = pipeline.wait_seconds[static_cast<std::size_t>(gneiss::stage::compute)];
    std::string text = fmt::format("epoch {}/{} {:>4}  loss {:.4g}  {}", epoch + 1, *how_.epochs, programs::human_percent(done / all),
        loss_ / std::max<double>(1, static_cast<double>(examples_)),
        programs::human_rate(static_cast<double>(examples_) / seconds, "edges"));
    if (!plan_.in_memory)
        text += fmt::format("  read {}/s", gneiss::format_bytes(static_cast<std::uint64_t>(
                                               static_cast<double>(moved.read_bytes - io_at_start_.read_bytes) / seconds)));
    text += fmt::format("  wait {}  RSS {} of {}  ETA {}", programs::human_percent(wait / std::max(1e-9, busy + wait)),
        gneiss::format_bytes(programs::current_rss()), gneiss::format_bytes(plan_.budget),
        programs::human_eta(static_cast<double>(examples_), all * static_cast<double>(*how_.epochs - epoch) - static_cast<double>(so_far_.examples), seconds));
    return text;
}

epoch_so_far trainer::epoch_totals() const {
    epoch_so_far sum = so_far_;
    sum.seconds += seconds_since(epoch_began_);
    sum.loss += loss_;
    sum.examples += examples_;
    const gneiss::io_stats moved = io();
    sum.read_bytes += moved.read_bytes - io_at_start_.read_bytes;
    sum.write_bytes += moved.written_bytes - io_at_start_.written_bytes;
    sum.read_requests += moved.reads - io_at_start_.reads;
    const gneiss::pipeline_statistics now = training_->statistics();
    const auto compute = static_cast<std::size_t>(gneiss::stage::compute);
    sum.wait_seconds += now.wait_seconds[compute] - pipeline_at_start_.wait_seconds[compute];
    for (std::size_t i = 0; i < gneiss::stage_count; ++i)
        sum.stage_seconds[i] += now.busy_seconds[i] - pipeline_at_start_.busy_seconds[i];
    return sum;
}

programs::epoch_record trainer::epoch_record(std::uint64_t epoch) const {
    const epoch_so_far sum = epoch_totals();
    programs::epoch_record record;
    record.epoch = epoch + 1;
    record.seconds = sum.seconds;
    record.examples = sum.examples;
    record.loss = sum.loss / std::max<double>(1, static_cast<double>(sum.examples));
    record.read_bytes = sum.read_bytes;
    record.write_bytes = sum.write_bytes;
    record.read_requests = sum.read_requests;
    record.wait_seconds = sum.wait_seconds;
    for (std::size_t i = 0; i < gneiss::stage_count; ++i)
        if (sum.stage_seconds[i] > 0) record.stage_seconds.emplace_back(gneiss::stage_names[i], sum.stage_seconds[i]);
    gneiss::staleness_histogram this_epoch = training_->statistics().staleness;
    for (std::size_t i = 0; i < gneiss::staleness_histogram::bins; ++i)
        this_epoch.count[i] -= pipeline_at_start_.staleness.count[i];
    record.staleness_p50 = static_cast<double>(this_epoch.quantile(0.5));
    record.staleness_max = static_cast<double>(this_epoch.max());
    return record;
}

programs::run_record trainer::operator()(
    const std::optional<gneiss::checkpoint>& saved, const std::stop_token& stop, clock::time_point began) {
    prepare(saved, stop);
    programs::run_record record;
    record.program = "gneiss-marius";
    record.version = programs::version();
    record.machine = programs::this_machine();
    record.machine.io_engine = engine_.name;
    record.machine.io_engine_reason = engine_.reason;
    record.dataset = {.name = data_.manifest().name, .nodes = data_.manifest().nodes, .edges = data_.manifest().train_edges + data_.manifest().valid_edges + data_.manifest().test_edges,
        .relations = data_.manifest().relations, .features = {}, .classes = {}};
    record.config = command_.configuration();
    record.plan = plan_.record(buckets_);
    record.epochs = run_.keep_metrics_before(at_.epoch + 1);

    const evaluation evaluate{how_, data_, buckets_, relations_, on_, plan_.evaluation_bytes, stop};
    gneiss::training_observer observer;
    observer.on_batch = [&](const gneiss::batch_key& key, const gneiss::link_statistics& s) {
        loss_ = loss_ + s.loss;
        examples_ += s.positives;
        live_.update([&] { return line(key.epoch); });
    };
    observer.checkpoint_due = [&] {
        return how_.checkpoint_every.seconds > 0 && seconds_since(saved_at_) >= how_.checkpoint_every.seconds;
    };
    observer.checkpoint = [&](const gneiss::resume_position& at) { save(at); };
    const auto compute = static_cast<std::size_t>(gneiss::stage::compute);
    programs::run_sampler sampler([&] {
        const auto pipeline = training_->statistics();
        const auto moved = io();
        return programs::activity{pipeline.busy_seconds[compute], pipeline.wait_seconds[compute], moved.read_bytes, moved.written_bytes};
    });

    double best = 0;
    std::uint64_t without_better = 0;
    const auto judge = [&](const programs::epoch_record& epoch) {
        if (epoch.valid.empty()) return;
        without_better = epoch.valid.front().second > best ? 0 : without_better + 1;
        best = std::max(best, epoch.valid.front().second);
    };
    for (const programs::epoch_record& epoch : record.epochs) judge(epoch);
    // Evaluates, unless a stop is requested meanwhile: then the state is saved and a resume evaluates.
    const auto metrics_of = [&](const char* split) {
        try {
            return evaluate(split, *rows_);
        } catch (const gneiss::error& e) {
            if (e.code() != gneiss::errc::cancelled) throw;
            return programs::metric_values{};
        }
    };
    while (at_.epoch < *how_.epochs && !stop.stop_requested()) {
        const std::uint64_t epoch = at_.epoch;
        loss_ = 0;
        examples_ = 0;
        io_at_start_ = io();
        pipeline_at_start_ = training_->statistics();
        epoch_began_ = clock::now();
        training_->set_optimizer(optimizer_of(epoch));
        const gneiss::link_epoch result = training_->run(plan_.order(epoch), epoch, at_.next, observer, stop);
        at_ = result.position;
        if (result.stopped) {
            save(at_);
            break;
        }
        programs::epoch_record done = epoch_record(epoch);
        so_far_ = {};
        const bool validate = !how_.no_eval && data_.manifest().valid_edges != 0 && *how_.eval_every != 0 &&
                              ((epoch + 1) % *how_.eval_every == 0 || epoch + 1 == *how_.epochs);
        if (validate) done.valid = metrics_of("valid");
        run_.append_metrics(done);
        record.epochs.push_back(done);
        std::string told = fmt::format("epoch {}: {:.1f} s, loss {:.4f}, {}", epoch + 1, done.seconds, *done.loss,
            programs::human_rate(static_cast<double>(done.examples) / done.seconds, "edges"));
        if (!done.valid.empty()) told += fmt::format(", valid MRR {:.4f}", done.valid.front().second);
        live_.say(told);
        if (how_.checkpoint_every.epochs != 0 && (epoch + 1) % how_.checkpoint_every.epochs == 0) save(at_);
        judge(done);
        if (how_.early_stop != 0 && without_better >= how_.early_stop) break;
    }
    if (at_.next == gneiss::batch_number{}) save(at_); // a stop inside an epoch has saved already
    live_.clear();
    if (!stop.stop_requested() && !how_.no_eval) {
        const bool evaluated = !record.epochs.empty() && !record.epochs.back().valid.empty();
        record.valid = evaluated ? record.epochs.back().valid : metrics_of("valid");
        record.test = metrics_of("test");
    }
    const bool interrupted = stop.stop_requested();
    sampler.stop();
    record.status = interrupted ? programs::run_status::interrupted : programs::run_status::done;
    record.seconds = seconds_since(began);
    record.peak_rss_bytes = programs::peak_rss();
    run_.write_result(record);
    run_.write_timeline(sampler.samples());
    if (!how_.no_report) {
        programs::report_data report{.run = record, .samples = sampler.samples(), .staleness = {}, .tables = {}};
        const auto rows = training_->row_staleness();
        for (std::size_t i = 0; i <= rows.max(); ++i) report.staleness.push_back(rows.count[i]);
        run_.write_report(programs::report_html(report));
    }
    return record;
}

programs::exit_code train(options& how, programs::command& command) {
    const auto began = clock::now();
    if (how.device == "cuda")
        throw gneiss::error(gneiss::errc::unsupported, "--device cuda: this build has no CUDA backend; leave the flag out to train on the CPU");
    const gneiss::dataset data(how.dataset);
    if (data.manifest().train_edges == 0)
        throw gneiss::error(gneiss::errc::invalid_argument, "has no training edges", {.path = how.dataset});
    how.resolve(data.manifest());
    const auto model = gneiss::make_link_model(*how.decoder, how.loss, *how.dim, how.model_options(), static_cast<float>(how.margin));
    const auto optimizer = gneiss::make_row_optimizer(how.optimizer, static_cast<float>(how.lr));
    gneiss::bucket_store buckets = data.buckets();
    training_plan plan = plan_training(how, data.manifest(), buckets, model, optimizer.state_floats(*how.dim));
    programs::progress live(how.quiet);
    const gneiss::engine_choice engine = choose_engine(how);
    live.say(fmt::format("gneiss-marius {} on {} CPUs ({}), I/O by {} ({})", programs::version(), how.threads,
        programs::cpu_name(), engine.name, engine.reason));
    live.say(fmt::format("{}: {} nodes, {} edges, {} relations; {} d={}", data.manifest().name, data.manifest().nodes,
        data.manifest().train_edges, data.manifest().relations, *how.decoder, *how.dim));
    if (how.dry_run) {
        const programs::plan_record record = plan.record(buckets);
        if (how.json)
            programs::print_json({{"program", "gneiss-marius"}, {"config", command.configuration()}, {"plan", programs::to_json(record)}});
        else
            fmt::print("{}", describe(plan, record));
        return programs::exit_code::done;
    }
    (void)first_values(how, plan); // what cannot be is told before a run is touched
    if (!how.resume) gneiss::require_disk_space(existing_parent(how.out.value_or(".")), plan.disk_bytes);
    const std::string name = data.manifest().name.empty() ? how.dataset.filename().string() : data.manifest().name;
    auto run = programs::run_directory::open("gneiss-marius", name, how.out,
        how.resume ? programs::existing_run::resume : how.force ? programs::existing_run::replace : programs::existing_run::refuse);
    if (how.resume) {
        if (const auto finished = run.finished_result()) {
            refuse_changes(command, finished->at("config"));
            if (how.json)
                programs::print_json(*finished);
            else
                fmt::print("{}: finished already\n{}\n", run.path().string(),
                    finished->value("metrics", nlohmann::ordered_json::object()).dump(2));
            return programs::exit_code::done;
        }
    }
    std::optional<gneiss::checkpoint> saved;
    if (const auto where = run.checkpoint() / checkpoint_name; std::filesystem::exists(where)) {
        saved = gneiss::load_checkpoint(where);
        refuse_changes(command, progress_of(*saved).at("config"));
        if (saved->configuration_hash != configuration_hash(command))
            throw gneiss::error(gneiss::errc::config_mismatch, "was trained with another configuration", {.path = run.path()});
        if (saved->dataset_hash != dataset_hash(data))
            throw gneiss::error(gneiss::errc::config_mismatch, "was trained on another dataset than " + how.dataset.string(), {.path = run.path()});
    }
    how.out = run.path();
    how.dataset = std::filesystem::absolute(how.dataset);
    run.write_config(command.to_toml());
    const programs::interrupt_guard interrupts;
    std::unique_ptr<gneiss::dataset> rebucketed;
    if (plan.partitioning.partitions != buckets.rows().partitions) {
        const std::filesystem::path to = run.checkpoint() / "edges";
        if (!saved) std::filesystem::remove_all(to); // of another graph, for all we know
        if (!std::filesystem::exists(to)) {
            std::filesystem::create_directories(run.checkpoint());
            live.say(fmt::format("sorting the edges into {0} x {0} buckets", plan.partitioning.partitions));
            gneiss::rebucket(data, plan.partitioning.partitions, to, plan.budget / 2, gneiss::tbb_executor(how.threads), interrupts.token());
        }
        rebucketed = std::make_unique<gneiss::dataset>(to);
    }
    if (!how.quiet) live.say(describe(plan, rebucketed ? plan.record(rebucketed->buckets()) : plan.record(buckets)));

    trainer training(how, command, data, std::move(plan), run, std::move(rebucketed), engine, live);
    const programs::run_record record = training(saved, interrupts.token(), began);
    if (how.json)
        programs::print_json(programs::to_json(record));
    else
        fmt::print("{}", programs::summary_text(record));
    live.say(fmt::format("{} is in {}{}", record.status == programs::run_status::done ? "the run" : "interrupted: the state",
        run.path().string(), record.status == programs::run_status::done
            ? how.no_report ? "" : "; open report.html there"
            : "; --resume --out " + run.path().string() + " goes on"));
    return record.status == programs::run_status::done ? programs::exit_code::done : programs::exit_code::interrupted;
}

} // namespace

void add_train(programs::command_line& to) {
    static options how;
    programs::command& command = to.add("train", "Trains embeddings of a dataset's nodes and relations.",
        [](programs::command& self) { return train(how, self); });
    how.add_to(command);
}

} // namespace marius
