#include <gneiss/graph/symmetric.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>

namespace test_graph_symmetric {

using namespace gneiss;

namespace {

symmetric_csr random_graph(std::uint64_t nodes, std::size_t edges, std::vector<edge>& kept) {
    random_stream draw(random_key(nodes + edges, random_domain::user));
    for (std::size_t e = 0; e < edges; ++e)
        kept.push_back({static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))});
    edge_list<> stream(nodes, kept, 7);
    return make_symmetric_csr(stream);
}

} // namespace

TEST_CASE("an edge is in the lists of both its ends as often as it occurs, a self loop in none") {
    for (const std::uint64_t nodes : {1U, 2U, 5U, 40U})
        for (const std::size_t count : {0U, 1U, 30U, 300U}) {
            std::vector<edge> edges;
            const symmetric_csr graph = random_graph(nodes, count, edges);
            REQUIRE(graph.nodes() == nodes);
            edge_index arcs = 0;
            for (node_id v = 0; v < nodes; ++v) {
                std::vector<node_id> expected;
                for (const edge& e : edges) {
                    if (e.source == e.destination) continue;
                    if (e.source == v) expected.push_back(e.destination);
                    if (e.destination == v) expected.push_back(e.source);
                }
                const auto list = graph.list(v);
                CHECK(std::vector<node_id>(list.begin(), list.end()) == expected);
                CHECK(graph.degree(v) == expected.size());
                arcs += expected.size();
            }
            CHECK(graph.arcs() == arcs);
        }
}

TEST_CASE("a stream returns every list once per pass, whatever the chunk, also type-erased") {
    std::vector<edge> edges;
    const symmetric_csr graph = random_graph(50, 200, edges);
    for (const std::size_t chunk : {1U, 3U, 50U, 1000U}) {
        any_adjacency stream = symmetric_stream(graph, chunk);
        CHECK(stream.nodes() == 50);
        CHECK(stream.arcs() == graph.arcs());
        for (int pass = 0; pass < 2; ++pass, stream.rewind()) {
            node_id v = 0;
            for (adjacency_chunk got = stream.next(); !got.empty(); got = stream.next()) {
                CHECK(got.size() <= chunk);
                for (std::size_t i = 0; i < got.size(); ++i, ++v) {
                    REQUIRE(got.node(i) == v);
                    CHECK(std::ranges::equal(got.list(i), graph.list(v)));
                }
            }
            CHECK(v == 50);
            CHECK(stream.next().empty());
        }
    }
    const symmetric_csr none;
    symmetric_stream nothing(none);
    CHECK(nothing.next().empty());
}

TEST_CASE("an edge beyond the nodes is refused") {
    edge_list<> stream(3, {{0, 0, 3}});
    CHECK_THROWS_AS((void)make_symmetric_csr(stream), error);
}

TEST_CASE("lists by hand that are no lists are refused before they are read") {
    const std::vector<symmetric_csr> bad{
        {{0, 9, 2}, {1, 0}}, {{0, 2, 1, 2}, {1, 0}}, {{1, 2}, {0, 0}}, {{0, 1, 2}, {1, 7}}, {{}, {}}};
    for (const symmetric_csr& graph : bad) CHECK_THROWS_AS(symmetric_stream{graph}, error);
    const symmetric_csr good{{0, 1, 2}, {1, 0}};
    CHECK_THROWS_AS(symmetric_stream(good, 0), error);
    CHECK(symmetric_stream(good).next().size() == 2);
}

} // namespace test_graph_symmetric
