#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/sample/fanout.hpp>
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
        const auto node = [&] {
            return static_cast<NodeId>(draw.below(draw.below(3) == 0 ? linked / 20 + 1 : linked));
        };
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
    mini_batch::attach(arena.reserve(1))
        .for_each_array([&](std::string_view name, std::size_t, std::span<const std::byte> bytes) {
            all.append(name).append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        });
    return all;
}

/// Checks that samples of several hops have the same arrays on 1, 2, 3 and 8 threads, with targets below, at and above
/// those of one request of the graph; few nodes, so that most neighbors repeat, and many, so that most are new.
template <class Sampler>
void check_threads_around_a_request() {
    for (const std::uint64_t nodes : {4000U, 60000U}) {
        const auto graph = whole_graph(nodes, hub_edges(nodes, 400000, 3));
        constexpr std::size_t request = csr_graph<>::neighbor_batch;
        for (const std::size_t count :
            {std::size_t{1}, request - 1, request, request + 1, 2 * request, 9 * request + 7}) {
            const auto seeds = some_nodes(nodes, count, count);
            Sampler sampler({parse_fanout("20,7,5"), false, true, true}, 1);
            mini_batch_arena one, other;
            CHECK(sampler.sample({}, graph, seeds, serial_executor{}, one).edges() >= 10 * (count - 1));
            for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
                sampler.sample({0, {0, 0, 1}}, graph, seeds, serial_executor{}, other); // leaves scratch contents
                sampler.sample({}, graph, seeds, tbb_executor(threads), other);
                CHECK((contents(one) == contents(other)));
            }
        }
    }
}

} // namespace gneiss::test
