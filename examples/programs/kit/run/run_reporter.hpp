// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kit/run/run_events.hpp"

namespace trainers {

/// Reports of a run to its observer, one at a time. Thread-safe. Throws what the observer throws.
class run_reporter {
public:
    explicit run_reporter(run_events events) : events_(std::move(events)), warnings_(events_.warnings) {}
    run_reporter(const run_reporter&) = delete;
    run_reporter& operator=(const run_reporter&) = delete;
    ~run_reporter() = default;

    /// Begins a phase, unless it is the current one.
    void enter(run_phase phase);
    /// Reports a line about the run, for people.
    void say(const std::string& text);
    /// Reports a warning, and keeps it for the record of the run.
    void warn(const std::string& text);
    /// Reports the plan of the run, and the charges of its components.
    void plan(const programs::plan_record& plan, const std::vector<gneiss::memory_need>& charges);
    /// Reports a concluded epoch.
    void epoch(const programs::epoch_record& record);
    /// Reports the result of `progress` if it is due; does not call `progress` otherwise. Cheap enough for every batch.
    void update(const std::function<progress_report()>& progress);
    /// Reports progress of a step of the current phase, if it is due. \param total  0: unknown
    void step(std::string_view name, std::uint64_t done, std::uint64_t total);

    /// Returns the warnings so far, each once, in the order of their first time.
    [[nodiscard]] std::vector<std::string> warnings() const;

private:
    using clock = std::chrono::steady_clock;

    run_events events_;
    mutable std::mutex mutex_;
    std::vector<std::string> warnings_;
    std::optional<run_phase> phase_; ///< the current one
    clock::time_point next_{};       ///< at which progress is due
};

} // namespace trainers
