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

/// Returns the live line of an epoch, the fields in the order of their importance: a narrow terminal shows the first.
std::string text_of(const progress_report& progress, const epoch_progress& epoch) {
    std::string text = fmt::format("{}  ETA {}  loss {:.4g}  epoch {}/{}  {}",
        programs::human_percent(static_cast<double>(progress.done) / static_cast<double>(progress.total)),
        epoch.seconds_left ? programs::human_seconds(*epoch.seconds_left) : "--", epoch.loss, epoch.epoch, epoch.epochs,
        programs::human_rate(epoch.rate, progress.unit));
    if (!epoch.state_name.empty())
        text += fmt::format("  {} {}/{} pass {}", epoch.state_name, epoch.state, epoch.states, epoch.pass);
    text += fmt::format("  wait {}", programs::human_percent(epoch.wait_share));
    if (!epoch.more.empty()) text += "  " + epoch.more;
    if (epoch.read_rate) text += "  read " + programs::human_bandwidth(*epoch.read_rate);
    if (epoch.hit_rate) text += fmt::format("  hit {}", programs::human_percent(*epoch.hit_rate));
    return text +
        fmt::format(
            "  RSS {} of {}", gneiss::format_bytes(programs::current_rss()), gneiss::format_bytes(epoch.budget_bytes));
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
