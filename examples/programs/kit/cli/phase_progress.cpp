// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/phase_progress.hpp"

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/units.hpp"

namespace programs {

void phase_progress::operator()(
    std::string_view phase, std::uint64_t done, std::uint64_t total, const std::function<std::string()>& details) {
    if (phase != phase_) {
        phase_ = phase;
        began_ = std::chrono::steady_clock::now();
    }
    line_.update([&] {
        std::string text;
        if (total != 0)
            text = fmt::format("{}  ETA {}  ", human_percent(static_cast<double>(done) / static_cast<double>(total)),
                human_eta(static_cast<double>(done), static_cast<double>(total),
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()));
        return text + phase_ + (details ? details() : "") + "  RSS " + gneiss::format_bytes(current_rss());
    });
}

} // namespace programs
