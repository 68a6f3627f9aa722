#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/rmat.hpp>

namespace gneiss::bench {

/// Nodes of `rmat_graph`.
inline constexpr std::uint64_t rmat_nodes = std::uint64_t{1} << 20;

/// Returns the graph that samplers read: RMAT, 16 M edges, incoming, with edge ids. Made at the first call.
inline const csr_graph<>& rmat_graph() {
    static const csr_graph<> result = [] {
        const rmat<> edges({.nodes = rmat_nodes, .edges = 16 * rmat_nodes, .seed = 1});
        std::vector<edge> all(static_cast<std::size_t>(edges.edges()));
        edges.fill(0, all);
        edge_list<> stream(rmat_nodes, std::move(all));
        return make_csr_graph(stream, neighbor_direction::in, {.edge_ids = true});
    }();
    return result;
}

} // namespace gneiss::bench
