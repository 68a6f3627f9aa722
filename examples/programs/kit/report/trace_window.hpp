// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gneiss/core/trace_recorder.hpp>

#include "kit/report/plot.hpp"

namespace programs {

/// The first spans of a trace, up to the number that a plot can show: the denser the spans, the shorter the time
/// window.
/// Memory: `most` spans. Not thread-safe.
class trace_window {
public:
    explicit trace_window(std::size_t most = 700) : most_(most) {}

    void add(const std::string& track, const gneiss::recorded_span& span);
    /// Returns one row per track, ordered by first span; seconds since the first span.
    [[nodiscard]] std::vector<plot::timeline_chart::row> rows() const;

private:
    std::size_t most_, held_ = 0;
    std::chrono::nanoseconds end_ = std::chrono::nanoseconds::max(); ///< spans that begin at or after this are left out
    std::vector<std::string> order_;
    std::map<std::string, std::vector<gneiss::recorded_span>> spans_;
};

} // namespace programs
