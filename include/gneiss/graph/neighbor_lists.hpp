// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// Complete neighbor lists of some nodes, for samplers that examine every neighbor before they choose.
///
///     neighbor_lists<> lists;
///     lists.read(graph, nodes, neighbor_direction::in);
///     for (std::size_t i = 0; i < lists.size(); ++i) choose(nodes[i], lists[i]);
///
/// Memory: 8 bytes per neighbor and 8 per node, kept between calls. Thread-safety: one thread.
template <node_id_type NodeId = node_id>
class neighbor_lists {
public:
    /// Reads the lists of `ids` in one call to the graph. Throws errc::out_of_range for 2³² neighbors or more in total,
    /// and errors of the graph. O(neighbors).
    template <neighbor_source G>
    void read(const G& graph, std::span<const NodeId> ids, neighbor_direction direction) {
        offsets_.resize(ids.size() + 1);
        offsets_[0] = 0;
        graph.degrees(ids, direction, std::span(offsets_).subspan(1));
        std::uint64_t end = 0;
        for (std::uint32_t& offset : std::span(offsets_).subspan(1)) {
            end += offset;
            if (end > std::numeric_limits<std::uint32_t>::max())
                throw error(errc::out_of_range,
                    "the lists of " + std::to_string(ids.size()) +
                        " nodes have 2^32 neighbors or more: read fewer at once");
            offset = static_cast<std::uint32_t>(end);
        }
        neighbors_.resize(static_cast<std::size_t>(end));
        positions_.resize(neighbors_.size());
        for (std::size_t i = 0; i < ids.size(); ++i)
            std::iota(positions_.begin() + offsets_[i], positions_.begin() + offsets_[i + 1], 0U);
        graph.neighbors_at({ids, direction, offsets_, positions_}, {.neighbors = neighbors_});
    }

    /// Returns the number of lists.
    [[nodiscard]] std::size_t size() const noexcept { return offsets_.empty() ? 0 : offsets_.size() - 1; }
    /// Neighbors of the i-th node, in the graph's order. Precondition: i < size().
    [[nodiscard]] std::span<const NodeId> operator[](std::size_t i) const noexcept {
        return std::span(neighbors_).subspan(offsets_[i], offsets_[i + 1] - offsets_[i]);
    }
    /// [size() + 1], as `add_hop` takes them
    [[nodiscard]] std::span<const std::uint32_t> offsets() const noexcept { return offsets_; }
    [[nodiscard]] std::span<const NodeId> neighbors() const noexcept { return neighbors_; } ///< all lists, concatenated

private:
    std::vector<std::uint32_t> offsets_, positions_;
    std::vector<NodeId> neighbors_;
};

} // namespace gneiss
