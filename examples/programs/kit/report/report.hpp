// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kit/cli/process_sampler.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"

namespace programs {

/// Time of a stage's threads by activity [s].
struct stage_time {
    std::string name{};
    double work = 0;
    double wait_for_input = 0, wait_for_update = 0,
           wait_for_room = 0; ///< on the previous stage; staleness; the next stage
};

/// Progress of a run that is not finished: in progress, or interrupted.
struct run_progress {
    std::string activity{};              ///< "training", "validation", …
    std::uint64_t epoch = 0, epochs = 0; ///< the current one, from 1; all
    double done = 0;                     ///< share of the epoch's training
    std::optional<double> loss{};        ///< mean of the epoch so far
    std::string left{};                  ///< estimated time
    std::string resume{};                ///< command that continues the run
    std::int64_t written = 0;            ///< time of this page [s since 1970, UTC]
};

/// Contents of a report beyond `run.json`.
struct report_data {
    run_record run{};
    std::optional<run_progress> progress{};            ///< of a run that is not finished
    std::vector<time_sample> samples{};                ///< this process; for a resumed run, the part since the resume
    std::vector<stage_time> stages{};                  ///< this process
    std::vector<plot::timeline_chart::row> timeline{}; ///< the beginning of its trace, if any
    std::vector<std::uint64_t> staleness{};            ///< [s] = rows updated s batches after they were read
    /// Further tables with titles: rows of name and value.
    std::vector<std::pair<std::string, named<std::string>>> tables{};
};

/// Returns a self-contained page (no other file): summary, plots, tables. Values that were not measured are left out,
/// and so are plots without a value. O(epochs) text, but plots hold at most a few hundred points each. The page of a
/// run in progress has a script, which loads it again every `report_seconds` and keeps its place, or says since when
/// nothing came.
[[nodiscard]] std::string report_html(const report_data& data);

/// Returns the name of a metric for display: "MRR", "Hits@10", "Accuracy".
[[nodiscard]] std::string metric_title(const std::string& name);

/// Returns the better end of a metric.
[[nodiscard]] plot::better better_of(const std::string& metric);

/// Formats a flag's value for display: a size with its unit, a list with blanks between its values.
[[nodiscard]] std::string setting_text(const std::string& flag, const nlohmann::ordered_json& value);

/// Formats a time [s since 1970, UTC] as "2026-11-29 10:20:30 UTC".
[[nodiscard]] std::string utc_text(std::int64_t time);

/// Time between two pages of a run in progress.
constexpr int report_seconds = 10;

/// Returns the table printed on stdout at the end of a run: stage times, I/O, hit rate, metrics. ASCII.
[[nodiscard]] std::string summary_text(const run_record& run);

} // namespace programs
