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

/// What the buffer holds over time, one set of partitions after another, each in any order.
using buffer_sequence = std::vector<std::vector<partition_id>>;

/// Trains every edge bucket in the first state that holds both its partitions.
///
/// \param sequence    sets of partitions below `partitions`
/// \param partitions  p
/// \return            the states in order, buckets ascending in each
///
/// A set in which no pair meets for the first time gives no state: the next one loads what both would have, and
/// skipping never loads more. So no state of the result lacks an edge bucket. Buckets whose partitions never meet are
/// missing from the plan; `validate` finds them.
/// Cost: O(loads · slots + p² log p) time, p² bits.
/// Source: Marius, Algorithm 4 without line 10; that one is `shuffle_edge_buckets`.
[[nodiscard]] inline epoch_plan train_when_first_resident(buffer_sequence sequence, std::uint32_t partitions) {
    epoch_plan states;
    bitmap seen(std::size_t{partitions} * partitions);
    std::vector<edge_bucket> found;
    const auto train_pair = [&](partition_id i, partition_id j) {
        if (seen.insert(std::size_t{i} * partitions + j)) found.emplace_back(i, j);
    };
    std::vector<partition_id> before; // of the last set that was kept
    for (std::vector<partition_id>& resident : sequence) {
        std::ranges::sort(resident);
        for (const partition_id i : resident) {
            if (std::ranges::binary_search(before, i)) continue; // met the others, or will as theirs
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

/// Puts the buckets of each state in random order: state s by `key.with(s)`. O(buckets). Swaps stay as they are.
inline void shuffle_edge_buckets(epoch_plan& states, random_key key) {
    for (std::size_t s = 0; s < states.size(); ++s) shuffle(states[s].edge_buckets, key.with(s));
}

/// Moves every edge bucket of a plan to a random one of the states that hold both its partitions.
///
/// The loads stay as they are, so this costs no byte; buckets of partitions that stay together for long are trained
/// all along instead of at their first meeting. States that are left without a bucket stay, since what they load is
/// needed later.
/// Cost: O(sum over states of resident²) time. Key: bucket (i, j) draws word i · p + j.
/// Source: MariusGNN, EuroSys'23, §5.1, where COMET assigns buckets so.
inline void randomize_bucket_states(epoch_plan& states, std::uint32_t partitions, random_key key) {
    std::vector<std::uint64_t> times_resident_together(std::size_t{partitions} * partitions); // so far
    std::vector<std::uint32_t> chosen(times_resident_together.size());
    for (std::uint32_t s = 0; s < states.size(); ++s)
        for (const partition_id i : states[s].resident)
            for (const partition_id j : states[s].resident) {
                const std::size_t bucket = std::size_t{i} * partitions + j;
                // Reservoir of one: the n-th meeting replaces what was chosen with probability 1/n.
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
