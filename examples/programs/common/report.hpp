#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/plot.hpp"
#include "common/records.hpp"
#include "common/sampler.hpp"

namespace programs {

/// Time of a stage's threads by activity [s].
struct stage_time {
    std::string name{};
    double work = 0;
    double wait_for_input = 0, wait_for_update = 0, wait_for_room = 0; ///< on the previous stage; staleness; the next stage
};

/// Contents of a report beyond `run.json`.
struct report_data {
    run_record run{};
    std::vector<time_sample> samples{};     ///< this process; for a resumed run, the part since the resume
    std::vector<stage_time> stages{};       ///< this process
    std::vector<plot::timeline_chart::row> timeline{}; ///< the beginning of its trace, if any
    std::vector<std::uint64_t> staleness{}; ///< [s] = rows updated s batches after they were read
    /// Further tables with titles: rows of name and value.
    std::vector<std::pair<std::string, named<std::string>>> tables{};
};

/// Returns a self-contained page (no script, no other file): summary, plots, tables. Values that were not measured are left
/// out. O(epochs) text, but plots hold at most a few hundred points each.
[[nodiscard]] std::string report_html(const report_data& data);

/// Returns the table printed on stdout at the end of a run: stage times, I/O, hit rate, metrics. ASCII.
[[nodiscard]] std::string summary_text(const run_record& run);

} // namespace programs
