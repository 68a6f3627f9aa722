// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/fanout.hpp>

namespace gneiss::detail {

/// Returns `below` for 32-bit bounds: the same values from two 32-bit products, which vector units support.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t below_32(std::uint64_t word, std::uint32_t bound) noexcept {
    const std::uint64_t high = (word >> 32) * bound, low = (word & 0xffffffffU) * bound;
    return static_cast<std::uint32_t>((high + (low >> 32)) >> 32);
}

/// Number of edges drawn from a list of `size`.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t drawn_edges(
    std::uint32_t size, std::uint32_t fanout, bool replace) noexcept {
    if (size == 0 || fanout == all_neighbors) return size;
    return replace || fanout < size ? fanout : size;
}

/// First try of a draw in Floyd's sampling: a position at most `last`, from the draw's word of the key. If an earlier
/// draw has taken it, the draw takes `last` itself, which grows by one per draw and ends at the list's last position.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t tried_position(
    random_key key, std::uint64_t word, std::uint32_t last) noexcept {
    return below_32(key[word], last + 1);
}

/// Draws `out.size()` independent uniform positions below `degree`. Word first + j of the key gives draw j.
inline void draw_repeating(
    random_key key, std::uint64_t first, std::uint32_t degree, std::span<std::uint32_t> out) noexcept {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = below_32(key[first + j], degree);
}

/// Draws a uniform set of out.size() positions below `degree`. Word first + j of the key gives draw j. Precondition:
/// out.size()
/// < degree. O(out²) up to 32 draws, O(out) beyond; grows `scratch` when needed.
/// Source: Floyd's sampling, in Bentley, "A sample of brilliance", CACM 1987: draw j takes a position at most degree −
/// out.size() + j, or that last one itself if the drawn position is taken. No draw is rejected.
inline void draw_distinct(random_key key, std::uint64_t first, std::uint32_t degree, std::span<std::uint32_t> out,
    std::vector<std::uint32_t>& scratch) {
    constexpr std::size_t few = 32, lane = 8;
    const auto least = degree - static_cast<std::uint32_t>(out.size());
    if (out.size() <= few) {
        std::uint32_t drawn[few];
        for (std::size_t j = 0; j < out.size(); j += lane) // whole vectors; values beyond the last are unused
            for (std::size_t l = 0; l < lane; ++l)
                drawn[j + l] = tried_position(key, first + j + l, least + static_cast<std::uint32_t>(j + l));
        for (std::size_t j = 0; j < out.size(); ++j) {
            bool taken = false;
            for (std::size_t i = 0; i < j; ++i) taken |= out[i] == drawn[j];
            out[j] = taken ? least + static_cast<std::uint32_t>(j)
                           : drawn[j]; // NOLINT(clang-analyzer-core.uninitialized.Assign): drawn above
        }
        return;
    }
    constexpr std::uint32_t nothing = ~std::uint32_t{0}; // not a position: degrees are below 2³²
    const std::size_t slots = std::bit_ceil(2 * out.size());
    scratch.assign(slots, nothing);
    const auto insert = [&](std::uint32_t position) {
        std::size_t at = static_cast<std::size_t>(mix64(position)) & (slots - 1);
        while (scratch[at] != nothing && scratch[at] != position) at = (at + 1) & (slots - 1);
        return std::exchange(scratch[at], position) != position;
    };
    for (std::size_t j = 0; j < out.size(); ++j) {
        const std::uint32_t last = least + static_cast<std::uint32_t>(j);
        out[j] = tried_position(key, first + j, last);
        if (insert(out[j])) continue;
        out[j] = last;
        insert(last);
    }
}

/// Draws positions in proportion to their weights, never those of weight 0. Returns the number of elements of `out`
/// written: with replacement all or none, else at most the number of positive weights. Throws errc::not_finite for a
/// weight that is negative, infinite or NaN. O(weights).
///
/// Without replacement each position waits for an exponential time with its weight as rate, from word first + position,
/// and the earliest win: equivalent to successive draws in proportion to the remaining weights.
/// Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", IPL 2006.
inline std::size_t draw_weighted(
    random_key key, std::uint64_t first, std::span<const float> weights, bool replace, std::span<std::uint32_t> out) {
    for (const float w : weights)
        if (!(w >= 0) || std::isinf(w))
            throw error(errc::not_finite, "the weight of an edge is negative or not finite");
    if (replace) {
        std::vector<double> sums(weights.size());
        double total = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) sums[i] = total += weights[i];
        if (total == 0) return 0;
        for (std::size_t j = 0; j < out.size(); ++j) {
            const double at = to_unit(key[first + j]) * total;
            auto found = std::upper_bound(sums.begin(), sums.end(), at);
            if (found == sums.end()) found = std::lower_bound(sums.begin(), sums.end(), total); // `at` rounded up
            out[j] = static_cast<std::uint32_t>(found - sums.begin());
        }
        return out.size();
    }
    std::vector<std::pair<double, std::uint32_t>> times;
    for (std::size_t i = 0; i < weights.size(); ++i)
        if (weights[i] > 0)
            times.emplace_back(-std::log(to_unit(key[first + i]) + 0x1p-54) / static_cast<double>(weights[i]),
                static_cast<std::uint32_t>(i));
    const std::size_t count = std::min(out.size(), times.size());
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(count), times.end());
    for (std::size_t j = 0; j < count; ++j) out[j] = times[j].second;
    std::sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
}

} // namespace gneiss::detail
