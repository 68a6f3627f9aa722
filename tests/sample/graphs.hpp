#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss::test {

/// Random edges between the first two thirds of the nodes, with a few hubs, repeated edges and self loops; the rest is
/// isolated.
template <node_id_type NodeId = node_id>
std::vector<basic_edge<NodeId>> hub_edges(std::uint64_t nodes, std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    const std::uint64_t linked = nodes - nodes / 3;
    std::vector<basic_edge<NodeId>> edges(count);
    for (auto& e : edges) {
        const auto node = [&] { return static_cast<NodeId>(draw.below(draw.below(3) == 0 ? linked / 20 + 1 : linked)); };
        e = {node(), static_cast<relation_id>(draw.below(3)), node()};
        if (draw.below(20) == 0) e.destination = e.source;
    }
    return edges;
}

/// Returns the graph with all optional arrays.
template <node_id_type NodeId>
csr_graph<NodeId> whole_graph(std::uint64_t nodes, const std::vector<basic_edge<NodeId>>& edges) {
    edge_list<NodeId> stream(nodes, edges);
    return make_csr_graph(stream, neighbor_direction::both, {.relations = true, .edge_ids = true});
}

/// Returns `count` distinct nodes.
template <node_id_type NodeId = node_id>
std::vector<NodeId> some_nodes(std::uint64_t nodes, std::size_t count, std::uint64_t seed) {
    std::vector<NodeId> all(static_cast<std::size_t>(nodes));
    for (std::size_t v = 0; v < all.size(); ++v) all[v] = static_cast<NodeId>(v);
    shuffle(all, random_key(seed, random_domain::user));
    all.resize(count);
    return all;
}

/// True if the edge leads from node `v` to `neighbor` in the lists of the fan-out.
template <node_id_type NodeId>
bool joins(const basic_edge<NodeId>& e, NodeId v, NodeId neighbor, bool in, bool out) {
    return (in && e.destination == v && e.source == neighbor) || (out && e.source == v && e.destination == neighbor);
}

/// Returns names and contents of all arrays of the batch in an arena, without the padding between them.
inline std::string contents(mini_batch_arena& arena) {
    std::string all;
    mini_batch::attach(arena.reserve(1)).for_each_array([&](std::string_view name, std::size_t, std::span<const std::byte> bytes) {
        all.append(name).append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    return all;
}

} // namespace gneiss::test
