#include <gneiss/sample/neighbor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <sample/graphs.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>

namespace test_sample_neighbor_writer {

using namespace gneiss;

namespace {

const serial_executor serial;

/// Writes the first `k` incoming edges of every node, hop by hop.
neighbor_sample<> first_edges(neighbor_sample_writer<>& writer, const csr_graph<>& graph,
    std::span<const node_id> seeds, std::uint32_t k, std::size_t hops, mini_batch_arena& arena, bool columns) {
    writer.begin(graph.nodes(), seeds);
    for (std::size_t hop = 0; hop < hops; ++hop) {
        std::vector<std::uint32_t> degrees(writer.nodes().size()), offsets{0}, positions;
        graph.degrees(writer.nodes(), neighbor_direction::in, degrees);
        for (const std::uint32_t degree : degrees) {
            for (std::uint32_t i = 0; i < std::min(k, degree); ++i) positions.push_back(i);
            offsets.push_back(static_cast<std::uint32_t>(positions.size()));
        }
        std::vector<node_id> neighbors(positions.size());
        std::vector<relation_id> relations(columns ? positions.size() : 0);
        std::vector<edge_index> edge_ids(columns ? positions.size() : 0);
        graph.neighbors_at(
            {writer.nodes(), neighbor_direction::in, offsets, positions}, {neighbors, relations, edge_ids});
        writer.add_hop(offsets, neighbors, relations, edge_ids);
    }
    return writer.write({2, {0, 0, 5}}, arena);
}

} // namespace

TEST_CASE("a written sample of all neighbors equals the neighbor sampler's, and a reused writer equals a fresh one") {
    const csr_graph<> graph = test::whole_graph(60, test::hub_edges(60, 500, 1));
    const std::vector<node_id> seeds{7, 0, 33, 59};
    neighbor_sample_writer<> used;
    for (const bool columns : {false, true})
        for (const std::size_t hops : {3U, 1U, 2U}) {
            neighbor_sampler<> sampler(
                {std::vector<hop_fanout>(hops, {.in = all_neighbors}), false, columns, columns}, 1);
            mini_batch_arena theirs, ours, small;
            const auto expected = sampler.sample({2, {0, 0, 5}}, graph, std::span(seeds), serial, theirs);
            const auto found = first_edges(used, graph, seeds, 1000, hops, ours, columns);
            CHECK(found.key == expected.key);
            CHECK(std::ranges::equal(found.nodes, expected.nodes));
            CHECK(std::ranges::equal(found.node_counts, expected.node_counts));
            CHECK(std::ranges::equal(found.edge_counts, expected.edge_counts));
            CHECK(std::ranges::equal(found.offsets, expected.offsets));
            CHECK(std::ranges::equal(found.neighbors, expected.neighbors));
            CHECK(std::ranges::equal(found.relations, expected.relations));
            CHECK(std::ranges::equal(found.edge_ids, expected.edge_ids));
            const auto few = first_edges(used, graph, seeds, 2, hops, small, columns);
            CHECK(few.edges() < expected.edges());
            layer_stack layers;
            layers.assign(few, serial);
            CHECK(layers.size() == hops);
            for (std::size_t t = 0; t < layers[0].targets; ++t)
                CHECK(layers[0].offsets[t + 1] - layers[0].offsets[t] <= 2);
        }
}

TEST_CASE("lists that do not form a hop are refused with the hop and the position") {
    const std::vector<node_id> seeds{3, 5};
    const std::vector<std::uint32_t> good{0, 1, 2};
    const std::vector<node_id> neighbors{4, 3};
    neighbor_sample_writer<> writer;
    const auto refused = [&](std::vector<std::uint32_t> offsets, const std::vector<node_id>& list,
                             std::size_t relations, std::size_t ids) {
        writer.begin(10, seeds);
        writer.add_hop(good, neighbors);
        offsets.push_back(static_cast<std::uint32_t>(list.size())); // node 4, the third
        writer.add_hop(offsets, list, std::vector<relation_id>(relations), std::vector<edge_index>(ids));
    };
    CHECK_NOTHROW(refused({0, 1, 2}, {4, 3}, 0, 0));
    CHECK_THROWS_WITH_AS(
        refused({0, 1}, {4, 3}, 0, 0), "hop 1 of a sample has 3 offsets for 3 nodes, one more is needed", error);
    CHECK_THROWS_WITH_AS(refused({1, 1, 2}, {4, 3}, 0, 0), "hop 1 of a sample has offset 0 at 1", error);
    CHECK_THROWS_WITH_AS(
        refused({0, 2, 1}, {4, 3}, 0, 0), "hop 1 of a sample has offset 2 at 1, below the one before it, 2", error);
    CHECK_THROWS_WITH_AS(
        refused({0, 1, 3}, {4, 3}, 0, 0), "hop 1 of a sample has offset 3 at 2, below the one before it, 3", error);
    CHECK_THROWS_WITH_AS(refused({0, 1, 2}, {4, 10}, 0, 0),
        "hop 1 of a sample has node 10 at position 1, of a graph of 10 nodes", error);
    CHECK_THROWS_WITH_AS(refused({0, 1, 2}, {4, 3}, 1, 0), "hop 1 of a sample has 1 relations for 2 neighbors", error);
    CHECK_THROWS_WITH_AS(
        refused({0, 1, 2}, {4, 3}, 0, 2), "hop 1 of a sample differs from those before it in having edge ids", error);
    writer.begin(10, seeds);
    CHECK_THROWS_WITH_AS(writer.add_hop(good, std::vector<node_id>{4, 3, 2}),
        "hop 0 of a sample has 3 neighbors, its last offset is 2", error);
    CHECK_THROWS_AS(writer.begin(5, seeds), error);
    CHECK_THROWS_AS(writer.begin(10, std::vector<node_id>{3, 3}), error);
    writer.begin(10, seeds); // and it continues
    writer.add_hop(good, neighbors);
    mini_batch_arena arena;
    CHECK(std::ranges::equal(writer.write({}, arena).nodes, std::vector<node_id>{3, 5, 4}));
}

} // namespace test_sample_neighbor_writer
