#include <gneiss/graph/neighbor_lists.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>

namespace test_graph_neighbor_lists {

using namespace gneiss;

TEST_CASE("lists read in batches equal those of each node, in any order of nodes and in each direction") {
    random_stream draw(random_key(1, random_domain::user));
    std::vector<edge> edges(300);
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(40)), 0, static_cast<node_id>(draw.below(40))};
    edge_list<> stream(41, edges); // node 40 has no edges
    const auto graph = make_csr_graph(stream, neighbor_direction::both);
    neighbor_lists<> lists;
    CHECK(lists.size() == 0);
    for (const std::vector<node_id>& nodes : {std::vector<node_id>{40}, {7, 40, 3, 7, 0}, {}, {39, 1}}) {
        lists.read(graph, std::span<const node_id>(nodes), neighbor_direction::in);
        REQUIRE(lists.size() == nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i)
            CHECK(std::ranges::equal(lists[i], graph.in().neighbors(nodes[i])));
        CHECK(lists.offsets().back() == lists.neighbors().size());

        lists.read(graph, std::span<const node_id>(nodes), neighbor_direction::both);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            std::vector<node_id> expected(
                graph.out().neighbors(nodes[i]).begin(), graph.out().neighbors(nodes[i]).end());
            const auto in = graph.in().neighbors(nodes[i]);
            std::ranges::copy_if(in, std::back_inserter(expected),
                [&](node_id u) { return u != nodes[i]; }); // a self loop is one neighbor
            CHECK(std::ranges::equal(lists[i], expected));
        }
    }
}

TEST_CASE("lists of a direction that the graph does not store are refused") {
    std::vector<edge> edges{{0, 0, 1}};
    edge_list<> stream(2, edges);
    const auto graph = make_csr_graph(stream, neighbor_direction::in);
    neighbor_lists<> lists;
    const std::vector<node_id> nodes{0};
    CHECK_THROWS_AS(lists.read(graph, std::span<const node_id>(nodes), neighbor_direction::out), error);
}

} // namespace test_graph_neighbor_lists
