#include <gneiss/graph/without_nodes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/grem_partitioner.hpp>

namespace test_graph_without_nodes {

using namespace gneiss;

namespace {

symmetric_csr graph_of(std::uint64_t nodes, const std::vector<edge>& edges) {
    edge_list<> stream(nodes, edges, 7);
    return make_symmetric_csr(stream);
}

} // namespace

TEST_CASE("the graph without the edges of some nodes, in every pass and whatever the chunk") {
    std::vector<edge> all, kept;
    random_stream draw(random_key(1, random_domain::user));
    for (int e = 0; e < 300; ++e)
        all.push_back({static_cast<node_id>(draw.below(50)), 0, static_cast<node_id>(draw.below(50))});
    for (const std::vector<node_id>& gone : std::vector<std::vector<node_id>>{{}, {49}, {17, 3, 17, 0, 22}}) {
        const auto stays = [&](node_id v) { return std::ranges::find(gone, v) == gone.end(); };
        kept.clear();
        std::ranges::copy_if(
            all, std::back_inserter(kept), [&](const edge& e) { return stays(e.source) && stays(e.destination); });
        const symmetric_csr graph = graph_of(50, all), expected = graph_of(50, kept);
        for (const std::size_t chunk : {1U, 3U, 50U}) {
            any_adjacency rest = without_nodes(any_adjacency(symmetric_stream(graph, chunk)), gone);
            CHECK(rest.nodes() == 50);
            CHECK(rest.arcs() == expected.arcs());
            for (int pass = 0; pass < 2; ++pass, rest.rewind()) {
                node_id v = 0;
                for (adjacency_chunk got = rest.next(); !got.empty(); got = rest.next())
                    for (std::size_t i = 0; i < got.size(); ++i, ++v) {
                        CHECK(got.node(i) == v);
                        CHECK(std::ranges::equal(got.list(i), expected.list(v)));
                    }
                CHECK(v == 50);
            }
        }
    }
}

TEST_CASE("what is no node is refused") {
    const symmetric_csr graph = graph_of(5, {{0, 0, 1}});
    std::string text;
    try {
        const without_nodes rest(symmetric_stream(graph, 5), std::vector<node_id>{1, 5});
    } catch (const error& e) {
        CHECK(e.code() == errc::out_of_range);
        text = e.what();
    }
    CHECK(text.find("node 5 of 5 nodes") != std::string::npos);
}

TEST_CASE("GREM finds the parts that hubs join") {
    std::vector<edge> edges; // two cliques of the odd and the even nodes, and a hub
    for (node_id v = 0; v < 40; ++v) {
        edges.push_back({v, 0, 40});
        for (node_id u = v + 2; u < 40; u += 2) edges.push_back({v, 0, u});
    }
    const symmetric_csr graph = graph_of(41, edges);
    without_nodes rest(symmetric_stream(graph, 8), std::vector<node_id>{40});
    memory_scratch<> place;
    const auto parts = grem_partitioner{{.chunk = 1}}(rest, {.parts = 2}, place, serial_executor{});
    for (node_id v = 2; v < 40; ++v) CHECK(parts[v] == parts[v % 2]);
    CHECK(parts[0] != parts[1]);
}

} // namespace test_graph_without_nodes
