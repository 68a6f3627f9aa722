// SPDX-License-Identifier: Apache-2.0
#include "kit/run/terminal_events.hpp"

#include <memory>
#include <string>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/phase_progress.hpp"
#include "kit/cli/units.hpp"

namespace trainers {

namespace {

/// Returns the live line of an epoch.
std::string text_of(const progress_report& progress, const epoch_progress& epoch) {
    std::string text = fmt::format("epoch {}/{} {:>4}  loss {:.4g}  {}", epoch.epoch, epoch.epochs,
        programs::human_percent(static_cast<double>(progress.done) / static_cast<double>(progress.total)), epoch.loss,
        programs::human_rate(epoch.rate, progress.unit));
    if (!epoch.state_name.empty())
        text += fmt::format("  {} {}/{} pass {}", epoch.state_name, epoch.state, epoch.states, epoch.pass);
    if (epoch.read_rate)
        text += fmt::format("  read {}/s", gneiss::format_bytes(static_cast<std::uint64_t>(*epoch.read_rate)));
    if (epoch.hit_rate) text += fmt::format("  hit {}", programs::human_percent(*epoch.hit_rate));
    return text +
        fmt::format("  wait {}  RSS {} of {}  ETA {}", programs::human_percent(epoch.wait_share),
            gneiss::format_bytes(programs::current_rss()), gneiss::format_bytes(epoch.budget_bytes),
            epoch.seconds_left ? programs::human_seconds(*epoch.seconds_left) : "--");
}

} // namespace

run_events terminal_events(programs::progress& line) {
    run_events events;
    events.on_progress = [&line, steps = std::make_shared<programs::phase_progress>(line)](const progress_report& of) {
        if (of.epoch)
            line.update([&] { return text_of(of, *of.epoch); });
        else
            (*steps)(of.step, of.done, of.total);
    };
    events.on_message = [&line](const std::string& text) { line.say(text); };
    events.on_warning = [&line](const std::string& text) { line.warn(text); };
    events.warnings = programs::given_warnings();
    return events;
}

} // namespace trainers
