// SPDX-License-Identifier: Apache-2.0
#include "kit/run/train.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/report.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/engine.hpp"
#include "kit/run/warm_start.hpp"

namespace trainers {

namespace {

/// Returns the fields of run.json that are known before training: program, machine, dataset, plan and flags.
programs::run_record begin_record(
    const prepared_run& prepared, const programs::plan_record& plan, const programs::run_directory& run) {
    const run_context& context = prepared.context();
    const gneiss::dataset_manifest& m = context.data->manifest();
    programs::run_record record;
    record.program = context.program;
    record.version = programs::version();
    record.command = programs::command_text();
    record.machine = programs::this_machine();
    record.machine.io_engine = context.engine.name;
    record.machine.io_engine_reason = context.engine.reason;
    if (context.device) record.machine.device = context.device->name();
    record.dataset = {.name = m.name,
        .nodes = m.nodes,
        .edges = m.train_edges + m.valid_edges + m.test_edges,
        .relations = m.relations,
        .features = {},
        .classes = {}};
    if (m.node_attributes.features != 0) record.dataset.features = m.node_attributes.features;
    if (m.node_attributes.classes != 0 && m.node_attributes.target != gneiss::node_target_kind::regression)
        record.dataset.classes = m.node_attributes.classes;
    record.config = prepared.command().configuration();
    record.plan = plan;
    record.scopes = prepared.loop().scopes;
    prepared.add_to(record);
    if (prepared.flags().warm_start) record.warm_start = warm_start::reported(run.checkpoint());
    return record;
}

void report_finished(const run_result& result) {
    programs::table metrics({{"metric", programs::align::left}, {"value"}, {"", programs::align::left}});
    const auto splits = result.finished->value("metrics", nlohmann::ordered_json::object());
    for (const auto& [split, values] : splits.items()) {
        if (split == "per_class") continue;
        for (const auto& [name, value] : values.items()) {
            if (!value.is_number())
                throw gneiss::error(gneiss::errc::corrupt, "is not a number",
                    {.path = result.run / programs::result_name, .field = "metrics." + split + "." + name});
            metrics.add({name, fmt::format("{:.6g}", value.get<double>()), split});
        }
    }
    programs::print_text("{}: finished already; --force trains it again\n{}", result.run.string(), metrics.str());
}

} // namespace

run_context begin_context(
    const std::string& program, const run_options& flags, run_reporter& live, const std::stop_token& stop) {
    const auto began = clock::now();
    live.enter(run_phase::planning);
    if (flags.memory)
        if (const std::string doubt = programs::doubt_memory(flags.memory->bytes, flags.dry_run); !doubt.empty())
            live.warn(doubt);
    check_trace(flags);
    std::unique_ptr<compute_device> device = open_device(flags);
    programs::check_dataset(flags.dataset);
    auto data = std::make_shared<const gneiss::dataset>(flags.dataset);
    gneiss::engine_choice engine = choose_engine(flags);
    live.say(fmt::format("{} {} on {}{} CPUs ({}), I/O by {} ({})", program, programs::version(),
        device ? device->name() + " and " : "", flags.threads == 0 ? programs::usable_cpus() : flags.threads,
        programs::cpu_name(), engine.name, engine.reason));
    return {program, std::move(data), std::move(device), std::move(engine), live, stop, began};
}

run_result train(prepared_run& prepared) {
    const run_context& context = prepared.context();
    opened open = open_run(context.program, prepared.flags(), prepared.command(), *context.data, prepared.plan());
    opened_run& run = open.run;
    if (open.finished) {
        prepared.clean(run);
        return {.run = run.directory.path(), .finished = std::move(open.finished)};
    }
    if (prepared.flags().trace) run.trace = std::make_unique<run_trace>(*prepared.flags().trace, context.program);
    prepared.place(std::filesystem::absolute(prepared.flags().dataset), run.directory.path());
    const std::string config = prepared.command().to_toml();
    run.directory.write_config(config); // claims the directory before anything else is written there
    context.live.enter(run_phase::preparing);
    prepared.open(run);
    if (const std::string exact = prepared.command().to_toml(); exact != config) // by the partitions that were made
        run.directory.write_config(exact);
    const programs::plan_record planned = record_of(prepared.plan());
    context.live.say(prepared.flags().verbose ? describe(prepared.plan()) : summarize(prepared.plan()));

    std::unique_ptr<trainer> training = prepared.begin(run);
    context.live.plan(planned, training->budget().parts());
    run_loop loop(
        prepared.flags(), prepared.loop(), prepared.plan(), run, context.live, prepared.command().configuration());
    run_result result{run.directory.path(),
        loop(*training, begin_record(prepared, planned, run.directory), loop_position::of(run, prepared.plan().budget),
            context.stop, context.began)};
    training.reset();
    if (run.trace) run.trace->close(context.live);
    return result;
}

void report_dry_run(const prepared_run& prepared) {
    const programs::plan_record record = record_of(prepared.plan());
    const std::optional<programs::machine_rates> rates =
        prepared.context().device ? std::nullopt : programs::known_rates();
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    const double seconds =
        rates ? epoch_seconds(prepared.work(), record, *rates, prepared.flags().threads).value_or(unknown) : unknown;
    if (prepared.flags().json) {
        nlohmann::ordered_json result{{"program", prepared.context().program},
            {"config", prepared.command().configuration()}, {"plan", programs::to_json(record)}};
        if (std::isfinite(seconds)) result["epoch_seconds"] = seconds;
        programs::print_json(result);
        return;
    }
    programs::print_text("{}", describe(prepared.plan()));
    if (std::isfinite(seconds))
        programs::print_text("an epoch takes about {}, by the rates that gneiss-data doctor measured on {}\n",
            programs::human_seconds(seconds), rates->measured);
    else if (!prepared.context().device)
        programs::print_text("gneiss-data doctor measures the rates that give the seconds of an epoch\n");
}

programs::exit_code report_result(const run_result& result, const run_options& flags, programs::progress& line) {
    if (result.finished) {
        if (flags.json)
            programs::print_json(*result.finished);
        else
            report_finished(result);
        return programs::exit_code::done;
    }
    const programs::run_record& record = result.record;
    if (flags.json)
        programs::print_json(programs::to_json(record));
    else
        programs::print_text(programs::summary_text(record));
    const bool done = record.status == programs::run_status::done;
    line.say(fmt::format("{} is in {}{}", done ? "the run" : "interrupted: the state", result.run.string(),
        !done                 ? "; --resume --out " + result.run.string() + " continues"
            : flags.no_report ? ""
                              : "; open report.html there"));
    return done ? programs::exit_code::done : programs::exit_code::interrupted;
}

} // namespace trainers
