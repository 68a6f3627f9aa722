#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/weighted_graph.hpp>

namespace gneiss::test {

/// Weight of each edge, the smaller end first.
using edge_map = std::map<std::pair<node_id, node_id>, std::uint64_t>;

inline edge_map random_edges(node_id nodes, std::size_t tries, std::uint64_t heaviest, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user}.with(1));
    edge_map edges;
    for (std::size_t i = 0; i < tries; ++i) {
        const auto a = static_cast<node_id>(draw.below(nodes)), b = static_cast<node_id>(draw.below(nodes));
        if (a != b) edges[{std::min(a, b), std::max(a, b)}] = 1 + draw.below(heaviest);
    }
    return edges;
}

/// Returns a graph whose nodes weigh from 1 to `heaviest`, at random.
inline weighted_graph weighted(
    node_id nodes, const edge_map& edges, std::uint64_t heaviest = 1, std::uint64_t seed = 0) {
    std::vector<std::vector<std::pair<node_id, std::uint64_t>>> lists(nodes);
    for (const auto& [edge, weight] : edges) {
        lists[edge.first].emplace_back(edge.second, weight);
        lists[edge.second].emplace_back(edge.first, weight);
    }
    random_stream draw(random_key{seed, random_domain::user}.with(2));
    weighted_graph graph;
    for (const auto& list : lists) {
        for (const auto& [u, w] : list) {
            graph.neighbors.push_back(u);
            graph.edge_weights.push_back(static_cast<std::uint32_t>(w));
        }
        graph.offsets.push_back(graph.neighbors.size());
        graph.node_weights.push_back(static_cast<std::uint32_t>(1 + draw.below(heaviest)));
    }
    return graph;
}

inline edge_map edges_of(const weighted_graph& graph) {
    edge_map edges;
    for (node_id v = 0; v < graph.nodes(); ++v)
        graph.for_each(v, [&](node_id u, std::uint32_t w) {
            if (v < u) edges[{v, u}] += w;
        });
    return edges;
}

/// Returns two cliques of `size` nodes, joined by one edge.
inline edge_map two_cliques(node_id size) {
    edge_map edges{{{size - 1, size}, 1}};
    for (const node_id first : {node_id{0}, size})
        for (node_id a = first; a < first + size; ++a)
            for (node_id b = a + 1; b < first + size; ++b) edges[{a, b}] = 1;
    return edges;
}

inline edge_map grid(node_id width, node_id height) {
    edge_map edges;
    for (node_id y = 0; y < height; ++y)
        for (node_id x = 0; x < width; ++x) {
            if (x + 1 < width) edges[{y * width + x, y * width + x + 1}] = 1;
            if (y + 1 < height) edges[{y * width + x, (y + 1) * width + x}] = 1;
        }
    return edges;
}

} // namespace gneiss::test
