// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>

namespace gneiss {

/// An undirected graph without the edges of some nodes, which stay in it as isolated nodes: a partitioner then divides
/// the edges among all others, as if hubs that every worker holds were gone.
///
///     without_nodes rest(std::move(lists), hubs);
///     const auto parts = grem_partitioner{}(rest, {.parts = 8}, place, executor);
///
/// Cost: a pass over the lists at construction, to count; a copy of each chunk. Memory: a bit per node, and a chunk.
/// Source: Armada, section 4 (nodes that are replicated, and GREM for the others).
template <adjacency_stream Stream>
class without_nodes {
public:
    /// \param graph  read once, then rewound
    /// \param nodes  that lose their edges, in any order
    /// Throws errc::out_of_range for what is no node.
    without_nodes(Stream graph, std::span<const node_id> nodes)
        : graph_(std::move(graph)),
          gone_(static_cast<std::size_t>(graph_.nodes())) {
        for (const node_id v : nodes) {
            if (v >= gone_.size())
                throw error(
                    errc::out_of_range, "node " + std::to_string(v) + " of " + std::to_string(gone_.size()) + " nodes");
            gone_[v] = true;
        }
        graph_.rewind();
        while (!next().empty()) arcs_ += neighbors_.size();
        graph_.rewind();
    }

    [[nodiscard]] adjacency_chunk next() {
        const adjacency_chunk from = graph_.next();
        offsets_.assign(from.empty() ? 0 : 1, 0);
        neighbors_.clear();
        for (std::size_t i = 0; i < from.size(); ++i) {
            if (!gone_[from.node(i)])
                for (const node_id u : from.list(i))
                    if (!gone_[u]) neighbors_.push_back(u);
            offsets_.push_back(static_cast<std::uint32_t>(neighbors_.size()));
        }
        return {.first = from.first, .offsets = offsets_, .neighbors = neighbors_};
    }
    void rewind() { graph_.rewind(); }
    [[nodiscard]] std::uint64_t nodes() const { return graph_.nodes(); }
    [[nodiscard]] edge_index arcs() const { return arcs_; }

private:
    Stream graph_;
    std::vector<bool> gone_; // by node
    edge_index arcs_ = 0;
    std::vector<std::uint32_t> offsets_;
    std::vector<node_id> neighbors_;
};

/// Deduces the stream.
template <class Stream>
without_nodes(Stream, std::span<const node_id>) -> without_nodes<Stream>;

} // namespace gneiss
