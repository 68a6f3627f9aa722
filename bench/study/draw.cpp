// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"

namespace study {
namespace {

namespace fs = std::filesystem;
namespace plot = programs::plot;
using nlohmann::ordered_json;

struct draw_flags {
    std::vector<fs::path> runs{};
    fs::path out = ".";
    std::string metric{};
    bool json = false;
};

/// Samples and epochs of one run, from its timeline.jsonl and metrics.jsonl.
struct run_timeline {
    std::string name;
    std::vector<ordered_json> samples, epochs;
};

/// Returns the lines of a file, checking that values of these keys are numbers. Throws errc::corrupt with the line.
std::vector<ordered_json> read_numbers(const fs::path& file, std::span<const char* const> keys) {
    std::vector<ordered_json> lines = programs::read_json_lines(file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        for (const char* key : keys)
            if (lines[i].contains(key) && !lines[i].at(key).is_number())
                throw gneiss::error(
                    gneiss::errc::corrupt, "is not a number", {.path = file, .line = i + 1, .field = key});
        if (lines[i].contains("valid") && !lines[i].at("valid").is_object())
            throw gneiss::error(
                gneiss::errc::corrupt, "is not an object", {.path = file, .line = i + 1, .field = "valid"});
    }
    return lines;
}

run_timeline read_run(const fs::path& run) {
    constexpr const char* of_sample[] = {
        "seconds", "busy_share", "wait_share", "read_rate", "write_rate", "fault_rate"};
    return {programs::directory_name(run), read_numbers(run / programs::timeline_name, of_sample),
        read_numbers(run / programs::metrics_name, std::span(of_sample).first(1))};
}

struct figure {
    const char* name;  ///< file name
    const char* title; ///< title of the plot
    const char* key;   ///< key in a sample
    plot::quantity of;
};
constexpr figure figures[] = {
    {"busy", "Compute stage at work, share of its time", "busy_share", plot::quantity::percent},
    {"waiting", "Compute stage waiting, share of its time", "wait_share", plot::quantity::percent},
    {"read", "Read from disk", "read_rate", plot::quantity::bandwidth},
    {"written", "Written to disk", "write_rate", plot::quantity::bandwidth},
    {"faults", "Pages touched that were not in the page cache, a second", "fault_rate", plot::quantity::count},
};

plot::line_chart chart_of(const figure& f, const std::vector<run_timeline>& runs) {
    plot::line_chart chart{.title = f.title,
        .x = {.label = "time since the start", .of = plot::quantity::seconds, .from_zero = true},
        .y = {.of = f.of, .from_zero = true},
        .lines = {}};
    if (f.of == plot::quantity::percent) chart.y.most = 1;
    for (const run_timeline& run : runs) {
        plot::series line{.name = run.name};
        const std::size_t together = run.samples.size() / 120 + 1; // means of adjacent samples keep the line readable
        for (std::size_t i = 0; i < run.samples.size(); i += together) {
            plot::point mean;
            const std::size_t end = std::min(i + together, run.samples.size());
            for (std::size_t k = i; k < end; ++k) {
                mean.x += run.samples[k].value("seconds", 0.0) / static_cast<double>(end - i);
                mean.y += run.samples[k].value(f.key, 0.0) / static_cast<double>(end - i);
            }
            line.points.push_back(mean);
        }
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

/// Returns the validation metric of a run: the given one, or its first.
std::string metric_of(const run_timeline& run, const std::string& wanted) {
    for (const ordered_json& epoch : run.epochs) {
        const ordered_json valid = epoch.value("valid", ordered_json::object());
        for (const auto& [name, ignored] : valid.items())
            if (wanted.empty() || name == wanted) return name;
    }
    return wanted;
}

/// Returns a value of a run's epochs over cumulative training seconds.
std::vector<plot::point> course_of(const run_timeline& run, auto&& value) {
    std::vector<plot::point> run_loop;
    double seconds = 0;
    for (const ordered_json& epoch : run.epochs) {
        seconds += epoch.value("seconds", 0.0);
        if (const std::optional<double> y = value(epoch)) run_loop.push_back({seconds, *y});
    }
    return run_loop;
}

/// Validation and loss of a run over its seconds.
struct convergence {
    std::string name, metric;
    std::vector<plot::point> valid, loss;
};

convergence convergence_of(const run_timeline& run, const std::string& wanted) {
    const std::string metric = metric_of(run, wanted);
    const auto number = [](const ordered_json& object, const std::string& key) {
        return object.contains(key) && object.at(key).is_number() ? std::optional(object.at(key).get<double>())
                                                                  : std::nullopt;
    };
    return {run.name, metric,
        course_of(run,
            [&](const ordered_json& epoch) { return number(epoch.value("valid", ordered_json::object()), metric); }),
        course_of(run, [&](const ordered_json& epoch) { return number(epoch, "loss"); })};
}

/// Plots the curves; nothing if no run has such values.
void draw_course(const fs::path& file, const std::vector<convergence>& runs, const std::string& title,
    std::vector<plot::point> convergence::* of) {
    plot::line_chart chart{.title = title,
        .x = {.label = "training time", .of = plot::quantity::seconds, .from_zero = true},
        .y = {},
        .lines = {}};
    for (const convergence& run : runs) chart.lines.push_back({.name = run.name, .points = run.*of});
    if (std::ranges::any_of(chart.lines, [](const plot::series& line) { return !line.points.empty(); }))
        plot::write_svg(file, chart);
}

programs::exit_code draw(const draw_flags& flags) {
    std::vector<run_timeline> timelines;
    std::vector<convergence> courses;
    for (const fs::path& run : flags.runs) {
        timelines.push_back(read_run(run));
        courses.push_back(convergence_of(timelines.back(), flags.metric));
    }
    gneiss::make_directories(flags.out);
    for (const figure& f : figures) plot::write_svg(flags.out / (std::string(f.name) + ".svg"), chart_of(f, timelines));
    const auto found = std::ranges::find_if(courses, [](const convergence& run) { return !run.valid.empty(); });
    draw_course(flags.out / "valid.svg", courses,
        fmt::format("Validation: {}", found == courses.end() ? "" : found->metric), &convergence::valid);
    draw_course(flags.out / "loss.svg", courses, "Training loss", &convergence::loss);

    ordered_json list = ordered_json::array();
    programs::table table({{"run", programs::align::left}, {"epochs"}, {"trained for"}, {"loss"},
        {"metric", programs::align::left}, {"best"}, {"after"}});
    for (std::size_t i = 0; i < courses.size(); ++i) {
        const convergence& run = courses[i];
        ordered_json object{{"run", run.name}, {"epochs", timelines[i].epochs.size()}};
        std::vector<std::string> cells{run.name, std::to_string(timelines[i].epochs.size())};
        cells.push_back(run.loss.empty() ? "" : programs::human_seconds(run.loss.back().x));
        cells.push_back(run.loss.empty() ? "" : fmt::format("{:.4f}", run.loss.back().y));
        if (!run.loss.empty()) object.update({{"seconds", run.loss.back().x}, {"loss", run.loss.back().y}});
        if (!run.valid.empty()) {
            const auto best = std::ranges::max_element(run.valid, [&](const plot::point& a, const plot::point& b) {
                return programs::metric_order::better(run.metric, b.y, a.y);
            });
            object.update({{"metric", run.metric}, {"best", best->y}, {"best_seconds", best->x}});
            for (const std::string& cell :
                {run.metric, fmt::format("{:.4f}", best->y), programs::human_seconds(best->x)})
                cells.push_back(cell);
        }
        list.push_back(std::move(object));
        table.add(std::move(cells));
    }
    if (flags.json)
        programs::print_json_line(ordered_json{{"runs", list}});
    else
        programs::print_text(table.str());
    return programs::exit_code::done;
}

} // namespace

void add_draw(programs::command_line& to) {
    const auto flags = std::make_shared<draw_flags>();
    programs::command& command = to.add("draw",
        "Plots several runs together: busy, waiting, read, written and faults over time, valid and loss over training "
        "time.",
        [flags](programs::command&) { return draw(*flags); });
    command.positional("run", flags->runs, "run directories, which name the lines");
    command.option("out", flags->out, "output directory of the figures, SVG and CSV")
        .value_name("DIR")
        .default_text("here");
    command.option("metric", flags->metric, "validation metric in valid.svg").default_text("each run's first");
    command.option("json", flags->json, "print the table as one JSON object");
    command.example("gneiss-study draw runs/memory runs/disk --out figures");
}

} // namespace study
