// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Plans training of `buckets` in the given order with a buffer of `resident_partitions` partitions, evicting the one
/// needed furthest in the future. No other choice loads fewer partitions for this order.
///
/// Consecutive buckets without a load between them share a state, so the first state is the first fill and every state
/// has an edge bucket. A bucket may miss both its partitions; both loads then happen at once and count as two swaps.
/// Among partitions that are not needed again, the lowest is evicted first.
///
/// \param buckets              any list; each of the p² once for an epoch (see `validate`)
/// \param partitions           p
/// \param resident_partitions  c
///
/// Throws errc::invalid_argument if two partitions cannot meet, errc::out_of_range for a bucket outside [0, p)².
/// Cost: O(buckets + loads · slots) time, O(buckets + states · slots) memory.
/// Source: Marius, OSDI'21, Algorithm 2; Belady, IBM Systems Journal 1966.
[[nodiscard]] inline epoch_plan plan_from_buckets(
    std::span<const edge_bucket> buckets, std::uint32_t partitions, std::uint32_t resident_partitions) {
    detail::check_buffer(partitions, resident_partitions);
    for (const edge_bucket& b : buckets)
        if (b.first >= partitions || b.second >= partitions)
            throw error(errc::out_of_range, detail::name_of(b) + " with " + std::to_string(partitions) + " partitions");

    // next[k]: next uses of the two partitions of bucket k; upcoming[p]: next use of partition p from here on.
    constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
    std::vector<std::pair<std::size_t, std::size_t>> next(buckets.size());
    std::vector<std::size_t> upcoming(partitions, never);
    for (std::size_t k = buckets.size(); k-- > 0;) {
        const auto [i, j] = buckets[k];
        next[k] = {upcoming[i], upcoming[j]};
        upcoming[i] = upcoming[j] = k;
    }

    epoch_plan states;
    std::vector<partition_id> resident; // ascending
    bool loaded = false;                // since the current state began
    const auto admit = [&](partition_id p) {
        const auto at = std::ranges::lower_bound(resident, p);
        if (at != resident.end() && *at == p) return;
        if (resident.size() == resident_partitions) {
            // The other partition of this bucket is needed now, so it is never the furthest.
            resident.erase(std::ranges::max_element(resident, {}, [&](partition_id r) { return upcoming[r]; }));
            loaded = true;
        }
        resident.insert(std::ranges::lower_bound(resident, p), p);
    };
    for (std::size_t k = 0; k < buckets.size(); ++k) {
        const auto [i, j] = buckets[k];
        admit(i);
        admit(j);
        if (states.empty() || loaded) states.emplace_back();
        loaded = false;
        states.back().resident = resident;
        states.back().edge_buckets.push_back(buckets[k]);
        upcoming[i] = next[k].first;
        upcoming[j] = next[k].second;
    }
    return states;
}

/// Order that trains the same list of buckets in every epoch: a user's, or a curve's. Limits and errors as for
/// `plan_from_buckets`, reported at construction. O(plan) per epoch.
class bucket_list_order {
public:
    /// Plans `buckets`, each once.
    bucket_list_order(std::span<const edge_bucket> buckets, std::uint32_t partitions, std::uint32_t resident_partitions)
        : partitions_(partitions),
          resident_partitions_(resident_partitions),
          states_(plan_from_buckets(buckets, partitions, resident_partitions)) {}

    [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return resident_partitions_; }
    [[nodiscard]] epoch_plan operator()(std::uint64_t) const { return states_; }

private:
    std::uint32_t partitions_, resident_partitions_;
    epoch_plan states_;
};

static_assert(edge_bucket_order<bucket_list_order>);

} // namespace gneiss
