// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss::detail {

/// Throws errc::invalid_argument unless resident partitions ascend and are below `partitions`. O(resident).
inline void check_resident(std::span<const partition_id> resident, std::uint32_t partitions) {
    if (!resident.empty() && *std::ranges::max_element(resident) >= partitions)
        throw error(errc::invalid_argument, "partition " + std::to_string(*std::ranges::max_element(resident)) + " of " + std::to_string(partitions) + " is resident");
    if (std::ranges::adjacent_find(resident, std::greater_equal{}) != resident.end())
        throw error(errc::invalid_argument, "resident partitions do not ascend");
}

/// Throws errc::invalid_argument unless a buffer of `partitions` partitions can follow the plan: resident partitions ascend and
/// are below `partitions`, and those of each edge bucket are resident. O(buckets log resident), once per epoch.
inline void check_plan(const epoch_plan& states, std::uint32_t partitions) {
    for (std::size_t s = 0; s < states.size(); ++s) {
        const auto& resident = states[s].resident;
        const auto refuse = [s](const std::string& what) {
            throw error(errc::invalid_argument, "state " + std::to_string(s) + " of a plan " + what);
        };
        if (!resident.empty() && *std::ranges::max_element(resident) >= partitions)
            refuse("names partition " + std::to_string(*std::ranges::max_element(resident)) + " of " + std::to_string(partitions));
        if (std::ranges::adjacent_find(resident, std::greater_equal{}) != resident.end()) refuse("names partitions that do not ascend");
        for (const auto& [first, second] : states[s].edge_buckets)
            if (!std::ranges::binary_search(resident, first) || !std::ranges::binary_search(resident, second))
                refuse("trains edges of bucket (" + std::to_string(first) + ", " + std::to_string(second) + "), whose partitions are not resident");
    }
}

} // namespace gneiss::detail
