// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/detail/check_lists.hpp>

namespace gneiss {

/// Undirected graph in memory: the neighbors of v are neighbors[offsets[v] … offsets[v + 1]). Both lists contain an
/// edge once per occurrence; self loops are dropped. 8 bytes per node and 8 per edge. Immutable use is thread-safe.
struct symmetric_csr {
    std::vector<edge_index> offsets{0}; ///< [nodes + 1]
    std::vector<node_id> neighbors{};   ///< [arcs]

    [[nodiscard]] std::uint64_t nodes() const noexcept { return offsets.size() - 1; }
    [[nodiscard]] edge_index arcs() const noexcept { return neighbors.size(); }
    [[nodiscard]] std::uint32_t degree(node_id v) const noexcept {
        return static_cast<std::uint32_t>(offsets[v + std::size_t{1}] - offsets[v]);
    }
    /// Returns the neighbors of node v.
    [[nodiscard]] std::span<const node_id> list(node_id v) const noexcept {
        return std::span(neighbors).subspan(static_cast<std::size_t>(offsets[v]), degree(v));
    }
    /// Returns the memory of the lists [bytes].
    [[nodiscard]] std::uint64_t bytes() const noexcept { return 8 * offsets.size() + 4 * neighbors.size(); }
};

/// Builds the undirected graph of a stream of edges; lists are in the order of the stream. Reads it twice. O(nodes +
/// edges).
/// Throws errc::out_of_range for an edge beyond the nodes or a node with 2³² neighbors.
template <edge_stream Stream>
[[nodiscard]] symmetric_csr make_symmetric_csr(Stream& edges) {
    const std::uint64_t nodes = edges.nodes();
    symmetric_csr result;
    // list v begins at v + 1 until all are filled
    result.offsets = huge_page_vector<edge_index>(static_cast<std::size_t>(nodes) + 2);
    const auto for_each_arc = [&](const auto& visit) {
        edges.rewind();
        for (auto chunk = edges.next(); !chunk.empty(); chunk = edges.next())
            for (const auto& e : chunk) {
                if (e.source >= nodes || e.destination >= nodes)
                    throw error(errc::out_of_range,
                        "edge " + std::to_string(e.source) + " -> " + std::to_string(e.destination) +
                            " of a graph of " + std::to_string(nodes) + " nodes");
                if (e.source == e.destination) continue;
                visit(static_cast<std::size_t>(e.source), static_cast<node_id>(e.destination));
                visit(static_cast<std::size_t>(e.destination), static_cast<node_id>(e.source));
            }
    };
    for_each_arc([&](std::size_t v, node_id) { ++result.offsets[v + 2]; });
    for (std::size_t v = 2; v < result.offsets.size(); ++v) {
        if (result.offsets[v] > std::numeric_limits<std::uint32_t>::max())
            throw error(errc::out_of_range, "node " + std::to_string(v - 2) + " has 2^32 neighbors or more");
        result.offsets[v] += result.offsets[v - 1];
    }
    result.neighbors = huge_page_vector<node_id>(static_cast<std::size_t>(result.offsets.back()));
    for_each_arc([&](std::size_t v, node_id u) {
        const auto at = static_cast<std::size_t>(result.offsets[v + 1]++);
        if (at >= result.neighbors.size())
            throw error(errc::invalid_argument, "the second pass over the edges has others than the first");
        result.neighbors[at] = u;
    });
    result.offsets.pop_back();
    return result;
}

/// Says what is missing: any other type.
template <class Stream>
void make_symmetric_csr(Stream& /*edges*/) {
    static_assert(
        edge_stream<Stream>, "make_symmetric_csr: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp");
}

/// Non-owning `adjacency_stream` over a graph in memory: `chunk` lists at a time, fewer if they reach 2³¹ arcs. Memory:
/// 4 bytes per list of a chunk; neighbors are not copied.
class symmetric_stream {
public:
    /// The graph outlives the stream. Throws errc::invalid_argument for chunks of no lists, offsets that do not ascend
    /// from 0 to the number of neighbors, neighbors beyond the nodes, and a node with 2³² neighbors. That each edge is
    /// in both lists is not checked. O(nodes + arcs).
    explicit symmetric_stream(const symmetric_csr& graph, std::size_t chunk = 65536) : graph_(&graph), chunk_(chunk) {
        if (chunk == 0) throw error(errc::invalid_argument, "a stream needs chunks of at least one list");
        detail::check_lists(
            std::span(graph.offsets), std::span(graph.neighbors), std::numeric_limits<std::uint32_t>::max());
    }
    explicit symmetric_stream(const symmetric_csr&&, std::size_t = 0) = delete; // the graph must outlive the stream

    [[nodiscard]] adjacency_chunk next() {
        const auto nodes = static_cast<std::size_t>(graph_->nodes()), first = at_;
        if (first == nodes) return {};
        const edge_index begin = graph_->offsets[first];
        offsets_.assign(1, 0);
        do offsets_.push_back(static_cast<std::uint32_t>(graph_->offsets[++at_] - begin));
        while (at_ < nodes && at_ - first < chunk_ && graph_->offsets[at_ + 1] - begin < edge_index{1} << 31);
        return {static_cast<node_id>(first), offsets_,
            std::span(graph_->neighbors).subspan(static_cast<std::size_t>(begin), offsets_.back())};
    }
    void rewind() noexcept { at_ = 0; }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return graph_->nodes(); }
    [[nodiscard]] edge_index arcs() const noexcept { return graph_->arcs(); }

private:
    const symmetric_csr* graph_;
    std::size_t chunk_, at_ = 0;
    std::vector<std::uint32_t> offsets_;
};

static_assert(adjacency_stream<symmetric_stream>);

} // namespace gneiss
