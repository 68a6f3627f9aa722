#pragma once

#include <cstdint>
#include <string>

#include <gneiss/core/error.hpp>

namespace gneiss::detail {

/// p² edge buckets must stay countable and their table small: beyond this a dataset has too many partitions to plan.
inline constexpr std::uint32_t max_partitions = 1U << 16;

/// Throws errc::invalid_argument unless every pair of `partitions` can meet in a buffer of `slots`.
inline void check_buffer(std::uint32_t partitions, std::uint32_t slots) {
    if (partitions == 0) throw error(errc::invalid_argument, "an order needs at least one partition");
    if (partitions > max_partitions)
        throw error(errc::invalid_argument, "an order has at most " + std::to_string(max_partitions) +
                                                " partitions, not " + std::to_string(partitions));
    if (slots == 0 || (slots < 2 && partitions > 1))
        throw error(errc::invalid_argument, "a buffer of " + std::to_string(slots) + " slots cannot hold two of " +
                                                std::to_string(partitions) + " partitions: at least 2 are needed");
}

} // namespace gneiss::detail
