// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss::detail {

/// Writes a sample from lists of neighbors that are chosen by someone else: `neighbor_sample_writer`, and
/// `dense_sample_writer`. `Arrays` numbers the nodes and lays out the arrays of a `Sample`.
template <node_id_type NodeId, class Arrays, class Sample>
class sample_writer {
public:
    /// \param nodes  number of nodes of the graph
    /// Throws `invalid_argument` for a repeated seed, `out_of_range` for one beyond the graph.
    void begin(std::uint64_t nodes, std::span<const NodeId> seeds) {
        graph_.count = nodes;
        edges_ = 0;
        relations_ = edge_ids_ = false;
        sample_.begin(graph_, seeds);
    }
    /// Nodes whose neighbors the next hop lists, in this order. Valid until `add_hop`.
    [[nodiscard]] std::span<const NodeId> nodes() const noexcept { return sample_.nodes(); }

    /// Adds the next hop.
    /// \param offsets    [nodes() + 1] into neighbors, ascending from 0 to their number
    /// \param neighbors  [edges] ids of nodes; may repeat
    /// \param relations  [edges], or empty in every hop; likewise edge_ids
    /// Throws `invalid_argument` for invalid lists, naming the hop and the position.
    template <executor E = serial_executor>
    void add_hop(std::span<const std::uint32_t> offsets, std::span<const NodeId> neighbors,
        std::span<const relation_id> relations = {}, std::span<const edge_index> edge_ids = {},
        const E& executor = {}) {
        check(offsets, neighbors);
        check_optional("relations", relations.size(), neighbors.size(), relations_);
        check_optional("edge ids", edge_ids.size(), neighbors.size(), edge_ids_);
        edges_ += neighbors.size();
        hop_edges<NodeId>& to = sample_.next_hop();
        to.offsets.assign(offsets.begin(), offsets.end());
        to.neighbors.assign(neighbors.begin(), neighbors.end());
        to.relations.assign(relations.begin(), relations.end());
        to.edge_ids.assign(edge_ids.begin(), edge_ids.end());
        to.numbers.resize(neighbors.size());
        sample_.numbering().number(neighbors, std::span(to.numbers), executor);
        sample_.end_hop();
    }

    /// Writes the sample into `arena`, alone. Valid until the arena is used again.
    Sample write(const batch_key& batch, mini_batch_arena& arena) const {
        mini_batch result = mini_batch::format(arena.reserve(mini_batch::header_bytes() + bytes_needed()), batch);
        return write(result);
    }
    /// Number of bytes that `write` adds to a mini-batch.
    [[nodiscard]] std::size_t bytes_needed() const noexcept { return sample_.bytes_needed(relations_, edge_ids_); }
    /// Adds the arrays to a mini-batch. Throws `out_of_range` if they do not fit.
    Sample write(mini_batch& to) const {
        sample_.write(to, relations_, edge_ids_);
        return Sample::of(to);
    }

private:
    struct graph_size {
        std::uint64_t count = 0;
        [[nodiscard]] std::uint64_t nodes() const noexcept { return count; }
    };

    [[noreturn]] void refuse(const std::string& what) const {
        throw error(errc::invalid_argument, "hop " + std::to_string(sample_.hops()) + " of a sample " + what);
    }
    void check(std::span<const std::uint32_t> offsets, std::span<const NodeId> neighbors) const {
        if (offsets.size() != nodes().size() + 1)
            refuse("has " + std::to_string(offsets.size()) + " offsets for " + std::to_string(nodes().size()) +
                " nodes, one more is needed");
        if (offsets[0] != 0) refuse("has offset 0 at " + std::to_string(offsets[0]));
        for (std::size_t i = 1; i < offsets.size(); ++i)
            if (offsets[i] < offsets[i - 1])
                refuse("has offset " + std::to_string(i) + " at " + std::to_string(offsets[i]) +
                    ", below the one before it, " + std::to_string(offsets[i - 1]));
        if (offsets.back() != neighbors.size())
            refuse("has " + std::to_string(neighbors.size()) + " neighbors, its last offset is " +
                std::to_string(offsets.back()));
        for (std::size_t e = 0; e < neighbors.size(); ++e)
            if (neighbors[e] >= graph_.count)
                refuse("has node " + std::to_string(neighbors[e]) + " at position " + std::to_string(e) +
                    ", of a graph of " + std::to_string(graph_.count) + " nodes");
    }
    void check_optional(const char* what, std::size_t count, std::size_t edges, bool& wanted) const {
        if (count != 0 && count != edges)
            refuse("has " + std::to_string(count) + ' ' + what + " for " + std::to_string(edges) + " neighbors");
        if (edges_ == 0)
            wanted = count != 0;
        else if (edges != 0 && wanted != (count != 0))
            refuse(std::string("differs from those before it in having ") + what);
    }

    Arrays sample_;
    graph_size graph_;
    std::uint64_t edges_ = 0;
    bool relations_ = false, edge_ids_ = false;
};

} // namespace gneiss::detail
