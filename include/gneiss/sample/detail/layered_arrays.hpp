// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/detail/node_numbering.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss::detail {

/// Hops of a layered sample, and the arrays from which `neighbor_sample` reads them. Memory is kept between samples.
template <node_id_type NodeId>
class layered_arrays {
public:
    /// Resets the hops and numbers the seeds 0, 1, …. Errors as in `number_seeds`. `graph` has nodes().
    template <class G>
    void begin(const G& graph, std::span<const NodeId> seeds) {
        number_seeds(numbering_, graph, seeds);
        node_counts_.assign(1, static_cast<std::uint32_t>(seeds.size()));
    }
    [[nodiscard]] std::size_t hops() const noexcept { return node_counts_.size() - 1; }
    /// Known nodes, by number: the targets of the next hop.
    [[nodiscard]] std::span<const NodeId> nodes() const noexcept { return numbering_.nodes(); }
    /// Storage for the edges of the next hop, before `end_hop`.
    [[nodiscard]] hop_edges<NodeId>& next_hop() {
        if (hops_.size() == hops()) hops_.emplace_back();
        return hops_[hops()];
    }
    /// Numbers all nodes; a hop's neighbors are numbered before its end.
    [[nodiscard]] node_numbering<NodeId>& numbering() noexcept { return numbering_; }
    /// Ends the next hop, whose neighbors are numbered.
    void end_hop() { node_counts_.push_back(static_cast<std::uint32_t>(numbering_.nodes().size())); }

    /// Number of bytes that `write` adds to a mini-batch.
    [[nodiscard]] std::size_t bytes_needed(bool relations, bool edge_ids) const noexcept {
        std::size_t offsets = 0, edges = 0;
        for (const auto& hop : drawn()) {
            offsets += hop.offsets.size();
            edges += hop.neighbors.size();
        }
        const auto bytes = [](std::size_t count, std::size_t width) { return mini_batch::array_bytes(count, width); };
        return bytes(nodes().size(), sizeof(NodeId)) + 2 * bytes(node_counts_.size(), 4) + bytes(offsets, 4) +
            bytes(edges, 4) + bytes(relations ? edges : 0, sizeof(relation_id)) +
            bytes(edge_ids ? edges : 0, sizeof(edge_index));
    }

    /// Adds the arrays of `neighbor_sample`. Throws `out_of_range` if they do not fit.
    void write(mini_batch& to, bool relations, bool edge_ids) const {
        std::vector<std::uint32_t> edge_counts{0};
        std::size_t offsets = 0, edges = 0;
        for (const auto& hop : drawn()) {
            offsets += hop.offsets.size();
            edges += hop.neighbors.size();
            if (edges >> 32 != 0) throw error(errc::out_of_range, "a sample has 2^32 edges or more");
            edge_counts.push_back(static_cast<std::uint32_t>(edges));
        }
        std::ranges::copy(nodes(), to.add<NodeId>("sample_nodes", nodes().size()).begin());
        std::ranges::copy(node_counts_, to.add<std::uint32_t>("node_counts", node_counts_.size()).begin());
        std::ranges::copy(edge_counts, to.add<std::uint32_t>("edge_counts", edge_counts.size()).begin());
        auto offsets_at = to.add<std::uint32_t>("offsets", offsets).begin();
        auto neighbors_at = to.add<std::uint32_t>("neighbors", edges).begin();
        auto relations_at = to.add<relation_id>("edge_relations", relations ? edges : 0).begin();
        auto ids_at = to.add<edge_index>("edge_ids", edge_ids ? edges : 0).begin();
        for (std::size_t h = 0; h < hops(); ++h) {
            offsets_at = std::ranges::copy(hops_[h].offsets, offsets_at).out;
            neighbors_at = std::ranges::copy(hops_[h].numbers, neighbors_at).out;
            if (relations) relations_at = std::ranges::copy(hops_[h].relations, relations_at).out;
            if (edge_ids) ids_at = std::ranges::copy(hops_[h].edge_ids, ids_at).out;
        }
    }

private:
    [[nodiscard]] std::span<const hop_edges<NodeId>> drawn() const noexcept { return std::span(hops_).first(hops()); }

    node_numbering<NodeId> numbering_;
    std::vector<hop_edges<NodeId>> hops_; // the first hops() belong to the sample
    std::vector<std::uint32_t> node_counts_{0};
};

} // namespace gneiss::detail
