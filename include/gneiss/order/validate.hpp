// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Checks that `states` trains each of the partitions² edge buckets once, in states of at most `resident_partitions`
/// partitions in ascending order that hold both partitions of each bucket.
///
/// A state without an edge bucket is valid: it only moves partitions. Throws errc::invalid_argument naming the first
/// violation, in the order of the plan. Cost: O(p² log slots) time, p² bits.
inline void validate(const epoch_plan& states, std::uint32_t partitions, std::uint32_t resident_partitions) {
    detail::check_buffer(partitions, resident_partitions);
    bitmap trained(std::size_t{partitions} * partitions);
    std::size_t count = 0;
    for (std::size_t s = 0; s < states.size(); ++s) {
        const auto fail = [s](const std::string& what) {
            throw error(errc::invalid_argument, "state " + std::to_string(s) + " of the plan: " + what);
        };
        const std::vector<partition_id>& resident = states[s].resident;
        if (resident.empty()) fail("no partition is resident");
        if (resident.size() > resident_partitions)
            fail(std::to_string(resident.size()) + " partitions in a buffer of " + std::to_string(resident_partitions));
        if (std::ranges::adjacent_find(resident, std::ranges::greater_equal{}) != resident.end())
            fail("its resident partitions do not ascend");
        if (resident.back() >= partitions)
            fail("partition " + std::to_string(resident.back()) + " of " + std::to_string(partitions));
        for (const edge_bucket& b : states[s].edge_buckets) {
            for (const partition_id p : {b.first, b.second})
                if (!std::ranges::binary_search(resident, p))
                    fail(detail::name_of(b) + " needs partition " + std::to_string(p) + ", which is not resident");
            if (!trained.insert(std::size_t{b.first} * partitions + b.second))
                fail(detail::name_of(b) + " is trained again");
            ++count;
        }
    }
    if (count == trained.size()) return;
    std::size_t missing = 0;
    while (trained[missing]) ++missing;
    const edge_bucket first{
        static_cast<partition_id>(missing / partitions), static_cast<partition_id>(missing % partitions)};
    throw error(errc::invalid_argument,
        "the plan never trains " + detail::name_of(first) + ", one of " + std::to_string(trained.size() - count) +
            " missing");
}

} // namespace gneiss
