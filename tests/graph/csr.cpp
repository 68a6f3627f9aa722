#include <gneiss/graph/csr.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>

namespace test_graph_csr {

using namespace gneiss;

namespace {

template <class NodeId>
std::vector<basic_edge<NodeId>> random_edges(std::size_t count, std::uint64_t nodes, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    std::vector<basic_edge<NodeId>> edges(count);
    for (auto& e : edges)
        e = {static_cast<NodeId>(draw.below(nodes)), static_cast<relation_id>(draw.below(3)),
            static_cast<NodeId>(draw.below(nodes))};
    return edges;
}

} // namespace

TEST_CASE_TEMPLATE("a node's list has its edges sorted by neighbor, relation and edge id, in each direction", NodeId,
    std::uint32_t, std::uint64_t) {
    for (const std::uint64_t nodes : {1U, 2U, 7U, 50U})
        for (const std::size_t count : {0U, 1U, 20U, 500U}) {
            const auto edges = random_edges<NodeId>(count, nodes, nodes + count);
            edge_list<NodeId> stream(nodes, edges, 7);
            const auto graph = make_csr_graph(stream, neighbor_direction::both, {.relations = true, .edge_ids = true});
            CHECK(graph.nodes() == nodes);
            CHECK(graph.edges() == count);
            for (NodeId v = 0; v < nodes; ++v) {
                using entry = std::tuple<NodeId, relation_id, edge_index>;
                std::vector<entry> in, out;
                for (std::size_t e = 0; e < count; ++e) {
                    if (edges[e].destination == v) in.emplace_back(edges[e].source, edges[e].relation, e);
                    if (edges[e].source == v) out.emplace_back(edges[e].destination, edges[e].relation, e);
                }
                std::sort(in.begin(), in.end());
                std::sort(out.begin(), out.end());
                std::vector<entry> both(out); // which has the self loops
                std::copy_if(in.begin(), in.end(), std::back_inserter(both),
                    [v](const entry& e) { return std::get<0>(e) != v; });
                CHECK(graph.in().degree(v) == in.size());
                CHECK(graph.out().neighbors(v).size() == out.size());
                for (const auto& [d, expected] : {std::pair(neighbor_direction::in, in),
                         std::pair(neighbor_direction::out, out), std::pair(neighbor_direction::both, both)}) {
                    std::uint32_t degree = 0;
                    graph.degrees({&v, 1}, d, {&degree, 1});
                    REQUIRE(degree == expected.size());
                    std::vector<std::uint32_t> positions(degree);
                    for (std::uint32_t i = 0; i < degree; ++i) positions[i] = degree - 1 - i;
                    const std::vector<std::uint32_t> offsets{100, 100 + degree}; // any first value
                    std::vector<NodeId> neighbors(degree);
                    std::vector<relation_id> relations(degree);
                    std::vector<edge_index> ids(degree);
                    graph.neighbors_at({{&v, 1}, d, offsets, positions}, {neighbors, relations, ids});
                    for (std::uint32_t i = 0; i < degree; ++i)
                        CHECK(entry(neighbors[i], relations[i], ids[i]) == expected[degree - 1 - i]);
                }
            }
        }
}

TEST_CASE("a graph from arrays equals the graph from edges, and inconsistent arrays are refused") {
    const csr<> graph({0, 3, 3, 4}, {2, 0, 2, 1});
    CHECK(std::ranges::equal(graph.neighbors(0), std::vector<node_id>{0, 2, 2}));
    CHECK(graph.degree(1) == 0);
    CHECK(graph.nodes() == 3);
    CHECK_THROWS_AS(csr<>({0, 3}, {0, 0}), error);
    CHECK_THROWS_AS(csr<>({1, 2}, {0, 0}), error);
    CHECK_THROWS_AS(csr<>({0, 2, 1, 2}, {0, 0}), error);
    CHECK_THROWS_AS(csr<>({0, 2}, {0, 1}), error);
    CHECK_THROWS_AS(csr<>({}, {}), error);
    CHECK_THROWS_AS(csr<>({0, 2}, {0, 0}, {1}), error);
}

TEST_CASE("a request for data that the graph does not store is refused") {
    edge_list<> stream(3, {{0, 0, 1}, {1, 1, 2}});
    const auto graph = make_csr_graph(stream, neighbor_direction::in);
    const std::vector<node_id> ids{1};
    std::vector<std::uint32_t> degree(1);
    CHECK_THROWS_AS(graph.degrees(ids, neighbor_direction::out, degree), error);
    CHECK_THROWS_AS(graph.degrees(ids, neighbor_direction::both, degree), error);
    const std::vector<std::uint32_t> offsets{0, 1}, positions{0};
    std::vector<node_id> neighbor(1);
    std::vector<relation_id> relation(1);
    CHECK_THROWS_AS(
        graph.neighbors_at({ids, neighbor_direction::in, offsets, positions}, {neighbor, relation, {}}), error);
    CHECK_THROWS_AS(csr_graph<>({}, {}), error);
    edge_list<> bad(2, {{0, 0, 2}});
    CHECK_THROWS_AS((void)make_csr_graph(bad, neighbor_direction::in), error);
}

TEST_CASE("a second pass over the edges that has others than the first is refused, as are both directions") {
    for (const std::vector<edge>& second :
        {std::vector<edge>{{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}, {{0, 0, 9}}, {{9, 0, 0}}}) {
        bool again = false;
        const auto passes = [&](const auto& sink) {
            const std::vector<edge> first{{0, 0, 1}, {0, 0, 1}};
            sink(std::span<const edge>(std::exchange(again, true) ? second : first));
        };
        CHECK_THROWS_AS((void)csr<>::from_edges(3, neighbor_direction::in, {}, passes), error);
    }
    const auto none = [](const auto&) {};
    CHECK_THROWS_AS((void)csr<>::from_edges(3, neighbor_direction::both, {}, none), error);
    CHECK_THROWS_AS((void)csr<>({0, 1}, {0}).neighbors(1), error);
}

} // namespace test_graph_csr
