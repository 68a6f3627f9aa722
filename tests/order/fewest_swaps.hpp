#pragma once

#include <bit>
#include <cstdint>
#include <set>
#include <utility>

namespace order_test {

/// Returns the fewest swaps with which all pairs of partitions meet in a buffer of `slots`: breadth-first search over
/// (buffer, pairs that have met), both as bit sets. Exponential, for up to 6 partitions.
inline std::uint64_t fewest_swaps_by_search(std::uint32_t partitions, std::uint32_t slots) {
    using position = std::pair<std::uint32_t, std::uint32_t>;
    const auto meet = [&](position at) {
        std::uint32_t bit = 0;
        for (std::uint32_t a = 0; a < partitions; ++a)
            for (std::uint32_t b = a + 1; b < partitions; ++b, ++bit)
                if ((at.first >> a & 1U) != 0 && (at.first >> b & 1U) != 0) at.second |= 1U << bit;
        return at;
    };
    const int pairs = static_cast<int>(partitions * (partitions - 1) / 2);
    const position start = meet({(1U << slots) - 1, 0});
    std::set<position> seen{start}, frontier{start};
    for (std::uint64_t swaps = 0;; ++swaps) {
        std::set<position> next;
        for (const position& at : frontier) {
            if (std::popcount(at.second) == pairs) return swaps;
            for (std::uint32_t out = 0; out < partitions; ++out)
                for (std::uint32_t in = 0; in < partitions; ++in)
                    if ((at.first >> out & 1U) != 0 && (at.first >> in & 1U) == 0) {
                        const position to = meet({(at.first ^ (1U << out)) | 1U << in, at.second});
                        if (seen.insert(to).second) next.insert(to);
                    }
        }
        frontier = std::move(next);
    }
}

} // namespace order_test
