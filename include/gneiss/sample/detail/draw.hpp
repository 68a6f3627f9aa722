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

/// `below` for bounds of 32 bits: the same values by two 32-bit products, which vector units have.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t below_32(std::uint64_t word, std::uint32_t bound) noexcept {
    const std::uint64_t high = (word >> 32) * bound, low = (word & 0xffffffffU) * bound;
    return static_cast<std::uint32_t>((high + (low >> 32)) >> 32);
}

/// How many edges of a list of `size` are drawn.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t drawn_edges(std::uint32_t size, std::uint32_t fanout, bool replace) noexcept {
    if (size == 0 || fanout == all_neighbors) return size;
    return replace || fanout < size ? fanout : size;
}

/// What a draw of Floyd's sampling tries first: a position at most `last`, by the draw's word of the key. If a draw before it has
/// taken that one, it takes `last` itself, which is one more for each draw: the last of all is the list's last position.
[[nodiscard]] GNEISS_HD constexpr std::uint32_t tried_position(random_key key, std::uint64_t word, std::uint32_t last) noexcept {
    return below_32(key[word], last + 1);
}

/// Draws `out.size()` positions below `degree`, each alike and alone. Word first + j of the key gives draw j.
inline void draw_repeating(
    random_key key, std::uint64_t first, std::uint32_t degree, std::span<std::uint32_t> out) noexcept {
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = below_32(key[first + j], degree);
}

/// Draws a set of out.size() positions below `degree`, all sets alike. Word first + j of the key gives draw j.
/// Precondition: out.size() < degree. O(out²) up to 32 draws, O(out) beyond; `scratch` is grown when needed.
/// Source: Floyd's sampling, in Bentley, "A sample of brilliance", CACM 1987: draw j takes a position at most
/// degree − out.size() + j, and that last one itself where the drawn one is taken already. No draw is rejected.
inline void draw_distinct(random_key key, std::uint64_t first, std::uint32_t degree, std::span<std::uint32_t> out,
    std::vector<std::uint32_t>& scratch) {
    constexpr std::size_t few = 32, lane = 8;
    const auto least = degree - static_cast<std::uint32_t>(out.size());
    if (out.size() <= few) {
        std::uint32_t drawn[few];
        for (std::size_t j = 0; j < out.size(); j += lane) // whole vectors; what is drawn beyond the last is not used
            for (std::size_t l = 0; l < lane; ++l)
                drawn[j + l] = tried_position(key, first + j + l, least + static_cast<std::uint32_t>(j + l));
        for (std::size_t j = 0; j < out.size(); ++j) {
            bool taken = false;
            for (std::size_t i = 0; i < j; ++i) taken |= out[i] == drawn[j];
            out[j] = taken ? least + static_cast<std::uint32_t>(j) : drawn[j]; // NOLINT(clang-analyzer-core.uninitialized.Assign): drawn above
        }
        return;
    }
    constexpr std::uint32_t nothing = ~std::uint32_t{0}; // no position: degrees are below 2³²
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

/// Draws positions in proportion to their weights; those of weight 0 never. Returns how many of `out` it wrote: with
/// replacement all of them or none, else at most as many as there are positive weights.
/// Throws errc::not_finite for a weight that is negative, infinite or not a number. O(weights).
///
/// Without replacement each position waits for an exponential time of its weight as rate, word first + position its
/// randomness, and the earliest win: drawing one after the other in proportion to the weights that are left.
/// Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", IPL 2006.
inline std::size_t draw_weighted(random_key key, std::uint64_t first, std::span<const float> weights, bool replace,
    std::span<std::uint32_t> out) {
    for (const float w : weights)
        if (!(w >= 0) || std::isinf(w)) throw error(errc::not_finite, "the weight of an edge is negative or not finite");
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
