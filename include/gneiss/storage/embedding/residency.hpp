// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <gneiss/order/plan.hpp>

namespace gneiss {

/// One uninterrupted stay of a partition in memory: it is loaded for state `first` and released after state `last`.
struct residency {
    partition_id partition = 0; ///< the partition
    std::uint32_t first = 0;    ///< state
    std::uint32_t last = 0;     ///< state, inclusive

    friend bool operator==(const residency&, const residency&) = default;
};

/// Returns the residencies of a plan from state `first_state` on, in load order: by first state, then by partition.
/// They determine the behavior of a partition buffer.
///
/// Cost: O(sum of resident partitions · log c). Source: Marius, OSDI'21, §4.2.
[[nodiscard]] inline std::vector<residency> residencies_of(const epoch_plan& states, std::uint32_t first_state = 0) {
    std::vector<residency> residencies;
    std::vector<std::size_t> open; // residencies that include the previous state, by ascending partition
    for (std::uint32_t s = first_state; s < states.size(); ++s) {
        std::vector<std::size_t> now;
        auto before = open.begin();
        for (const partition_id p : states[s].resident) {
            while (before != open.end() && residencies[*before].partition < p) ++before;
            if (before != open.end() && residencies[*before].partition == p) {
                residencies[*before].last = s;
                now.push_back(*before);
            } else {
                now.push_back(residencies.size());
                residencies.push_back({p, s, s});
            }
        }
        open = std::move(now);
    }
    return residencies;
}

} // namespace gneiss
