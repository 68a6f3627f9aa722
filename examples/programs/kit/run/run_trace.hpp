// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/trace_recorder.hpp>

#include "kit/report/trace_window.hpp"
#include "kit/run/options.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// Checks that the file of --trace can be created, before any other work. Leaves an existing file unchanged. Throws
/// io_error. Skips a file in the run's own directory.
void check_trace(const run_options& flags);

/// The trace of a run, and its beginning for the report. Created after the run's directory; destroyed after everything
/// that records in it.
class run_trace {
public:
    /// Throws io_error.
    run_trace(const std::filesystem::path& file, const std::string& program)
        : recorder_(file,
              {.process = program, .on_span = [this](const std::string& track, const gneiss::recorded_span& span) {
                   window_.add(track, span);
               }}) {}

    [[nodiscard]] gneiss::trace_recorder& recorder() noexcept { return recorder_; }
    /// Returns the beginning. Precondition: training has ended.
    [[nodiscard]] std::vector<programs::plot::timeline_chart::row> beginning();
    /// Closes the file, and reports if the disk could not take all of it.
    void close(run_reporter& live);

private:
    programs::trace_window window_; // before the recorder, which writes to it
    gneiss::trace_recorder recorder_;
};

} // namespace trainers
