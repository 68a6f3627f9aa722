// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Contents of the buffer over time: consecutive sets of partitions, each in any order.
using buffer_sequence = std::vector<std::vector<partition_id>>;

/// Plans training of every edge bucket in the first state that holds both its partitions.
///
/// \param sequence    sets of partitions below `partitions`
/// \param partitions  p
/// \return            the states in order, buckets ascending in each
///
/// A set in which no pair meets for the first time gives no state: the next set loads the partitions of both, and
/// skipping never loads more. So every state of the result has an edge bucket. Buckets whose partitions never meet are
/// missing from the plan; `validate` reports them.
/// Cost: O(loads · slots + p² log p) time, p² bits.
/// Source: Marius, Algorithm 4 without line 10, which is `shuffle_edge_buckets`.
[[nodiscard]] inline epoch_plan train_when_first_resident(buffer_sequence sequence, std::uint32_t partitions) {
    epoch_plan states;
    bitmap seen(std::size_t{partitions} * partitions);
    std::vector<edge_bucket> found;
    const auto train_pair = [&](partition_id i, partition_id j) {
        if (seen.insert(std::size_t{i} * partitions + j)) found.emplace_back(i, j);
    };
    std::vector<partition_id> before; // resident set of the latest state
    for (std::vector<partition_id>& resident : sequence) {
        std::ranges::sort(resident);
        for (const partition_id i : resident) {
            // pairs with these are handled by the other loop, or were before
            if (std::ranges::binary_search(before, i)) continue;
            for (const partition_id j : resident) {
                train_pair(i, j);
                train_pair(j, i);
            }
        }
        if (found.empty()) continue;
        std::ranges::sort(found);
        before = resident;
        states.push_back({std::move(resident), std::exchange(found, {})});
    }
    return states;
}

/// Shuffles the buckets of each state: state s by `key.with(s)`. O(buckets). Swaps are unchanged.
inline void shuffle_edge_buckets(epoch_plan& states, random_key key) {
    for (std::size_t s = 0; s < states.size(); ++s) shuffle(states[s].edge_buckets, key.with(s));
}

/// Moves every edge bucket of a plan to a random state that holds both its partitions.
///
/// Loads are unchanged, so this moves no additional bytes. Buckets of partitions that stay together for long are
/// trained throughout instead of at their first meeting. States without buckets remain, because their loads are needed
/// later.
/// Cost: O(sum over states of resident²) time. Key: bucket (i, j) draws word i · p + j.
/// Source: MariusGNN, EuroSys'23, §5.1, as COMET assigns buckets.
inline void randomize_bucket_states(epoch_plan& states, std::uint32_t partitions, random_key key) {
    std::vector<std::uint64_t> times_resident_together(std::size_t{partitions} * partitions); // so far
    std::vector<std::uint32_t> chosen(times_resident_together.size());
    for (std::uint32_t s = 0; s < states.size(); ++s)
        for (const partition_id i : states[s].resident)
            for (const partition_id j : states[s].resident) {
                const std::size_t bucket = std::size_t{i} * partitions + j;
                // Reservoir of size one: the n-th meeting replaces the choice with probability 1/n.
                const std::uint64_t word = key.with(bucket)[times_resident_together[bucket]];
                if (below(word, ++times_resident_together[bucket]) == 0) chosen[bucket] = s;
            }
    for (buffer_state& s : states) s.edge_buckets.clear();
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = 0; j < partitions; ++j)
            if (const std::size_t bucket = std::size_t{i} * partitions + j; times_resident_together[bucket] != 0)
                states[chosen[bucket]].edge_buckets.emplace_back(i, j);
}

} // namespace gneiss
