// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <gneiss/core/types.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// Targets of nodes: a row of numbers for each, NaN where one is missing.
struct node_targets {
    std::uint64_t nodes = 0; ///< number of nodes
    std::size_t columns = 0; ///< targets of a node; 0: there are none
    /// Writes the targets of some nodes [nodes, columns]. Thread-safe.
    std::function<void(std::span<const node_id> nodes, std::span<float> out)> read{};

    /// Writes the targets of a batch's seeds.
    void read_seeds(training_batch& b) const {
        b.targets.resize(b.seeds.size() * columns);
        read(b.seeds, b.targets);
    }
};

} // namespace gneiss
