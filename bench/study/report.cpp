// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/manifest.hpp>

#include "commands.hpp"
#include "kit/cli/config_file.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/file_names.hpp"
#include "kit/report/page.hpp"
#include "kit/report/records.hpp"
#include "kit/report/report.hpp"
#include "kit/report/run_directory.hpp"

namespace study {
namespace {

namespace fs = std::filesystem;
namespace page = programs::page;
namespace plot = programs::plot;
using nlohmann::ordered_json;
using page::cell;
using plot::quantity;
using programs::epoch_record;
using programs::run_record;
using programs::value_of;

struct report_flags {
    std::vector<fs::path> runs{};
    fs::path out = "compare.html";
    std::string metric{};
    bool force = false;
};

struct compared_run {
    std::string name;
    fs::path path;
    run_record record;
    std::vector<programs::time_sample> samples;
    std::string status;  ///< for display
    std::string scope{}; ///< what its test metrics are means over, as run.json has it; empty: unknown
    std::size_t color{}; ///< position of its lines' color
};

/// Reads the flags of a run that has no run.json, its program and its dataset.
void read_flags(const fs::path& path, run_record& record) {
    const fs::path file = path / programs::config_name;
    const std::string text = programs::read_file(file);
    if (text.starts_with("# gneiss-")) record.program = text.substr(2, text.find(' ', 2) - 2);
    for (const programs::config_item& item : programs::parse_toml(text, file)) {
        if (item.list)
            record.config[item.key] = item.values;
        else // as in run.json, where numbers and Booleans are no text
            record.config[item.key] = ordered_json::accept(item.values.at(0)) ? ordered_json::parse(item.values.at(0))
                                                                              : ordered_json(item.values.at(0));
    }
    const fs::path data = record.config.value("dataset", "");
    record.dataset.name = data.filename().string();
    std::error_code ignored;
    if (!fs::exists(data / "manifest.json", ignored)) return;
    try {
        if (const std::string name = gneiss::read_manifest(data / "manifest.json").name; !name.empty())
            record.dataset.name = name;
    } catch (const gneiss::error&) { // the name of its directory does
    }
}

/// Reads a run: run.json, or metrics.jsonl of a run that is not finished, and timeline.jsonl if there is one. Throws
/// errc::not_found, errc::corrupt.
compared_run read_compared(const fs::path& path) {
    const programs::run_directory directory = programs::run_directory::open_existing(path);
    compared_run run{.name = programs::directory_name(path),
        .path = path,
        .record = {},
        .samples = directory.timeline_before(std::numeric_limits<double>::max()),
        .status = {}};
    const fs::path file = path / programs::result_name, metrics = path / programs::metrics_name;
    const std::optional<ordered_json> result = directory.result();
    const bool held = directory.is_held(); // perhaps resumed, and its run.json of an earlier process
    try {
        if (result) {
            run.record = programs::run_from_json(*result);
            if (const auto scope = result->find("scope"); scope != result->end() && scope->is_object())
                run.scope = scope->value("test", "");
        }
        if (!result || held) {
            run.record.status = programs::run_status::running;
            run.record.epochs.clear();
            run.record.seconds = 0;
            if (!result) read_flags(path, run.record);
            if (fs::exists(metrics))
                for (const ordered_json& line : programs::read_json_lines(metrics)) {
                    run.record.epochs.push_back(programs::epoch_from_json(line));
                    run.record.seconds += run.record.epochs.back().seconds +
                        run.record.epochs.back().evaluation.value_or(programs::evaluation_record{}).seconds;
                }
        }
    } catch (const nlohmann::json::exception& e) {
        throw gneiss::error(gneiss::errc::corrupt, e.what(), {.path = result ? file : metrics});
    } catch (const gneiss::error& e) {
        if (!e.place().path.empty()) throw;
        throw gneiss::error(e.code(), e.what(), {.path = result ? file : metrics});
    }
    run.status = run.record.status != programs::run_status::running || held
        ? name_of(run.record.status)
        : "no process, nothing came since " + programs::utc_text(directory.last_written());
    return run;
}

/// Returns a run's dataset and task: runs are compared if these are the same.
std::string subject_of(const run_record& run) {
    std::vector<std::string> names;
    for (const programs::metric_values* values : {&run.valid, &run.test})
        for (const auto& [name, value] : *values) names.push_back(name);
    for (const epoch_record& epoch : run.epochs)
        for (const auto& [name, value] : epoch.valid) names.push_back(name);
    const auto has = [&](std::initializer_list<std::string_view> some) {
        return std::ranges::any_of(
            names, [&](const std::string& name) { return std::ranges::find(some, name) != some.end(); });
    };
    const std::string task = run.config.value("task", run.program == "gneiss-marius" ? "link" : ""),
                      kind = run.config.value("node-task", "");
    const char* const words = has({"mrr", "hits@10"}) || task == "link"  ? "link prediction"
        : has({"r2", "mse"}) || kind == "regression"                     ? "regression"
        : has({"micro_f1", "average_precision"}) || kind == "multilabel" ? "several labels"
        : has({"accuracy"}) || kind == "classes" || task == "node"       ? "node classification"
                                                                         : "";
    return run.dataset.name + (*words != '\0' ? std::string(", ") + words : "");
}

/// Returns `wanted`, or the first metric of the first run that has one.
std::string metric_of(const std::vector<compared_run>& runs, const std::string& wanted) {
    if (!wanted.empty()) return wanted;
    for (const compared_run& run : runs) {
        for (const epoch_record& epoch : run.record.epochs)
            if (!epoch.valid.empty()) return epoch.valid.front().first;
        if (!run.record.test.empty()) return run.record.test.front().first;
    }
    return "";
}

const epoch_record* best_by(const run_record& run, const std::string& metric) {
    const epoch_record* best = nullptr;
    for (const epoch_record& epoch : run.epochs)
        if (const auto value = value_of(epoch.valid, metric); value &&
            (best == nullptr || programs::metric_order::better(metric, *value, *value_of(best->valid, metric))))
            best = &epoch;
    return best;
}

double training_seconds(const run_record& run) {
    double sum = 0;
    for (const epoch_record& epoch : run.epochs) sum += epoch.seconds;
    return sum;
}

/// A value of each run, and its title.
struct value_of_runs {
    std::string title;
    std::function<std::string(const compared_run&)> text;
};

/// Returns a box over the whole width with a row for each run, without values that all lack; empty without a value.
std::string table_of(
    const std::vector<compared_run>& runs, const std::string& title, std::span<const value_of_runs> columns) {
    std::vector<std::string> titles{"run"};
    std::vector<std::vector<cell>> rows;
    for (const compared_run& run : runs) rows.push_back({{run.name, plot::color(run.color)}});
    for (const value_of_runs& column : columns) {
        std::vector<std::string> values;
        for (const compared_run& run : runs) values.push_back(column.text(run));
        if (std::ranges::all_of(values, &std::string::empty)) continue;
        titles.push_back(column.title);
        for (std::size_t i = 0; i < runs.size(); ++i) rows[i].push_back({values[i]});
    }
    return titles.size() == 1 ? "" : page::table_box(title, titles, rows, page::span::all, false, true);
}

/// Returns the epochs of a run, and how many it was to have if it has not ended by itself.
std::string epochs_text(const run_record& run) {
    const std::string done = fmt::format("{}", run.epochs.size());
    const auto wanted = run.config.find("epochs");
    return run.status == programs::run_status::done || wanted == run.config.end()
        ? done
        : done + " of " + programs::setting_text("epochs", *wanted);
}

/// Tabulates runs, one a row, without the values that no run has.
std::string result_table(const std::vector<compared_run>& runs, const std::string& metric) {
    const auto number = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.4f}", *value) : std::string();
    };
    const auto mean = [](const run_record& run, std::optional<std::uint64_t> epoch_record::* value) {
        double sum = 0, count = 0;
        for (const epoch_record& epoch : run.epochs)
            if (epoch.*value) sum += static_cast<double>(*(epoch.*value)), ++count;
        return count == 0 ? std::string() : programs::human_bytes(sum / count);
    };
    const std::string title = programs::metric_title(metric);
    const bool one_program = std::ranges::adjacent_find(runs, std::not_equal_to<>(),
                                 [](const compared_run& run) { return run.record.program; }) == runs.end();
    std::set<std::string> scopes; // of the runs that have test metrics
    for (const compared_run& run : runs)
        if (!run.scope.empty()) scopes.insert(run.scope);
    const value_of_runs columns[] = {
        {"status", [](const compared_run& run) { return run.status; }},
        {"program", [&](const compared_run& run) { return one_program ? "" : run.record.program; }},
        {"epochs", [](const compared_run& run) { return epochs_text(run.record); }},
        {"loss",
            [](const compared_run& run) {
                return run.record.epochs.empty() || !run.record.epochs.back().loss
                    ? ""
                    : fmt::format("{:.4f}", *run.record.epochs.back().loss);
            }},
        {"best epoch",
            [&](const compared_run& run) {
                const auto* best = best_by(run.record, metric);
                return best == nullptr ? "" : fmt::format("{}", best->epoch);
            }},
        {"validation " + title,
            [&](const compared_run& run) {
                const auto* best = best_by(run.record, metric);
                return best == nullptr ? "" : number(value_of(best->valid, metric));
            }},
        {"test " + title, [&](const compared_run& run) { return number(value_of(run.record.test, metric)); }},
        {"test metrics over", [&](const compared_run& run) { return scopes.size() < 2 ? "" : run.scope; }},
        {"training", [](const compared_run& run) { return programs::human_seconds(training_seconds(run.record)); }},
        {"evaluation",
            [](const compared_run& run) {
                return run.record.evaluation ? programs::human_seconds(run.record.evaluation->seconds) : "";
            }},
        {"all", [](const compared_run& run) { return programs::human_seconds(run.record.seconds); }},
        {"read per epoch", [&](const compared_run& run) { return mean(run.record, &epoch_record::read_bytes); }},
        {"peak memory",
            [](const compared_run& run) {
                return run.record.peak_rss_bytes == 0 ? "" : gneiss::format_bytes(run.record.peak_rss_bytes);
            }},
        {"budget",
            [](const compared_run& run) {
                return run.record.plan.budget_bytes ? gneiss::format_bytes(*run.record.plan.budget_bytes) : "";
            }},
    };
    return table_of(runs, scopes.size() == 1 ? "Runs; test metrics over " + *scopes.begin() : "Runs", columns);
}

/// Tabulates the flags in which runs differ, one run a row: those that decide what a run computes, not what it prints
/// and where.
std::string difference_table(const std::vector<compared_run>& runs) {
    constexpr std::string_view output[] = {
        "dataset", "out", "resume", "force", "dry-run", "json", "quiet", "verbose", "no-report", "trace"};
    std::vector<value_of_runs> columns;
    for (const compared_run& run : runs)
        for (const auto& [name, value] : run.record.config.items()) {
            if (std::ranges::find(output, name) != std::end(output) ||
                std::ranges::find(columns, name, &value_of_runs::title) != columns.end())
                continue;
            value_of_runs column{name, [name](const compared_run& of) {
                                     const auto found = of.record.config.find(name);
                                     return found == of.record.config.end() ? "" : programs::setting_text(name, *found);
                                 }};
            if (std::ranges::adjacent_find(runs, std::not_equal_to<>(), column.text) != runs.end())
                columns.push_back(std::move(column));
        }
    return table_of(runs, "Flags that differ", columns);
}

/// Returns a box with one line per run; empty if no line leads from one x to another, or all stay at 0.
std::string lines_of(const std::vector<compared_run>& runs, const std::string& title, plot::axis x, plot::axis y,
    const std::function<std::vector<plot::point>(const compared_run&)>& points,
    plot::better best = plot::better::unknown) {
    plot::line_chart chart{.title = title, .x = std::move(x), .y = std::move(y), .lines = {}, .marks = {}};
    bool drawn = false;
    for (const compared_run& run : runs) {
        plot::series line{.name = run.name,
            .points = points(run),
            .style = plot::line_style::solid,
            .color = run.color,
            .best = best};
        if (line.points.empty()) continue;
        drawn |= line.points.front().x < line.points.back().x &&
            std::ranges::any_of(line.points, [](const plot::point& p) { return p.y != 0; });
        chart.lines.push_back(std::move(line));
    }
    return drawn ? page::plot_box(chart) : "";
}

/// Returns a value of the epochs, by epoch or by training seconds.
template <class Value>
auto by_epoch(bool over_time, Value value) {
    return [=](const compared_run& run) {
        std::vector<plot::point> points;
        double seconds = 0;
        for (const epoch_record& epoch : run.record.epochs) {
            seconds += epoch.seconds;
            if (const std::optional<double> y = value(epoch))
                points.push_back({over_time ? seconds : static_cast<double>(epoch.epoch), *y});
        }
        return points;
    };
}

/// Returns a value of the samples; `most` points at most, means of adjacent samples.
template <class T>
auto by_time(T programs::time_sample::* value) {
    return [value](const compared_run& run) {
        constexpr std::size_t most = 120;
        const std::size_t each = run.samples.size() / most + 1;
        std::vector<plot::point> points;
        for (std::size_t from = 0; from < run.samples.size(); from += each) {
            const std::size_t end = std::min(from + each, run.samples.size());
            plot::point mean;
            for (std::size_t i = from; i < end; ++i) {
                mean.x += run.samples[i].seconds / static_cast<double>(end - from);
                mean.y += static_cast<double>(run.samples[i].*value) / static_cast<double>(end - from);
            }
            points.push_back(mean);
        }
        return points;
    };
}

/// Returns the sections of runs of one dataset and task; `about` begins their titles.
std::string sections_of(const std::vector<compared_run>& runs, const std::string& wanted, const std::string& about) {
    const std::string metric = metric_of(runs, wanted);
    const std::string title = programs::metric_title(metric);
    const plot::axis epochs{.label = "epoch", .whole = true},
        training{.label = "training time", .of = quantity::seconds, .from_zero = true},
        time{.label = "time since the start", .of = quantity::seconds, .from_zero = true};
    const auto valid = [&](const epoch_record& epoch) { return value_of(epoch.valid, metric); };
    const auto loss = [](const epoch_record& epoch) { return epoch.loss; };
    const plot::axis share{
        .label = "share of the compute workers' time", .of = quantity::percent, .from_zero = true, .most = 1};
    constexpr auto lower = plot::better::lower;
    const plot::better best = programs::better_of(metric);
    const auto section = [&](const char* name, const std::string& boxes) { return page::section(about + name, boxes); };
    return section("Results", result_table(runs, metric) + difference_table(runs)) +
        section("Learning",
            lines_of(runs, "Validation " + title, epochs, {.label = title}, by_epoch(false, valid), best) +
                lines_of(runs, "Validation " + title + " over time", training, {.label = title}, by_epoch(true, valid),
                    best) +
                lines_of(runs, "Loss", epochs, {.label = "mean loss per example"}, by_epoch(false, loss), lower) +
                lines_of(runs, "Loss over time", training, {.label = "mean loss per example"}, by_epoch(true, loss),
                    lower)) +
        section("Pipeline",
            lines_of(runs, "Compute stage at work", time, share, by_time(&programs::time_sample::busy_share)) +
                lines_of(runs, "Compute stage waiting", time, share, by_time(&programs::time_sample::wait_share)) +
                lines_of(runs, "Evaluation", time,
                    {.label = "share of the time", .of = quantity::percent, .from_zero = true, .most = 1},
                    by_time(&programs::time_sample::evaluate_share))) +
        section("Disk and memory",
            lines_of(runs, "Read from disk", time, {.label = "bandwidth", .of = quantity::bandwidth, .from_zero = true},
                by_time(&programs::time_sample::read_rate)) +
                lines_of(runs, "Written to disk", time,
                    {.label = "bandwidth", .of = quantity::bandwidth, .from_zero = true},
                    by_time(&programs::time_sample::write_rate)) +
                lines_of(runs, "Memory", time, {.label = "resident set", .of = quantity::bytes, .from_zero = true},
                    by_time(&programs::time_sample::rss_bytes)));
}

std::string page_of(const std::vector<compared_run>& runs, const std::string& wanted) {
    std::vector<std::pair<std::string, std::vector<compared_run>>> groups; // in the order of their first runs
    for (const compared_run& run : runs) {
        const std::string subject = subject_of(run.record);
        auto group = std::ranges::find(groups, subject, &decltype(groups)::value_type::first);
        if (group == groups.end()) group = groups.insert(group, {subject, {}});
        group->second.push_back(run);
        group->second.back().color = group->second.size() - 1;
    }
    page::header head{.title = fmt::format("{} runs", runs.size()),
        .heading = fmt::format("{} run{} <span>compared</span>", runs.size(), runs.size() == 1 ? "" : "s")};
    if (groups.size() == 1) head.lines.push_back("<p>" + plot::escaped(groups.front().first) + "</p>");
    for (const compared_run& run : runs) {
        if (!run.record.command.empty()) head.lines.push_back(page::command_line(run.record.command));
        if (run.record.status == programs::run_status::done || run.status == "running") continue;
        head.lines.push_back(fmt::format("<p>{}: {} after {} epochs. This command continues it:</p>",
            plot::escaped(run.name), plot::escaped(run.status), epochs_text(run.record)));
        head.lines.push_back(page::command_line(programs::resume_command(run.record.program, run.path)));
    }
    std::string body;
    for (const auto& [subject, some] : groups)
        body += sections_of(some, wanted, groups.size() == 1 ? "" : subject + ": ");
    return page::document(head, body, fmt::format("Made by gneiss-study {}.", programs::version()));
}

programs::exit_code report(const report_flags& flags) {
    if (!flags.force && fs::exists(fs::symlink_status(flags.out)))
        throw programs::usage_error(
            flags.out.string() + " exists already: choose another --out, or --force to replace it");
    std::vector<compared_run> runs;
    for (const fs::path& run : flags.runs) runs.push_back(read_compared(run));
    for (std::size_t i = 0; i < runs.size(); ++i) // runs of one name are shown by their paths
        if (std::ranges::count(flags.runs, runs[i].name, programs::directory_name) > 1)
            runs[i].name = flags.runs[i].string();
    for (const compared_run& run : runs)
        if (run.record.status != programs::run_status::done)
            programs::print_warning(fmt::format("{}: training has not finished: its results are those of {} epochs",
                run.name, run.record.epochs.size()));
    programs::write_file_atomically(flags.out, page_of(runs, flags.metric));
    programs::print_text("{}\n", flags.out.string());
    return programs::exit_code::done;
}

} // namespace

void add_report(programs::command_line& to) {
    const auto flags = std::make_shared<report_flags>();
    programs::command& command = to.add("report",
        "Writes one page of several runs: results, flags that differ, metrics, loss, waiting, bytes and memory over "
        "time.",
        [flags](programs::command&) { return report(*flags); });
    command.positional("run", flags->runs, "run directories, finished or not");
    command.option("out", flags->out, "page to write").value_name("FILE.html");
    command.option("force", flags->force, "replace an existing page");
    command.option("metric", flags->metric, "metric to compare").default_text("the first of each dataset and task");
    command.example("gneiss-study report runs/memory runs/disk --out compare.html");
}

} // namespace study
