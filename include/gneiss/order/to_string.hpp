// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Limits on the output of `to_string`.
struct plan_format {
    std::size_t states = 40; ///< first states shown; the rest is counted
    std::size_t buckets = 8; ///< first buckets shown per state; the rest is counted
};

/// Formats ascending partitions, with runs of three or more shortened: "0-7 12 14".
[[nodiscard]] inline std::string to_string(std::span<const partition_id> ascending) {
    std::string text;
    for (std::size_t i = 0; i < ascending.size();) {
        std::size_t last = i;
        while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
        if (last < i + 2) last = i;
        text.append(text.empty() ? "" : " ").append(std::to_string(ascending[i]));
        if (last > i) text.append("-").append(std::to_string(ascending[last]));
        i = last + 1;
    }
    return text;
}

/// Formats a plan as a table: one line per state with its resident partitions, loads and buckets.
///
///     state  resident  load  buckets
///         0  0-2       0-2         9  (0,0) (0,1) …
///         1  0 1 3     3           5  (0,3) (1,3) (3,0) (3,1) (3,3)
///
/// Every line ends in '\n'. O(size of the output).
[[nodiscard]] inline std::string to_string(const epoch_plan& states, plan_format show = {}) {
    struct line {
        std::string number, resident, load, count, buckets;
    };
    std::vector<line> lines{{"state", "resident", "load", "buckets", ""}};
    std::vector<partition_id> before;
    for (std::size_t s = 0; s < std::min(states.size(), show.states); ++s) {
        const auto& [resident, buckets] = states[s];
        std::vector<partition_id> load;
        std::ranges::set_difference(resident, before, std::back_inserter(load));
        line next{std::to_string(s), to_string(resident), to_string(load), std::to_string(buckets.size()), ""};
        for (std::size_t b = 0; b < std::min(buckets.size(), show.buckets); ++b) {
            const auto& [i, j] = buckets[b];
            next.buckets.append(" (").append(std::to_string(i)).append(",").append(std::to_string(j)).append(")");
        }
        if (buckets.size() > show.buckets) next.buckets += " …";
        lines.push_back(std::move(next));
        before = resident;
    }
    std::size_t number = 0, resident = 0, load = 0, count = 0;
    for (const line& l : lines) {
        number = std::max(number, l.number.size());
        resident = std::max(resident, l.resident.size());
        load = std::max(load, l.load.size());
        count = std::max(count, l.count.size());
    }
    const auto right = [](const std::string& text, std::size_t width) {
        return std::string(width - text.size(), ' ') + text;
    };
    const auto left = [](const std::string& text, std::size_t width) {
        return text + std::string(width - text.size(), ' ');
    };
    std::string text;
    for (const line& l : lines)
        text += right(l.number, number) + "  " + left(l.resident, resident) + "  " + left(l.load, load) + "  " +
            right(l.count, count) + (l.buckets.empty() ? "" : " ") + l.buckets + "\n";
    if (states.size() > show.states)
        text.append("… and ").append(std::to_string(states.size() - show.states)).append(" more states\n");
    return text;
}

} // namespace gneiss
