#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/plot.hpp"
#include "common/records.hpp"
#include "common/sampler.hpp"

namespace programs {

/// Where the threads of a stage spent their time [s].
struct stage_time {
    std::string name{};
    double work = 0;
    double wait_for_input = 0, wait_for_update = 0, wait_for_room = 0; ///< for the stage before, for staleness, for the stage behind
};

/// What a report shows beyond `run.json`.
struct report_data {
    run_record run{};
    std::vector<time_sample> samples{};     ///< of this process; a resumed run shows the part since then
    std::vector<stage_time> stages{};       ///< of this process
    std::vector<plot::timeline_chart::row> timeline{}; ///< how its trace begins, where there is one
    std::vector<std::uint64_t> staleness{}; ///< [s] = rows updated s batches after they were read
    /// Further tables under titles of their own: rows of name and value.
    std::vector<std::pair<std::string, named<std::string>>> tables{};
};

/// A self-contained page (no script, no other file): summary, plots, tables. What was not measured is left out.
/// O(epochs) text, but plots hold at most a few hundred points each.
[[nodiscard]] std::string report_html(const report_data& data);

/// The table a run ends with on stdout: stage times, I/O, hit rate, metrics. ASCII.
[[nodiscard]] std::string summary_text(const run_record& run);

} // namespace programs
