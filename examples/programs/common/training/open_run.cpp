#include "common/training/open_run.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/rebucket.hpp>
#include <gneiss/storage/io/durable.hpp>

#include "common/machine.hpp"
#include "common/report.hpp"
#include "common/terminal.hpp"
#include "common/training/checkpoint.hpp"

namespace trainers {

namespace {

/// The nearest directory above `path`, or itself, that exists.
std::filesystem::path existing_parent(std::filesystem::path path) {
    path = std::filesystem::absolute(path);
    while (!std::filesystem::exists(path) && path.has_relative_path()) path = path.parent_path();
    return path;
}

void report_finished(const std::filesystem::path& run, const nlohmann::ordered_json& result) {
    programs::table metrics({{"metric", programs::align::left}, {"value"}, {"", programs::align::left}});
    const auto splits = result.value("metrics", nlohmann::ordered_json::object());
    for (const auto& [split, values] : splits.items())
        for (const auto& [name, value] : values.items()) metrics.add({name, fmt::format("{:.6g}", value.get<double>()), split});
    fmt::print("{}: finished already; with --force it is trained anew\n{}", run.string(), metrics.str());
}

} // namespace

std::optional<opened_run> open_run(const std::string& program, run_options& options, const programs::command& command,
    const gneiss::dataset& data, const training_plan& plan) {
    if (!options.resume) gneiss::require_disk_space(existing_parent(options.out.value_or(".")), plan.disk_bytes);
    const std::string name = data.manifest().name.empty() ? options.dataset.filename().string() : data.manifest().name;
    opened_run result{programs::run_directory::open(program, name, options.out,
                        options.resume ? programs::existing_run::resume : options.force ? programs::existing_run::replace : programs::existing_run::refuse),
        {}};
    const programs::run_directory& run = result.directory;
    if (options.resume) {
        try {
            if (const auto finished = run.finished_result()) {
                refuse_changes(command, finished->at("config"));
                if (options.json)
                    programs::print_json(*finished);
                else
                    report_finished(run.path(), *finished);
                return std::nullopt;
            }
        } catch (const nlohmann::json::exception&) {
            throw gneiss::error(gneiss::errc::corrupt, "is not what a finished run tells", {.path = run.path() / "run.json"});
        }
    }
    if (const auto where = run.checkpoint() / checkpoint_name; std::filesystem::exists(where)) {
        result.saved = gneiss::load_checkpoint(where);
        refuse_changes(command, progress_of(*result.saved).at("config"));
        if (result.saved->configuration_hash != configuration_hash(command))
            throw gneiss::error(gneiss::errc::config_mismatch, "was trained with another configuration", {.path = run.path()});
        if (result.saved->dataset_hash != dataset_hash(data))
            throw gneiss::error(gneiss::errc::config_mismatch, "was trained on another dataset than " + options.dataset.string(), {.path = run.path()});
    }
    options.out = run.path();
    options.dataset = std::filesystem::absolute(options.dataset);
    run.write_config(command.to_toml());
    return result;
}

void report_dry_run(const std::string& program, const run_options& options, const programs::command& command,
    const training_plan& plan, const gneiss::bucket_store& buckets) {
    const programs::plan_record record = plan.record(buckets);
    if (options.json)
        programs::print_json({{"program", program}, {"config", command.configuration()}, {"plan", programs::to_json(record)}});
    else
        fmt::print("{}", describe(plan, record));
}

std::unique_ptr<gneiss::dataset> rebucketed(const gneiss::dataset& data, const opened_run& run,
    const training_plan& plan, const run_options& options, programs::progress& live, const std::stop_token& stop) {
    const std::uint32_t partitions = plan.partitioning.partitions;
    if (partitions == data.manifest().partitions) return nullptr;
    const std::filesystem::path to = run.directory.checkpoint() / "edges";
    if (!run.saved) std::filesystem::remove_all(to); // of another graph, for all we know
    if (!std::filesystem::exists(to)) {
        std::filesystem::create_directories(run.directory.checkpoint());
        live.say(fmt::format("sorting the edges into {0} x {0} buckets", partitions));
        // Beside what the process has by now, and the tables, which the plan foresees.
        const std::uint64_t taken = programs::current_rss() + (std::uint64_t{12} << 20) + plan.table_bytes;
        const std::uint64_t left = plan.budget - std::min(plan.budget, taken);
        gneiss::rebucket(data, partitions, to, std::clamp(left, std::uint64_t{8} << 20, std::max(plan.budget / 2, std::uint64_t{8} << 20)),
            gneiss::tbb_executor(options.threads), stop);
    }
    return std::make_unique<gneiss::dataset>(to);
}

programs::run_record begin_record(const std::string& program, const gneiss::engine_choice& engine, const compute_device* device,
    const gneiss::dataset& data, const programs::command& command, const programs::plan_record& plan) {
    const gneiss::dataset_manifest& m = data.manifest();
    programs::run_record record;
    record.program = program;
    record.version = programs::version();
    record.machine = programs::this_machine();
    record.machine.io_engine = engine.name;
    record.machine.io_engine_reason = engine.reason;
    if (device != nullptr) record.machine.device = device->name();
    record.dataset = {.name = m.name, .nodes = m.nodes, .edges = m.train_edges + m.valid_edges + m.test_edges,
        .relations = m.relations, .features = {}, .classes = {}};
    if (m.node_attributes.features != 0) record.dataset.features = m.node_attributes.features;
    if (m.node_attributes.classes != 0) record.dataset.classes = m.node_attributes.classes;
    record.config = command.configuration();
    record.plan = plan;
    return record;
}

std::string describe_machine(const std::string& program, const run_options& options, const gneiss::engine_choice& engine, const compute_device* device) {
    return fmt::format("{} {} on {}{} CPUs ({}), I/O by {} ({})", program, programs::version(), device == nullptr ? "" : device->name() + " and ",
        options.threads, programs::cpu_name(), engine.name, engine.reason);
}

programs::exit_code report_result(
    const programs::run_record& record, const run_options& options, const programs::run_directory& run, programs::progress& live) {
    if (options.json)
        programs::print_json(programs::to_json(record));
    else
        fmt::print("{}", programs::summary_text(record));
    const bool done = record.status == programs::run_status::done;
    live.say(fmt::format("{} is in {}{}", done ? "the run" : "interrupted: the state", run.path().string(),
        !done ? "; --resume --out " + run.path().string() + " goes on" : options.no_report ? "" : "; open report.html there"));
    return done ? programs::exit_code::done : programs::exit_code::interrupted;
}

std::optional<gneiss::mapped_npy> load_initial_embeddings(
    const std::optional<std::filesystem::path>& init, std::uint64_t nodes, std::uint64_t dim) {
    if (!init) return std::nullopt;
    gneiss::mapped_npy given(*init);
    const std::vector<std::uint64_t> shape{nodes, dim};
    if (given.header().dtype != gneiss::npy_dtype::f32 || given.header().shape != shape)
        throw gneiss::error(gneiss::errc::invalid_format,
            fmt::format("must be float32 [{}, {}], in the order of the dataset's nodes", shape[0], shape[1]),
            {.path = *init, .field = "--init"});
    return given;
}

} // namespace trainers
