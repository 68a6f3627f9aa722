// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/batches.hpp>

namespace gneiss {

/// Training nodes of a state, shuffled by (seed, epoch, state), again in each further pass, and cut into batches of
/// equal sizes. Batch k of a pass is a function of its number. Thread-safe.
///
///     const node_batches batches(nodes, 1000, seed, epoch, state);
///     for (std::uint64_t k = 0; k < batches.size(); ++k) batches.choose(k, seeds);
class node_batches {
public:
    /// \param nodes  distinct: samplers refuse a batch that names a node twice
    /// \param batch  most nodes of a batch
    /// Throws errc::invalid_argument for batches without nodes, errc::out_of_range for 2³² nodes.
    node_batches(
        std::vector<node_id> nodes, std::uint64_t batch, std::uint64_t seed, std::uint64_t epoch, std::uint32_t state)
        : nodes_(std::move(nodes)),
          batch_(batch),
          key_(edge_shuffle_key(seed, epoch, state)),
          first_pass_(cut(0)) {}

    /// Returns the nodes, in the order given.
    [[nodiscard]] std::span<const node_id> nodes() const noexcept { return nodes_; }
    /// Returns the number of batches of a pass.
    [[nodiscard]] std::uint64_t size() const noexcept { return first_pass_.size(); }

    /// Writes the nodes of batch `index` of a pass, the seeds of its sample. O(batch). Throws errc::out_of_range for a
    /// batch beyond the pass.
    void choose(std::uint64_t index, std::vector<node_id>& seeds, std::uint32_t pass = 0) const {
        if (index >= size())
            throw error(
                errc::out_of_range, "batch " + std::to_string(index) + " of a pass of " + std::to_string(size()));
        std::vector<edge_position> positions(static_cast<std::size_t>(first_pass_.batch_edges(index)));
        (pass == 0 ? first_pass_ : cut(pass)).fill(index, positions);
        seeds.resize(positions.size());
        for (std::size_t i = 0; i < positions.size(); ++i) seeds[i] = nodes_[positions[i].edge];
    }

private:
    [[nodiscard]] state_batches cut(std::uint32_t pass) const {
        const edge_index count = nodes_.size();
        return {std::span(&count, 1), batch_, pass == 0 ? key_ : key_.with(pass)};
    }

    std::vector<node_id> nodes_;
    std::uint64_t batch_;
    random_key key_;
    state_batches first_pass_;
};

/// Looks up the labels of a batch's seeds. Throws errc::out_of_range for an invalid label, naming the node, and for a
/// node beyond the labels.
inline void labels_of(
    std::span<const node_id> seeds, std::span<const class_id> labels, std::size_t classes, std::vector<class_id>& to) {
    to.resize(seeds.size());
    for (std::size_t i = 0; i < seeds.size(); ++i) {
        if (seeds[i] >= labels.size())
            throw error(errc::out_of_range,
                "node " + std::to_string(seeds[i]) + " has no label: there are " + std::to_string(labels.size()));
        to[i] = labels[seeds[i]];
        if (to[i] != unlabeled && to[i] >= classes)
            throw error(errc::out_of_range,
                "node " + std::to_string(seeds[i]) + " has the label " + std::to_string(to[i]) + " of " +
                    std::to_string(classes) + " classes");
    }
}

} // namespace gneiss
