// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss::detail {

/// Maximum number of partitions. A plan lists all p² edge buckets: 16 million for this value.
inline constexpr std::uint32_t max_partitions = 1U << 12;

/// Throws errc::invalid_argument unless every pair of `partitions` can meet in a buffer of `resident_partitions`.
inline void check_buffer(std::uint32_t partitions, std::uint32_t resident_partitions) {
    if (partitions == 0) throw error(errc::invalid_argument, "an order needs at least one partition");
    if (partitions > max_partitions)
        throw error(errc::invalid_argument,
            "an order has at most " + std::to_string(max_partitions) + " partitions, not " +
                std::to_string(partitions));
    if (resident_partitions == 0 || (resident_partitions < 2 && partitions > 1))
        throw error(errc::invalid_argument,
            "a buffer of " + std::to_string(resident_partitions) + " slots cannot hold two of " +
                std::to_string(partitions) + " partitions: at least 2 are needed");
}

/// Formats an edge bucket for errors: "edge bucket (i, j)".
inline std::string name_of(const edge_bucket& b) {
    std::string name = "edge bucket (";
    return name.append(std::to_string(b.first)).append(", ").append(std::to_string(b.second)).append(")");
}

} // namespace gneiss::detail
