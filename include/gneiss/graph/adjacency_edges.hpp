#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>

namespace gneiss {

/// The edges of an adjacency stream as an `edge_stream`: each once, as often as it occurs, from its greater node, in the order of
/// the lists. Self loops are left out. Memory: 12 bytes an edge of a chunk. Uses the stream as long as it lives.
template <adjacency_stream Stream>
class adjacency_edges {
public:
    using edge_type = edge;

    /// Precondition: `graph` outlives this, and lists no self loops if `edges()` is to be right.
    explicit adjacency_edges(Stream& graph) : graph_(&graph) {}

    [[nodiscard]] std::span<const edge> next() {
        edges_.clear();
        while (edges_.empty()) {
            const adjacency_chunk chunk = graph_->next();
            if (chunk.empty()) break;
            for (std::size_t i = 0; i < chunk.size(); ++i)
                for (const node_id u : chunk.list(i))
                    if (u < chunk.node(i)) edges_.push_back({chunk.node(i), 0, u});
        }
        return edges_;
    }
    void rewind() { graph_->rewind(); }
    [[nodiscard]] std::uint64_t nodes() const { return graph_->nodes(); }
    [[nodiscard]] edge_index edges() const { return graph_->arcs() / 2; }

private:
    Stream* graph_;
    std::vector<edge> edges_;
};

static_assert(edge_stream<adjacency_edges<any_adjacency>>);

} // namespace gneiss
