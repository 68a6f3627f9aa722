// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kit/cli/terminal.hpp"

namespace programs {

/// A live progress line of work in phases: the phase, its progress, the remaining time, and memory. A phase begins with
/// its first report. One thread reports at a time.
class phase_progress {
public:
    /// \param to  outlives this
    explicit phase_progress(progress& to) : line_(to) {}
    /// \param total    in the unit of `done`; 0: unknown
    /// \param details  text after the phase, made if the line is shown; empty: none
    void operator()(std::string_view phase, std::uint64_t done, std::uint64_t total,
        const std::function<std::string()>& details = {});

private:
    progress& line_;
    std::string phase_;
    std::chrono::steady_clock::time_point began_{};
};

} // namespace programs
