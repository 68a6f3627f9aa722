#include "fuzz/target.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>

#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include <support/temporary_directory.hpp>

#include "kit/report/plot.hpp"
#include "kit/report/run_directory.hpp"

namespace test_fuzz_program_runs {

using namespace gneiss;

/// Logs of a resumed run: the lines that are kept can be read again.
static void read_logs(std::string_view metrics, std::string_view result) {
    static const test::temporary_directory at;
    const std::filesystem::path run = at / "run";
    std::filesystem::create_directories(run);
    plain_file::create(run / "metrics.jsonl").write_at(0, std::as_bytes(std::span(metrics)));
    plain_file::create(run / "run.json").write_at(0, std::as_bytes(std::span(result)));
    (void)plain_file::create(run / directory_mark); // by the trainer
    const auto directory = programs::run_directory::open("fuzz", "data", run, programs::existing_run::resume);
    (void)fuzz::accepted([&] { (void)directory.finished_result(); });
    std::vector<programs::epoch_record> kept, again;
    if (!fuzz::accepted([&] { kept = directory.keep_metrics_before(100); })) return;
    fuzz::property(std::ranges::all_of(kept, [](const programs::epoch_record& e) { return e.epoch < 100; }),
        "later epochs are removed");
    fuzz::property(fuzz::accepted([&] { again = directory.keep_metrics_before(100); }) && again.size() == kept.size(),
        "kept lines are read");
    fuzz::property(programs::read_json_lines(run / "metrics.jsonl").size() == kept.size(), "one line per epoch");
}

/// Checks that charts of any numbers have a bounded number of ticks.
static void draw(fuzz::input bytes) {
    namespace plot = programs::plot;
    const auto what = fuzz::take<std::uint8_t>(bytes);
    constexpr plot::quantity units[] = {plot::quantity::number, plot::quantity::count, plot::quantity::bytes,
        plot::quantity::bandwidth, plot::quantity::seconds, plot::quantity::percent, plot::quantity::number};
    plot::line_chart chart{.title = "any",
        .x = {.of = units[what % 8], .from_zero = (what & 8) != 0, .log = (what & 16) != 0},
        .y = {.of = units[what / 32], .from_zero = (what & 8) == 0},
        .lines = {{.name = "line"}}};
    while (bytes.size() >= 16 && chart.lines[0].points.size() < 50) {
        const auto x = fuzz::take<std::uint64_t>(bytes), y = fuzz::take<std::uint64_t>(bytes);
        chart.lines[0].points.push_back({std::bit_cast<double>(x), std::bit_cast<double>(y)});
    }
    std::ranges::sort(chart.lines[0].points,
        [](const plot::point& a, const plot::point& b) { return a.x < b.x || (std::isnan(b.x) && !std::isnan(a.x)); });
    fuzz::property(plot::svg(chart).size() < (1 << 20), "a chart is small");
}

GNEISS_FUZZ_TARGET("program_runs", bytes) {
    const std::string_view text = fuzz::text_of(bytes);
    const std::size_t end = std::min(text.find("\n=\n"), text.size());
    read_logs(text.substr(0, end), text.substr(std::min(end + 3, text.size())));
    draw(bytes);
}

} // namespace test_fuzz_program_runs
