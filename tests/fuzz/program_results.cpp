#include "fuzz/target.hpp"

#include <algorithm>
#include <string>

#include "kit/report/report.hpp"
#include "kit/report/run_directory.hpp"

namespace test_fuzz_program_results {

using namespace gneiss;

/// run.json, in every page and table that programs make of it.
GNEISS_FUZZ_TARGET("program_results", bytes) {
    programs::run_record run;
    nlohmann::ordered_json read;
    if (!fuzz::accepted([&] { read = programs::parse_json(fuzz::text_of(bytes), "run.json"); })) return;
    // Callers name the file in place of a message of the parser.
    if (!fuzz::accepted<nlohmann::json::exception>([&] { run = programs::run_from_json(read); })) return;
    fuzz::property(programs::report_html({.run = run}).size() < (4 << 20), "a page is small");
    fuzz::property(
        programs::summary_text(run).find('\x1b') == std::string::npos, "a summary does not control a terminal");
    (void)programs::best_epoch(run);
    const auto written = programs::to_json(run);
    programs::run_record again;
    fuzz::property(fuzz::accepted<nlohmann::json::exception>([&] { again = programs::run_from_json(written); }),
        "a written record is read");
}

} // namespace test_fuzz_program_results
