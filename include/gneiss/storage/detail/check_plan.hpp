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

/// Throws errc::invalid_argument, which begins with `what`, unless resident partitions ascend and are below
/// `partitions`. O(resident).
template <class What>
void check_resident(std::span<const partition_id> resident, std::uint32_t partitions, const What& what) {
    const auto refuse = [&](const std::string& fault) {
        throw error(errc::invalid_argument, what() + " names " + fault);
    };
    if (!resident.empty() && *std::ranges::max_element(resident) >= partitions)
        refuse(
            "partition " + std::to_string(*std::ranges::max_element(resident)) + " of " + std::to_string(partitions));
    if (std::ranges::adjacent_find(resident, std::greater_equal{}) != resident.end())
        refuse("partitions that do not ascend");
}
/// The same for the partitions of a graph.
inline void check_resident(std::span<const partition_id> resident, std::uint32_t partitions) {
    check_resident(resident, partitions, [] { return std::string("a graph"); });
}

/// Throws errc::invalid_argument unless a buffer of `partitions` partitions can follow the plan: resident partitions
/// ascend and are below `partitions`, and those of each edge bucket are resident. O(buckets log resident), once per
/// epoch.
inline void check_plan(const epoch_plan& states, std::uint32_t partitions) {
    for (std::size_t s = 0; s < states.size(); ++s) {
        const auto& resident = states[s].resident;
        const auto state = [s] { return "state " + std::to_string(s) + " of a plan"; };
        check_resident(resident, partitions, state);
        for (const auto& [first, second] : states[s].edge_buckets)
            if (!std::ranges::binary_search(resident, first) || !std::ranges::binary_search(resident, second))
                throw error(errc::invalid_argument,
                    state() + " trains edges of bucket (" + std::to_string(first) + ", " + std::to_string(second) +
                        "), whose partitions are not resident");
    }
}

} // namespace gneiss::detail
