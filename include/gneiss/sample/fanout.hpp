// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// Fan-out that takes every neighbor.
inline constexpr std::uint32_t all_neighbors = std::numeric_limits<std::uint32_t>::max();

/// Number of neighbors sampled per node at one hop: `in` incoming and `out` outgoing ones, drawn separately; or `both`
/// from the combined list, and nothing else.
struct hop_fanout {
    std::uint32_t in = 0;   ///< incoming neighbors
    std::uint32_t out = 0;  ///< outgoing neighbors
    std::uint32_t both = 0; ///< neighbors of the combined list

    /// Lists to sample from.
    [[nodiscard]] constexpr neighbor_direction direction() const noexcept {
        if (both != 0 || (in != 0 && out != 0)) return neighbor_direction::both;
        return in != 0 ? neighbor_direction::in : neighbor_direction::out;
    }

    friend bool operator==(const hop_fanout&, const hop_fanout&) = default;
};

/// Parses `10,10`, the hop of the seeds first. A hop is a number or `all`, in direction `d`; or `A+B`: A incoming and B
/// outgoing neighbors. Throws `invalid_argument` describing the defect.
[[nodiscard]] inline std::vector<hop_fanout> parse_fanout(
    std::string_view text, neighbor_direction d = neighbor_direction::in) {
    const auto refuse = [&](const std::string& why) {
        return error(errc::invalid_argument,
            "fan-out '" + std::string(text) + "': " + why + "; a fan-out is like 10,10 or 10+5,all");
    };
    const auto count = [&](std::string_view word) {
        if (word == "all") return all_neighbors;
        if (word == "-1") throw refuse("'-1' is not a number of neighbors; all of them are 'all'");
        std::uint32_t value = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (word.empty() || code != std::errc{} || end != word.data() + word.size() || value == all_neighbors)
            throw refuse("'" + std::string(word) + "' is not a number below " + std::to_string(all_neighbors));
        return value;
    };
    std::vector<hop_fanout> hops;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        hop_fanout hop;
        if (const std::size_t plus = word.find('+'); plus != std::string_view::npos) {
            hop.in = count(word.substr(0, plus));
            hop.out = count(word.substr(plus + 1));
        } else {
            (d == neighbor_direction::in ? hop.in : d == neighbor_direction::out ? hop.out : hop.both) = count(word);
        }
        if (hop == hop_fanout{}) throw refuse("a hop takes no neighbor");
        hops.push_back(hop);
        begin = end + 1;
    }
    return hops;
}

/// Formats a fan-out for display. `parse_fanout` reads it back if all hops of one number have the direction passed to
/// it.
[[nodiscard]] inline std::string to_string(const std::vector<hop_fanout>& hops) {
    const auto word = [](std::uint32_t count) { return count == all_neighbors ? "all" : std::to_string(count); };
    std::string text;
    for (const hop_fanout& hop : hops) {
        if (!text.empty()) text += ',';
        if (hop.in != 0 && hop.out != 0)
            text += word(hop.in) + "+" + word(hop.out);
        else
            text += word(hop.in + hop.out + hop.both);
    }
    return text;
}

/// Throws `invalid_argument` unless there is exactly one usable hop for each of `layers` layers.
inline void validate(const std::vector<hop_fanout>& hops, std::size_t layers) {
    if (hops.size() != layers)
        throw error(errc::invalid_argument,
            "fan-out " + to_string(hops) + " has " + std::to_string(hops.size()) + " hops, the model has " +
                std::to_string(layers) + " layers");
    for (const hop_fanout& hop : hops)
        if (hop == hop_fanout{} || (hop.both != 0 && (hop.in != 0 || hop.out != 0)))
            throw error(errc::invalid_argument, "a hop takes neighbors of both lists together or of each alone");
}

} // namespace gneiss
