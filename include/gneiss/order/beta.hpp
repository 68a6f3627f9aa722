// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Randomizations per epoch. None of them changes the number of swaps.
struct beta_options {
    bool shuffle_start = true;            ///< partitions that are in the buffer first
    bool permute_each_round = true;       ///< buffer and disk set, before a round fixes slots − 1 of the buffer
    bool permute_before_refill = true;    ///< disk set, before the fixed partitions are replaced
    bool shuffle_edge_buckets = true;     ///< order of the buckets inside a state
    bool randomize_bucket_states = false; ///< train a bucket in a random state that holds it, not the first; ours

    /// Order of the paper's listing, the same in every epoch.
    [[nodiscard]] static constexpr beta_options fixed() noexcept { return {false, false, false, false, false}; }

    friend bool operator==(const beta_options&, const beta_options&) = default;
};

/// Returns the buffer contents over one epoch. A round fixes slots − 1 partitions and passes all others through the
/// last slot. Then the fixed partitions, which have met every other, are replaced with unfinished ones.
///
/// \param key  key of the epoch; fields `.with(0)` start, `.with(1).with(round)` buffer, `.with(2).with(round)` disk
/// set,
///             `.with(3).with(round)` disk set before the refill
/// \return     beta_swaps(partitions, slots) + 1 sets of `resident_partitions` partitions; consecutive sets differ by
/// one swap
///
/// A buffer of at least `partitions` slots gives one set. Cost: O(swaps · slots).
/// Throws errc::invalid_argument for a buffer in which two partitions cannot meet.
/// Source: Marius, OSDI'21, Algorithm 3; the listing's `n` restarts at 0 in each round.
[[nodiscard]] inline buffer_sequence beta_sequence(
    std::uint32_t partitions, std::uint32_t resident_partitions, random_key key, const beta_options& options = {}) {
    detail::check_buffer(partitions, resident_partitions);
    resident_partitions = std::min(resident_partitions, partitions);
    std::vector<partition_id> all(partitions);
    std::iota(all.begin(), all.end(), partition_id{0});
    if (options.shuffle_start) shuffle(all, key.with(0));
    std::vector<partition_id> buffer(all.begin(), all.begin() + resident_partitions);
    std::vector<partition_id> on_disk(all.begin() + resident_partitions, all.end());

    buffer_sequence sequence{buffer};
    for (std::uint64_t round = 0; !on_disk.empty(); ++round) {
        if (options.permute_each_round) {
            shuffle(buffer, key.with(1).with(round));
            shuffle(on_disk, key.with(2).with(round));
        }
        for (partition_id& unfinished : on_disk) {
            std::swap(buffer.back(), unfinished);
            sequence.push_back(buffer);
        }
        if (options.permute_before_refill) shuffle(on_disk, key.with(3).with(round));
        const std::size_t fresh = std::min<std::size_t>(resident_partitions - 1, on_disk.size());
        for (std::size_t i = 0; i < fresh; ++i) {
            buffer[i] = on_disk[i];
            sequence.push_back(buffer);
        }
        on_disk.erase(on_disk.begin(), on_disk.begin() + static_cast<std::ptrdiff_t>(fresh));
    }
    return sequence;
}

/// Buffer-aware edge traversal algorithm (BETA): `beta_swaps` swaps, within a fifth of the lower bound for up to 128
/// partitions and slots = p/4.
///
/// Every state trains at least one new pair of partitions. Throws errc::invalid_argument for a buffer in which two
/// partitions cannot meet. Keyed by (seed, plan, epoch).
/// Source: Marius, OSDI'21, §4.1, Algorithms 3 and 4.
class beta_order {
public:
    /// Throws errc::invalid_argument for a buffer in which two partitions cannot meet.
    beta_order(
        std::uint32_t partitions, std::uint32_t resident_partitions, std::uint64_t seed = 0, beta_options options = {})
        : partitions_(partitions),
          resident_partitions_(resident_partitions),
          seed_(seed),
          options_(options) {
        detail::check_buffer(partitions, resident_partitions);
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return resident_partitions_; }

    [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const {
        const random_key key = random_key{seed_, random_domain::plan}.with(epoch);
        epoch_plan states =
            train_when_first_resident(beta_sequence(partitions_, resident_partitions_, key, options_), partitions_);
        if (options_.randomize_bucket_states) gneiss::randomize_bucket_states(states, partitions_, key.with(5));
        if (options_.shuffle_edge_buckets) gneiss::shuffle_edge_buckets(states, key.with(4));
        return states;
    }

private:
    std::uint32_t partitions_, resident_partitions_;
    std::uint64_t seed_;
    beta_options options_;
};

static_assert(edge_bucket_order<beta_order>);

} // namespace gneiss
