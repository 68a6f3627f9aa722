// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>

#include "commands.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/report/statistics.hpp"
#include "study.hpp"

namespace study {
namespace {

namespace fs = std::filesystem;
namespace plot = programs::plot;
using nlohmann::ordered_json;

struct curves_flags {
    std::vector<fs::path> logs{};
    std::string y = "test", metric{}, x_label{}, title{};
    bool log_x = false;
    std::optional<fs::path> out{};
};

/// Returns the value of a run in a log for `--y`. Absent if it has none.
std::optional<double> value_of(const ordered_json& line, const curves_flags& flags) {
    const ordered_json& epoch = line.at("epoch");
    const double seconds = epoch.value("seconds", 0.0);
    if (flags.y == "test") return test_metric(line, flags.metric);
    if (flags.y == "seconds") return seconds;
    if (flags.y == "rate") return seconds > 0 ? std::optional(epoch.value("examples", 0.0) / seconds) : std::nullopt;
    if (flags.y == "moved") return epoch.value("read_bytes", 0.0) + epoch.value("write_bytes", 0.0);
    return line.at("peak_rss_bytes").get<double>();
}

plot::axis axis_of(const curves_flags& flags) {
    if (flags.y == "test") return {.label = flags.metric.empty() ? "test metric" : "test " + flags.metric};
    if (flags.y == "seconds") return {.label = "time per epoch", .of = plot::quantity::seconds, .from_zero = true};
    if (flags.y == "rate") return {.label = "examples per second", .of = plot::quantity::count, .from_zero = true};
    if (flags.y == "moved")
        return {.label = "read and written per epoch", .of = plot::quantity::bytes, .from_zero = true};
    return {.label = "peak memory", .of = plot::quantity::bytes, .from_zero = true};
}

/// Splits a case's name at the last " @ " into line and position.
std::optional<std::pair<std::string, double>> place_of(const std::string& name) {
    const std::size_t at = name.rfind(" @ ");
    if (at == std::string::npos) return std::nullopt;
    double x = 0;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + at + 3, end, x);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return std::pair(name.substr(0, at), x);
}

programs::exit_code curves(const curves_flags& flags) {
    std::vector<std::string> names; // in order of appearance
    std::map<std::string, std::map<double, std::vector<double>>> values;
    for (const fs::path& file : flags.logs) {
        const std::vector<ordered_json> lines = programs::read_json_lines(file);
        for (std::size_t i = 0; i < lines.size(); ++i) try {
                const auto place = place_of(lines[i].at("case").get<std::string>());
                if (!place) continue;
                const std::optional<double> value = value_of(lines[i], flags);
                if (!value) continue;
                if (std::ranges::find(names, place->first) == names.end()) names.push_back(place->first);
                values[place->first][place->second].push_back(*value);
            } catch (const nlohmann::json::exception&) {
                throw gneiss::error(
                    gneiss::errc::invalid_format, "is not a run of a study", {.path = file, .line = i + 1});
            }
    }
    if (names.empty())
        throw gneiss::error(
            gneiss::errc::not_found, "no case is named 'LINE @ X' and has such a value", {.path = flags.logs.front()});

    plot::line_chart chart{
        .title = flags.title, .x = {.label = flags.x_label, .log = flags.log_x}, .y = {}, .lines = {}};
    chart.y = axis_of(flags);
    programs::table table(
        {{"line", programs::align::left}, {flags.x_label.empty() ? "x" : flags.x_label}, {"runs"}, {chart.y.label}});
    for (const std::string& name : names) {
        plot::series line{.name = name};
        for (const auto& [x, seen] : values[name]) {
            const programs::estimate mean = programs::estimate_mean(seen);
            line.points.push_back({x, mean.mean});
            const bool exact = flags.y == "test";
            table.add({name, fmt::format("{}", x), std::to_string(mean.count),
                exact ? programs::to_text(mean) : plot::text_of(mean.mean, chart.y.of)});
        }
        chart.lines.push_back(std::move(line));
    }
    if (flags.out) plot::write_svg(*flags.out, chart);
    programs::print_text(table.str());
    return programs::exit_code::done;
}

} // namespace

void add_curves(programs::command_line& to) {
    const auto flags = std::make_shared<curves_flags>();
    programs::command& command = to.add("curves", "Plots results of a study: a line for all cases 'LINE @ X'.",
        [flags](programs::command&) { return curves(*flags); });
    command.positional("log", flags->logs, "log of 'gneiss-study runs --log'");
    command
        .option("y", flags->y,
            "plotted value: test metric; seconds, examples per second or bytes moved of an epoch; peak memory")
        .choices({"test", "seconds", "rate", "moved", "memory"});
    command.option("metric", flags->metric, "metric of the test split").default_text("accuracy or mrr");
    command.option("x-label", flags->x_label, "label of X").value_name("TEXT");
    command.option("title", flags->title, "title of the chart").value_name("TEXT");
    command.option("log-x", flags->log_x, "logarithmic x axis; X must be above 0");
    command.option("out", flags->out, "chart to write, its values beside it as CSV").value_name("FILE.svg");
    command.example("gneiss-study curves runs.jsonl --y seconds --out seconds.svg");
}

} // namespace study
