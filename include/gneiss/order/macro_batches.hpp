// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/node_plan.hpp>

namespace gneiss {

/// Plans an epoch of Hanoi: all partitions in random order, `macro` at a time. Each group forms a state together with
/// the pinned partitions, which hold hubs. The last group may be smaller. Every training node is a seed once: in the
/// state that loads its partition, or, in a pinned partition, in the state of its home or a random one. Macro-batches
/// without pinned partitions over random partitions are MariusGNN's batching.
///
///     const node_plan plan = macro_batches(64, 1, 4, seed, epoch); // hubs in partition 0, four others at a time
///     for (std::uint32_t s = 0; s < plan.states.size(); ++s) append_training_nodes(plan, s, rows, training, seeds);
///
/// \param partitions  p, including the pinned ones; some may have no training node
/// \param pinned      number of leading partitions that stay in memory
/// \param macro       partitions loaded and evicted together
///
/// Pure function of its arguments. Key (seed, plan, epoch, 15…): 15 the order, 16 the states of pinned nodes. Throws
/// errc::invalid_argument for zero partitions, macro 0, or more pinned than partitions. O(p log p).
/// Source: Hanoi, thesis, §4.2.1 and §4.3.3.
[[nodiscard]] inline node_plan macro_batches(
    std::uint32_t partitions, std::uint32_t pinned, std::uint32_t macro, std::uint64_t seed, std::uint64_t epoch) {
    if (partitions == 0 || pinned > partitions)
        throw error(errc::invalid_argument,
            std::to_string(pinned) + " of " + std::to_string(partitions) + " partitions cannot be pinned");
    if (macro == 0) throw error(errc::invalid_argument, "a macro-batch needs at least one partition");
    const random_key key = random_key{seed, random_domain::plan}.with(epoch);
    std::vector<partition_id> order(partitions - pinned);
    std::iota(order.begin(), order.end(), pinned);
    shuffle(order, key.with(15));
    node_plan result{.states = {}, .trained = {}, .pinned = pinned, .pinned_key = key.with(16)};
    for (std::size_t first = 0; first < order.size() || result.states.empty(); first += macro) {
        const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
        std::vector<partition_id> group(
            begin, begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(macro, order.size() - first)));
        std::ranges::sort(group);
        std::vector<partition_id> resident(pinned);
        std::iota(resident.begin(), resident.end(), partition_id{0});
        resident.insert(resident.end(), group.begin(), group.end());
        result.states.push_back({std::move(resident), {}});
        result.trained.push_back(std::move(group));
    }
    return result;
}

} // namespace gneiss
