// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
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

struct report_flags {
    std::vector<fs::path> runs{};
    fs::path out = "compare.html";
    std::string metric{};
    bool force = false;
};

struct compared_run {
    std::string name;
    run_record record;
    std::vector<programs::time_sample> samples;
};

/// Reads a run: run.json, or metrics.jsonl of a run that is not finished, and timeline.jsonl if there is one. Throws
/// errc::not_found, errc::corrupt.
compared_run read_compared(const fs::path& path) {
    const programs::run_directory directory = programs::run_directory::open_existing(path);
    compared_run run{.name = programs::directory_name(path),
        .record = {},
        .samples = directory.timeline_before(std::numeric_limits<double>::max())};
    const fs::path file = path / programs::result_name, metrics = path / programs::metrics_name;
    const std::optional<ordered_json> result = directory.result();
    try {
        if (result) {
            run.record = programs::run_from_json(*result);
            return run;
        }
        run.record.status = programs::run_status::running;
        if (fs::exists(metrics))
            for (const ordered_json& line : programs::read_json_lines(metrics)) {
                run.record.epochs.push_back(programs::epoch_from_json(line));
                run.record.seconds += run.record.epochs.back().seconds +
                    run.record.epochs.back().evaluation.value_or(programs::evaluation_record{}).seconds;
            }
    } catch (const nlohmann::json::exception& e) {
        throw gneiss::error(gneiss::errc::corrupt, e.what(), {.path = result ? file : metrics});
    } catch (const gneiss::error& e) {
        if (!e.place().path.empty()) throw;
        throw gneiss::error(e.code(), e.what(), {.path = result ? file : metrics});
    }
    return run;
}

/// Returns the name of the first validation metric of a run, or `wanted`.
std::string metric_of(const run_record& run, const std::string& wanted) {
    if (!wanted.empty()) return wanted;
    for (const epoch_record& epoch : run.epochs)
        if (!epoch.valid.empty()) return epoch.valid.front().first;
    return run.test.empty() ? "" : run.test.front().first;
}

std::optional<double> value_of(const programs::metric_values& values, const std::string& name) {
    const auto found = std::ranges::find(values, name, &std::pair<std::string, double>::first);
    return found == values.end() ? std::nullopt : std::optional(found->second);
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

/// Tabulates one value of each run: its title, then a value by run.
struct row_of_runs {
    std::string title;
    std::function<std::string(const run_record&)> text;
};

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
    const row_of_runs rows[] = {
        {"status", [](const run_record& run) { return std::string(name_of(run.status)); }},
        {"program", [](const run_record& run) { return run.program; }},
        {"dataset", [](const run_record& run) { return run.dataset.name; }},
        {"epochs", [](const run_record& run) { return fmt::format("{}", run.epochs.size()); }},
        {"loss",
            [](const run_record& run) {
                return run.epochs.empty() || !run.epochs.back().loss ? ""
                                                                     : fmt::format("{:.4f}", *run.epochs.back().loss);
            }},
        {"best epoch",
            [&](const run_record& run) {
                const auto* best = best_by(run, metric);
                return best == nullptr ? "" : fmt::format("{}", best->epoch);
            }},
        {"validation " + title,
            [&](const run_record& run) {
                const auto* best = best_by(run, metric);
                return best == nullptr ? "" : number(value_of(best->valid, metric));
            }},
        {"test " + title, [&](const run_record& run) { return number(value_of(run.test, metric)); }},
        {"training", [](const run_record& run) { return programs::human_seconds(training_seconds(run)); }},
        {"evaluation",
            [](const run_record& run) {
                return run.evaluation ? programs::human_seconds(run.evaluation->seconds) : std::string();
            }},
        {"all", [](const run_record& run) { return programs::human_seconds(run.seconds); }},
        {"read per epoch", [&](const run_record& run) { return mean(run, &epoch_record::read_bytes); }},
        {"peak memory",
            [](const run_record& run) {
                return run.peak_rss_bytes == 0 ? "" : gneiss::format_bytes(run.peak_rss_bytes);
            }},
        {"budget",
            [](const run_record& run) {
                return run.plan.budget_bytes ? gneiss::format_bytes(*run.plan.budget_bytes) : std::string();
            }},
    };
    std::vector<std::vector<cell>> table{{{"run"}}};
    for (std::size_t i = 0; i < runs.size(); ++i) table.front().push_back({runs[i].name, plot::color(i), true});
    for (const row_of_runs& row : rows) {
        if (std::ranges::all_of(runs, [&](const compared_run& run) { return row.text(run.record).empty(); })) continue;
        table.push_back({{row.title}});
        for (const compared_run& run : runs) table.back().push_back({row.text(run.record), "", true});
    }
    return page::table_box("Runs", page::table({}, table));
}

/// Tabulates the flags in which runs differ.
std::string difference_table(const std::vector<compared_run>& runs) {
    std::vector<std::string> titles{"flag"}, names;
    for (const compared_run& run : runs) {
        if (!run.record.config.empty()) titles.push_back(run.name);
        for (const auto& [name, value] : run.record.config.items())
            if (name != "out" && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    std::vector<std::vector<cell>> rows;
    for (const std::string& name : names) {
        std::vector<cell> row{{name}};
        for (const compared_run& run : runs) {
            if (run.record.config.empty()) continue; // not finished: its flags are in config.toml alone
            const auto value = run.record.config.find(name);
            row.push_back({value == run.record.config.end() ? ""
                    : value->is_string()                    ? value->get<std::string>()
                                         : value->dump(-1, ' ', false, ordered_json::error_handler_t::replace),
                "", true});
        }
        if (std::ranges::adjacent_find(row.begin() + 1, row.end(), std::not_equal_to<>(), &cell::text) != row.end())
            rows.push_back(std::move(row));
    }
    return rows.empty() ? "" : page::table_box("Flags that differ", page::table(titles, rows));
}

/// Returns a box with one line per run; empty if no line leads from one x to another, or all stay at 0.
std::string lines_of(const std::vector<compared_run>& runs, const std::string& title, plot::axis x, plot::axis y,
    const std::function<std::vector<plot::point>(const compared_run&)>& points) {
    plot::line_chart chart{.title = title, .x = std::move(x), .y = std::move(y), .lines = {}, .marks = {}};
    bool drawn = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        plot::series line{
            .name = runs[i].name, .points = points(runs[i]), .style = plot::line_style::solid, .color = i};
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

std::string page_of(const std::vector<compared_run>& runs, const std::string& wanted) {
    const std::string metric = metric_of(runs.front().record, wanted);
    const std::string title = programs::metric_title(metric);
    const plot::axis epochs{.label = "epoch", .whole = true},
        training{.label = "training time", .of = quantity::seconds, .from_zero = true},
        time{.label = "time since the start", .of = quantity::seconds, .from_zero = true};
    const auto valid = [&](const epoch_record& epoch) { return value_of(epoch.valid, metric); };
    const auto loss = [](const epoch_record& epoch) { return epoch.loss; };
    const plot::axis share{
        .label = "share of the compute workers' time", .of = quantity::percent, .from_zero = true, .most = 1};
    std::string body = page::section("Results", result_table(runs, metric) + difference_table(runs));
    body += page::section("Learning",
        lines_of(runs, "Validation " + title, epochs, {.label = title}, by_epoch(false, valid)) +
            lines_of(runs, "Validation " + title + " over time", training, {.label = title}, by_epoch(true, valid)) +
            lines_of(runs, "Loss", epochs, {.label = "mean loss per example"}, by_epoch(false, loss)) +
            lines_of(runs, "Loss over time", training, {.label = "mean loss per example"}, by_epoch(true, loss)));
    body += page::section("Pipeline",
        lines_of(runs, "Compute stage at work", time, share, by_time(&programs::time_sample::busy_share)) +
            lines_of(runs, "Compute stage waiting", time, share, by_time(&programs::time_sample::wait_share)) +
            lines_of(runs, "Evaluation", time,
                {.label = "share of the time", .of = quantity::percent, .from_zero = true, .most = 1},
                by_time(&programs::time_sample::evaluate_share)));
    body += page::section("Disk and memory",
        lines_of(runs, "Read from disk", time, {.label = "bandwidth", .of = quantity::bandwidth, .from_zero = true},
            by_time(&programs::time_sample::read_rate)) +
            lines_of(runs, "Written to disk", time,
                {.label = "bandwidth", .of = quantity::bandwidth, .from_zero = true},
                by_time(&programs::time_sample::write_rate)) +
            lines_of(runs, "Memory", time, {.label = "resident set", .of = quantity::memory, .from_zero = true},
                by_time(&programs::time_sample::rss_bytes)));
    page::header head{.title = fmt::format("{} runs", runs.size()),
        .heading = fmt::format("{} run{} <span>compared</span>", runs.size(), runs.size() == 1 ? "" : "s")};
    for (const compared_run& run : runs)
        if (!run.record.command.empty()) head.lines.push_back(page::command_line(run.record.command));
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
    command.option("metric", flags->metric, "metric to compare").default_text("the first run's first");
    command.example("gneiss-study report runs/memory runs/disk --out compare.html");
}

} // namespace study
