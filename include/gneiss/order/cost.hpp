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

/// Use of rows by training: an updated partition must be written back when it leaves.
enum class row_use : std::uint8_t { read_only, updated };

/// Data that one epoch of a plan moves between disk and buffer, computed in advance.
struct plan_cost {
    std::uint64_t swaps = 0;         ///< partitions loaded after the first fill
    std::uint64_t read_bytes = 0;    ///< including the first fill
    std::uint64_t written_bytes = 0; ///< including the final flush; 0 for read-only rows

    friend bool operator==(const plan_cost&, const plan_cost&) = default;
};

/// Sums the traffic of `states`, for partitions of different sizes.
///
/// \param states    an epoch's states in order
/// \param bytes_of  bytes of a partition's rows, value and optimizer state: partition_id → bytes
/// \param access    `updated` for learned embeddings, `read_only` for features
///
/// The first state is the first fill: its loads are reads but not swaps. Partitions resident at the end are flushed.
/// Cost: O(sum of resident partitions) time, without allocation.
/// Precondition: every state has a resident partition (checked in debug builds).
/// Source: Marius, OSDI'21, §4.1.
template <std::invocable<partition_id> BytesOf>
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, BytesOf&& bytes_of, row_use access = row_use::updated) {
    plan_cost cost;
    // Adds the bytes of the elements of `these` that `those` lacks, and returns their number.
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

/// Sums the traffic of `states`, for partitions of `partition_bytes` each.
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, std::uint64_t partition_bytes, row_use access = row_use::updated) {
    return cost_of(states, [partition_bytes](partition_id) { return partition_bytes; }, access);
}

/// Sums the traffic of `states`, with `bytes[p]` for partition p. Precondition: an entry for every resident partition.
[[nodiscard]] constexpr plan_cost cost_of(
    std::span<const buffer_state> states, std::span<const std::uint64_t> bytes, row_use access = row_use::updated) {
    return cost_of(states, [bytes](partition_id p) { return bytes[p]; }, access);
}

/// Lower bound on the swaps of any order, for `partitions` on disk and `resident_partitions` in the buffer.
///
/// A swap brings one partition together with slots − 1 others, so it completes at most slots − 1 new pairs. For some
/// (p, c) no order reaches the bound. 0 if everything fits; the maximum value if two partitions never meet (slots < 2).
/// Source: Marius, equation (2).
[[nodiscard]] constexpr std::uint64_t swap_lower_bound(
    std::uint32_t partitions, std::uint32_t resident_partitions) noexcept {
    if (resident_partitions >= partitions) return 0;
    if (resident_partitions < 2) return std::numeric_limits<std::uint64_t>::max();
    const auto pairs = [](std::uint64_t n) { return n * (n - 1) / 2; };
    return ceil_div<std::uint64_t>(pairs(partitions) - pairs(resident_partitions), resident_partitions - 1U);
}

/// Number of swaps of the BETA order in closed form; the oracle for `beta_order` under all randomizations.
///
/// Paper's form: (p−c) + (x+1)·[(p−c) − x(c−1)/2] with x = ⌊(p−c)/(c−1)⌋, multiplied out to stay integral. Limits as
/// for `swap_lower_bound`.
/// Source: Marius, equation (3).
[[nodiscard]] constexpr std::uint64_t beta_swaps(std::uint32_t partitions, std::uint32_t resident_partitions) noexcept {
    if (resident_partitions >= partitions) return 0;
    if (resident_partitions < 2) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t on_disk = partitions - resident_partitions, fixed = resident_partitions - 1U,
                        x = on_disk / fixed;
    return on_disk + (x + 1) * on_disk - x * (x + 1) / 2 * fixed;
}

} // namespace gneiss
