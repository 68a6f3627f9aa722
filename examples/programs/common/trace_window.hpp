#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gneiss/core/trace_recorder.hpp>

#include "common/plot.hpp"

namespace programs {

/// Keeps the spans with which a trace begins, as many as a picture can show: the more come, the shorter the window of time.
/// Memory: `most` spans. Not thread-safe.
class trace_window {
public:
    explicit trace_window(std::size_t most = 700) : most_(most) {}

    void add(const std::string& track, const gneiss::recorded_span& span);
    /// A row a track, in the order in which tracks first had a span; seconds since the first span.
    [[nodiscard]] std::vector<plot::timeline_chart::row> rows() const;

private:
    std::size_t most_, held_ = 0;
    std::chrono::nanoseconds end_ = std::chrono::nanoseconds::max(); ///< those that begin from then on are left out
    std::vector<std::string> order_;
    std::map<std::string, std::vector<gneiss::recorded_span>> spans_;
};

} // namespace programs
