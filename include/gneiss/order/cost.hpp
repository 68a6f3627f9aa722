// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Whether training changes the rows, so that a partition that leaves must be written back.
enum class row_use : std::uint8_t { read_only, updated };

/// What one epoch of a plan moves between disk and buffer, counted before a byte moves.
struct plan_cost {
    std::uint64_t swaps = 0;         ///< partitions loaded after the first fill
    std::uint64_t read_bytes = 0;    ///< first fill included
    std::uint64_t written_bytes = 0; ///< final flush included; 0 for read-only rows

    friend bool operator==(const plan_cost&, const plan_cost&) = default;
};

/// Replays `states` and adds up their traffic, for partitions of different size.
///
/// \param states    an epoch's states in order
/// \param bytes_of  size of a partition's rows, value and optimizer state together: partition_id → bytes
/// \param access    learned embeddings are `updated`, given features `read_only`
///
/// The first state is the first fill: its loads are read but are no swaps. What is resident at the end is flushed.
/// Cost: O(sum of resident partitions) time, no allocation.
/// Precondition: no state is without a resident partition (checked in debug builds).
/// Source: Marius, OSDI'21, §4.1.
template <std::invocable<partition_id> BytesOf>
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, BytesOf&& bytes_of, row_use access = row_use::updated) {
    plan_cost cost;
    // Adds the bytes of those of `these` that `those` lacks, and returns how many there are.
    const auto add_absent = [&](std::span<const partition_id> these, std::span<const partition_id> those,
                                std::uint64_t& bytes) {
        std::uint64_t absent = 0;
        auto other = those.begin();
        for (const partition_id p : these) {
            while (other != those.end() && *other < p) ++other;
            if (other != those.end() && *other == p) continue;
            bytes += static_cast<std::uint64_t>(bytes_of(p));
            ++absent;
        }
        return absent;
    };
    std::span<const partition_id> before;
    for (const buffer_state& s : states) {
        GNEISS_ASSERT(!s.resident.empty());
        const std::uint64_t loads = add_absent(s.resident, before, cost.read_bytes);
        if (!before.empty()) cost.swaps += loads;
        if (access == row_use::updated) add_absent(before, s.resident, cost.written_bytes);
        before = s.resident;
    }
    if (access == row_use::updated) add_absent(before, {}, cost.written_bytes);
    return cost;
}

/// The same where every partition has `partition_bytes`.
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, std::uint64_t partition_bytes, row_use access = row_use::updated) {
    return cost_of(
        states, [partition_bytes](partition_id) { return partition_bytes; }, access);
}

/// The same for a table of sizes, `bytes[p]` for partition p. Precondition: it has an entry for every resident one.
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, std::span<const std::uint64_t> bytes, row_use access = row_use::updated) {
    return cost_of(
        states, [bytes](partition_id p) { return bytes[p]; }, access);
}

/// The fewest swaps that any order can need, for `partitions` on disk and `resident_partitions` in the buffer.
///
/// A swap puts one partition beside slots − 1 others, so it completes at most slots − 1 new pairs. Some (p, c) have
/// no order that reaches it. 0 when everything fits; the largest value when two partitions never meet (slots < 2).
/// Source: Marius, equation (2).
[[nodiscard]] constexpr std::uint64_t swap_lower_bound(std::uint32_t partitions, std::uint32_t resident_partitions) noexcept {
    if (resident_partitions >= partitions) return 0;
    if (resident_partitions < 2) return std::numeric_limits<std::uint64_t>::max();
    const auto pairs = [](std::uint64_t n) { return n * (n - 1) / 2; };
    return ceil_div<std::uint64_t>(pairs(partitions) - pairs(resident_partitions), resident_partitions - 1U);
}

/// Swaps of the BETA order in closed form; the oracle of `beta_order`, whatever its randomizations.
///
/// Of the paper's form (p−c) + (x+1)·[(p−c) − x(c−1)/2] with x = ⌊(p−c)/(c−1)⌋, multiplied out so that it stays
/// integral. Limits as for `swap_lower_bound`.
/// Source: Marius, equation (3).
[[nodiscard]] constexpr std::uint64_t beta_swaps(std::uint32_t partitions, std::uint32_t resident_partitions) noexcept {
    if (resident_partitions >= partitions) return 0;
    if (resident_partitions < 2) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t on_disk = partitions - resident_partitions, fixed = resident_partitions - 1U, x = on_disk / fixed;
    return on_disk + (x + 1) * on_disk - x * (x + 1) / 2 * fixed;
}

} // namespace gneiss
