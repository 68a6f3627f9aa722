#include <gneiss/graph/edge_list.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_graph_edge_list {

using namespace gneiss;

TEST_CASE("a list streams its edges in order and in chunks, and again after a rewind") {
    std::vector<edge> edges;
    for (node_id i = 0; i < 10; ++i) edges.push_back({i, 0, i + 1});
    edge_list<> list(11, edges, 4);
    for (int pass = 0; pass < 2; ++pass) {
        std::vector<edge> streamed;
        std::vector<std::size_t> chunks;
        for (auto chunk = list.next(); !chunk.empty(); chunk = list.next()) {
            streamed.insert(streamed.end(), chunk.begin(), chunk.end());
            chunks.push_back(chunk.size());
        }
        CHECK(streamed == edges);
        CHECK(chunks == std::vector<std::size_t>{4, 4, 2});
        CHECK(list.next().empty());
        list.rewind();
    }
}

TEST_CASE("edges written to a scratch are streamed back") {
    memory_scratch<std::uint64_t> place;
    auto writer = place.create(1ULL << 40);
    const std::vector<basic_edge<std::uint64_t>> edges{{1ULL << 39, 2, 3}, {4, 5, 6}};
    writer.append(edges);
    writer.append({});
    writer.append(edges);
    auto stream = std::move(writer).finish();
    CHECK(stream.nodes() == 1ULL << 40);
    CHECK(stream.edges() == 4);
    CHECK(stream.next().size() == 4);
    CHECK(stream.next().empty());
}

TEST_CASE("chunks without edges, which would end a pass before its first edge, are refused") {
    CHECK_THROWS_AS(edge_list<>(3, {{0, 0, 2}}, 0), error);
}

} // namespace test_graph_edge_list
