#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/trace_recorder.hpp>

#include "common/terminal.hpp"
#include "common/trace_window.hpp"
#include "common/training/options.hpp"

namespace trainers {

/// Whether the file of --trace can be made, asked before anything is done. A file that is there stays as it is.
/// Throws io_error. One that is to lie in the run's own directory is not looked at.
void check_trace(const run_options& flags);

/// The trace of a run, and its beginning for the report. Made once the run's directory is there; what records in it goes before it.
class run_trace {
public:
    /// Throws io_error.
    run_trace(const std::filesystem::path& file, const std::string& program)
        : recorder_(file, {.process = program, .on_span = [this](const std::string& track, const gneiss::recorded_span& span) { window_.add(track, span); }}) {}

    [[nodiscard]] gneiss::trace_recorder& recorder() noexcept { return recorder_; }
    /// The beginning. Precondition: training has ended.
    [[nodiscard]] std::vector<programs::plot::timeline_chart::row> beginning();
    /// Ends the file, and says where the disk did not take all of it.
    void close(programs::progress& live);

private:
    programs::trace_window window_; // before the recorder, which writes to it
    gneiss::trace_recorder recorder_;
};

} // namespace trainers
