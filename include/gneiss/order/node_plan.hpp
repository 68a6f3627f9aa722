// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Plan of one epoch over nodes: the resident partitions and the training nodes of each state. Plain data.
struct node_plan {
    /// without edge buckets: all edges between resident nodes are sampled
    epoch_plan states;
    std::vector<std::vector<partition_id>>
        trained; ///< [states] partitions whose training nodes train in that state, ascending
    /// Number of leading partitions that are in every state. Each of their training nodes trains in the state of its
    /// home, or in a random one, by the key.
    std::uint32_t pinned = 0;
    random_key pinned_key{0, random_domain::plan}; ///< key of the states of pinned nodes

    /// Compares states, trained partitions and the pinned ones.
    friend bool operator==(const node_plan& a, const node_plan& b) {
        return a.states == b.states && a.trained == b.trained && a.pinned == b.pinned &&
            a.pinned_key.value() == b.pinned_key.value();
    }
};

/// Appends the nodes that train in state `s`: those of its trained partitions, then the pinned nodes assigned to it.
/// Over all states, each training node of a trained or pinned partition appears once.
///
/// \param training  training nodes, ascending
/// \param homes     [pinned nodes] or empty: partition that holds most neighbors of a pinned node. The node trains in
/// the state
///                  that trains its home, else, as for a pinned partition, in a random one.
/// Cost: O(nodes appended + pinned training nodes · log macro + partitions log nodes). Precondition: a home is trained
/// once an epoch, or pinned.
inline void append_training_nodes(const node_plan& epoch, std::uint32_t s, const row_partitioning& rows,
    std::span<const node_id> training, std::vector<node_id>& out, std::span<const partition_id> homes = {}) {
    for (const partition_id p : epoch.trained[s]) {
        const auto first = std::ranges::lower_bound(training, rows.begin(p));
        out.insert(out.end(), first, std::ranges::lower_bound(first, training.end(), rows.begin(p + 1)));
    }
    const std::uint64_t states = epoch.states.size(), hubs = rows.begin(epoch.pinned);
    const auto here = [&](node_id hub) {
        if (homes.empty() || homes[hub] < epoch.pinned) return below(epoch.pinned_key[hub], states) == s;
        return std::ranges::binary_search(epoch.trained[s], homes[hub]);
    };
    for (auto node = training.begin(); node != training.end() && *node < hubs; ++node)
        if (here(*node)) out.push_back(*node);
}

} // namespace gneiss
