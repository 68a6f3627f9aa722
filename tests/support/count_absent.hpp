#pragma once

#include <cstdint>
#include <span>

#include <gneiss/core/types.hpp>

namespace gneiss::test {

/// Returns the number of `these` that are not among `those`. Both ascending. O(|these| + |those|).
[[nodiscard]] constexpr std::uint32_t count_absent(
    std::span<const partition_id> these, std::span<const partition_id> those) {
    std::uint32_t absent = 0;
    auto other = those.begin();
    for (const partition_id p : these) {
        while (other != those.end() && *other < p) ++other;
        absent += other == those.end() || *other != p;
    }
    return absent;
}

} // namespace gneiss::test
