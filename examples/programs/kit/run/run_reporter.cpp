// SPDX-License-Identifier: Apache-2.0
#include "kit/run/run_reporter.hpp"

#include <algorithm>

namespace trainers {

const char* name_of(run_phase phase) noexcept {
    switch (phase) {
    case run_phase::planning: return "planning";
    case run_phase::preparing: return "preparing";
    case run_phase::training: return "training";
    case run_phase::validation: return "validation";
    case run_phase::test: return "test";
    }
    return "";
}

void run_reporter::enter(run_phase phase) {
    const std::scoped_lock lock(mutex_);
    if (phase == phase_) return;
    phase_ = phase;
    next_ = {};
    if (events_.on_phase) events_.on_phase(phase);
}

void run_reporter::say(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (events_.on_message) events_.on_message(text);
}

void run_reporter::warn(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(text);
    if (events_.on_warning) events_.on_warning(text);
}

void run_reporter::plan(const programs::plan_record& plan, const std::vector<gneiss::memory_need>& charges) {
    const std::scoped_lock lock(mutex_);
    if (events_.on_plan) events_.on_plan(plan, charges);
}

void run_reporter::epoch(const programs::epoch_record& record) {
    const std::scoped_lock lock(mutex_);
    if (events_.on_epoch) events_.on_epoch(record);
}

void run_reporter::update(const std::function<progress_report()>& progress) {
    if (!events_.on_progress) return;
    const std::scoped_lock lock(mutex_);
    const auto now = clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(events_.progress_seconds));
    events_.on_progress(progress());
}

void run_reporter::step(std::string_view name, std::uint64_t done, std::uint64_t total) {
    update([&] {
        return progress_report{.phase = phase_.value_or(run_phase::planning),
            .step = std::string(name),
            .done = done,
            .total = total,
            .unit = {},
            .epoch = {}};
    });
}

std::vector<std::string> run_reporter::warnings() const {
    const std::scoped_lock lock(mutex_);
    return warnings_;
}

} // namespace trainers
