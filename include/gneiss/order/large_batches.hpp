// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/batches.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// The training nodes of an epoch in random large batches, the macro-batches of large-batch sampling (LBS): each
/// neighborhood is sampled once for a large batch, and batches are sampled within it.
///
///     const large_batches cut(training, 100'000, seed, epoch);
///     for (std::uint64_t m = 0; m < cut.size(); ++m) cut.choose(m, nodes);
///
/// There are as few as `most` allows, and their sizes differ by at most one node. Every training node is in one. One
/// large batch is all of the training nodes, as they are without LBS.
/// Pure function of its arguments. Key (seed, plan, epoch, 17). Thread-safe.
/// Source: Joestar, thesis, §5.2.1.
class large_batches {
public:
    /// \param training  distinct; a view, which outlives this
    /// \param most      most nodes of a large batch
    /// Throws errc::invalid_argument for `most` = 0, errc::out_of_range for 2³² training nodes.
    large_batches(std::span<const node_id> training, std::uint64_t most, std::uint64_t seed, std::uint64_t epoch)
        : training_(training),
          cut_(cut(training.size(), most, seed, epoch)) {}

    /// Returns the number of large batches.
    [[nodiscard]] std::uint64_t size() const noexcept { return cut_.size(); }
    /// Returns the states of an epoch, one for each large batch: all nodes are in one partition.
    [[nodiscard]] epoch_plan states() const {
        return epoch_plan(static_cast<std::size_t>(size()), buffer_state{.resident = {0}, .edge_buckets = {}});
    }
    /// Writes the nodes of large batch `index`, ascending. O(n log n) for n nodes. Throws errc::out_of_range for one
    /// beyond the epoch.
    void choose(std::uint64_t index, std::vector<node_id>& nodes) const {
        if (index >= size())
            throw error(errc::out_of_range,
                "large batch " + std::to_string(index) + " of an epoch of " + std::to_string(size()));
        std::vector<edge_position> positions(static_cast<std::size_t>(cut_.batch_edges(index)));
        cut_.fill(index, positions);
        nodes.resize(positions.size());
        for (std::size_t i = 0; i < positions.size(); ++i) nodes[i] = training_[positions[i].edge];
        std::ranges::sort(nodes);
    }

private:
    [[nodiscard]] static state_batches cut(
        std::uint64_t nodes, std::uint64_t most, std::uint64_t seed, std::uint64_t epoch) {
        if (most == 0) throw error(errc::invalid_argument, "a large batch needs at least one node");
        const edge_index count = nodes;
        return {std::span(&count, 1), most, random_key{seed, random_domain::plan}.with(epoch).with(17)};
    }

    std::span<const node_id> training_;
    state_batches cut_;
};

} // namespace gneiss
