#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>

#include "common/command_line.hpp"
#include "common/plot.hpp"
#include "common/run_directory.hpp"
#include "commands.hpp"

namespace {

namespace fs = std::filesystem;
namespace plot = programs::plot;
using nlohmann::ordered_json;

/// What happened in one run, as its timeline.jsonl tells.
struct run_timeline {
    std::string name;
    std::vector<ordered_json> samples;
};

run_timeline read_timeline(const fs::path& run) {
    const fs::path path = run / "timeline.jsonl";
    run_timeline made{.name = fs::path(run / "").parent_path().filename().string(), .samples = {}};
    const std::string text = programs::read_file(path);
    std::size_t line = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        ++line;
        made.samples.push_back(ordered_json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false));
        if (!made.samples.back().is_object())
            throw gneiss::error(gneiss::errc::invalid_format, "line " + std::to_string(line) + " is not a JSON object", {.path = path});
        begin = end + 1;
    }
    return made;
}

struct figure {
    const char* name;  ///< of the file
    const char* title; ///< above it
    const char* key;   ///< of a sample
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
        const std::size_t together = run.samples.size() / 120 + 1; // means of neighbours: a line that can be read
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

} // namespace

/// gneiss-compare: several runs over each other, as Marius' Figures 8 and 13 do: what their compute stages and disks did; and
/// what caches would save, as Ginex' Figure 5.
int main(int argc, char** argv) {
    programs::command_line program("gneiss-compare", "Draws what runs did over time, one over the other, and what caches of rows would read.");
    std::vector<fs::path> runs;
    fs::path out = ".";
    auto& draw = program.add("draw", "Writes busy.svg, waiting.svg, read.svg, written.svg and faults.svg.", [&](programs::command&) {
        std::vector<run_timeline> timelines;
        for (const fs::path& run : runs) timelines.push_back(read_timeline(run));
        fs::create_directories(out);
        for (const figure& f : figures) plot::write_svg(out / (std::string(f.name) + ".svg"), chart_of(f, timelines));
        return programs::exit_code::done;
    });
    draw.positional("run", runs, "directories of runs; a line is named as its directory");
    draw.option("out", out, "directory of the figures").value_name("DIR").default_text("here");
    compare::add_caches(program);
    compare::add_runs(program);
    compare::add_grem(program);
    return program.run(argc, argv);
}
