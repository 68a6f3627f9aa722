// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/node_plan.hpp>

namespace gneiss {

/// Number k of leading partitions that hold all training rows; 0 for none. O(rows).
[[nodiscard]] inline std::uint32_t leading_partitions(
    const row_partitioning& rows, std::span<const node_id> training_rows) {
    const auto last = std::ranges::max_element(training_rows);
    return last == training_rows.end() ? 0 : rows.of(*last) + 1;
}

/// Plans an epoch of node classification: the k partitions that hold the training nodes stay resident, together with
/// slots − k random others, drawn again each epoch. One state, so nothing is swapped within an epoch.
///
/// \param partitions           p
/// \param resident_partitions  c
/// \param training_partitions  k: training nodes are in the first k partitions (`gneiss-data reorder --training-first`
/// moves
///                             them there); p if they are anywhere
///
/// With k ≥ slots the training nodes do not fit. Partitions are then grouped at random into logical ones of ⌊slots/2⌋,
/// as in COMET: two are resident, and a random one is replaced with a random unseen one until all were resident. Each
/// partition's training nodes train in a random state that holds it. Every partition with training nodes is trained
/// once per epoch; a buffer of all partitions gives one state.
///
/// Pure function of its arguments. Key (seed, plan, epoch, 11…): 11 others, 12 grouping, 13 eviction, 14 the state in
/// which a partition trains. Throws errc::invalid_argument for zero partitions or slots, and for k > p. Cost: O(p ·
/// slots).
/// Source: MariusGNN, EuroSys'23, §5.2.
[[nodiscard]] inline node_plan train_partitions_first(std::uint32_t partitions, std::uint32_t resident_partitions,
    std::uint32_t training_partitions, std::uint64_t seed, std::uint64_t epoch) {
    if (resident_partitions == 0) throw error(errc::invalid_argument, "a buffer needs at least one slot");
    detail::check_buffer(partitions, std::max(resident_partitions, 2U)); // pairs of partitions need not meet
    if (training_partitions > partitions)
        throw error(errc::invalid_argument,
            std::to_string(training_partitions) + " of " + std::to_string(partitions) +
                " partitions cannot hold training nodes");
    const random_key key = random_key{seed, random_domain::plan}.with(epoch);
    const std::uint32_t k = training_partitions, c = std::min(resident_partitions, partitions);
    std::vector<partition_id> all(partitions), first(k);
    std::iota(all.begin(), all.end(), partition_id{0});
    std::iota(first.begin(), first.end(), partition_id{0});
    node_plan result;
    if (k < c || c == partitions) {
        std::vector<partition_id> others(all.begin() + k, all.end());
        shuffle(others, key.with(11));
        std::ranges::copy_n(others.begin(), c - k, all.begin() + k);
        all.resize(c);
        std::ranges::sort(all);
        result.states.push_back({std::move(all), {}});
        result.trained.push_back(std::move(first));
        return result;
    }

    // Logical partition l is all[l · group] …, numbered in random order, so the next unseen one is random.
    shuffle(all, key.with(12));
    const std::uint32_t group = std::max(c / 2, 1U), logical = ceil_div(partitions, group);
    std::vector<std::uint32_t> resident;
    random_stream leaving(key.with(13));
    for (std::uint32_t incoming = 0; incoming < logical; ++incoming) {
        if (resident.size() < std::min(c, 2U))
            resident.push_back(incoming);
        else
            resident[static_cast<std::size_t>(leaving.below(resident.size()))] = incoming;
        if (resident.size() < std::min(c, 2U)) continue;
        buffer_state& s = result.states.emplace_back();
        for (const std::uint32_t l : resident)
            for (std::uint32_t i = l * group; i < std::min((l + 1) * group, partitions); ++i)
                s.resident.push_back(all[i]);
        std::ranges::sort(s.resident);
    }
    result.trained.resize(result.states.size());
    std::vector<std::uint64_t> residencies(k);
    std::vector<std::size_t> chosen(k);
    for (std::size_t s = 0; s < result.states.size(); ++s)
        for (const partition_id p : result.states[s].resident) {
            if (p >= k) continue;
            // Reservoir of size one: the n-th state that holds p replaces the choice with probability 1/n.
            const std::uint64_t word = key.with(14).with(p)[residencies[p]];
            if (below(word, ++residencies[p]) == 0) chosen[p] = s;
        }
    for (partition_id p = 0; p < k; ++p) result.trained[chosen[p]].push_back(p);
    return result;
}

} // namespace gneiss
