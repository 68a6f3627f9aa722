#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Moves every edge bucket of a plan to a random one of the states that hold both its partitions.
///
/// The loads stay as they are, so this costs no byte; buckets of partitions that stay together for long are trained
/// all along instead of at their first meeting. States that are left without a bucket stay, since what they load is
/// needed later.
/// Cost: O(sum over states of resident²) time. Key: bucket (i, j) draws word i · p + j.
/// Source: MariusGNN, EuroSys'23, §5.1, where COMET assigns buckets so.
inline void spread_edge_buckets(plan& states, std::uint32_t partitions, random_key key) {
    std::vector<std::uint64_t> meetings(std::size_t{partitions} * partitions); // so far
    std::vector<std::uint32_t> chosen(meetings.size());
    for (std::uint32_t s = 0; s < states.size(); ++s)
        for (const partition_id i : states[s].resident)
            for (const partition_id j : states[s].resident) {
                const std::size_t bucket = std::size_t{i} * partitions + j;
                // Reservoir of one: the n-th meeting replaces what was chosen with probability 1/n.
                const std::uint64_t word = key.with(bucket)[meetings[bucket]];
                if (below(word, ++meetings[bucket]) == 0) chosen[bucket] = s;
            }
    for (state& s : states) s.edge_buckets.clear();
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = 0; j < partitions; ++j)
            if (const std::size_t bucket = std::size_t{i} * partitions + j; meetings[bucket] != 0)
                states[chosen[bucket]].edge_buckets.emplace_back(i, j);
}

} // namespace gneiss
