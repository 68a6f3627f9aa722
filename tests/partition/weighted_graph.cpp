#include <gneiss/partition/weighted_graph.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/symmetric.hpp>

#include "graphs.hpp"

namespace test_partition_weighted_graph {

using namespace gneiss;

namespace {

TEST_CASE("contraction keeps weights: edges between two clusters are merged, edges inside vanish") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const test::edge_map edges = test::random_edges(40, 160, 9, seed);
        const weighted_graph graph = test::weighted(40, edges, 5, seed);
        const std::size_t clusters = 1 + seed % 12;
        std::vector<node_id> cluster(40);
        for (std::size_t v = 0; v < 40; ++v)
            cluster[v] = v < clusters ? static_cast<node_id>(v)
                                      : static_cast<node_id>(below(random_key{seed, random_domain::user}[v], clusters));
        test::edge_map wanted;
        for (const auto& [edge, weight] : edges) {
            const auto [a, b] = std::minmax(cluster[edge.first], cluster[edge.second]);
            if (a != b) wanted[{a, b}] += weight;
        }
        const weighted_graph coarse = contract(graph, cluster, clusters, serial_executor{});
        check_graph(coarse);
        CHECK(coarse.nodes() == clusters);
        CHECK(test::edges_of(coarse) == wanted);
        CHECK(coarse.total_node_weight() == graph.total_node_weight());
        for (std::size_t c = 0; c < clusters; ++c) {
            std::uint64_t weight = 0;
            for (node_id v = 0; v < 40; ++v) weight += cluster[v] == c ? graph.weight(v) : 0;
            CHECK(coarse.weight(static_cast<node_id>(c)) == weight);
        }
        const weighted_graph threads = contract(graph, cluster, clusters, tbb_executor(3));
        CHECK(threads.offsets == coarse.offsets);
        CHECK(threads.neighbors == coarse.neighbors);
        CHECK(threads.edge_weights == coarse.edge_weights);
    }
}

TEST_CASE("repeated edges of a stream become one of their weight, loops vanish, nodes have the given weights") {
    const symmetric_csr lists{{0, 4, 6, 7, 7}, {1, 2, 1, 0, 0, 0, 0}}; // 0–1 twice, 0–2, a loop at 0
    symmetric_stream stream(lists, 2);
    const weighted_graph graph = make_weighted_graph(stream);
    CHECK(test::edges_of(graph) == test::edge_map{{{0, 1}, 2}, {{0, 2}, 1}});
    CHECK(graph.total_node_weight() == 4);
    CHECK(make_weighted_graph(stream, balance_by::edges).node_weights == std::vector<std::uint32_t>{5, 3, 2, 1});

    const symmetric_csr simple{{0, 1, 2}, {1, 0}};
    symmetric_stream plain(simple);
    CHECK(make_weighted_graph(plain).edge_weights.empty());
    const symmetric_csr none{};
    symmetric_stream empty(none);
    CHECK(make_weighted_graph(empty).nodes() == 0);
}

TEST_CASE("a graph with inconsistent arrays is refused") {
    const auto refused = [](const weighted_graph& graph) { CHECK_THROWS_AS(check_graph(graph), error); };
    check_graph({{0, 1, 2}, {1, 0}, {}, {}});
    refused({{}, {}, {}, {}});
    refused({{0, 1, 3}, {1, 0}, {}, {}});
    refused({{0, 2, 1}, {1}, {}, {}});
    refused({{0, 1, 2}, {1, 2}, {}, {}});
    refused({{0, 1, 2}, {1, 0}, {1}, {}});
    refused({{0, 1, 2}, {1, 0}, {}, {1}});
}

TEST_CASE("a weight beyond 32 bits saturates") {
    const std::uint32_t most = ~std::uint32_t{0};
    const weighted_graph graph{{0, 1, 2, 4}, {2, 2, 0, 1}, {most, 7, most, 7}, {most, 7, 1}};
    const std::vector<node_id> cluster{0, 0, 1};
    const weighted_graph coarse = contract(graph, cluster, 2, serial_executor{});
    CHECK(coarse.edge_weights == std::vector<std::uint32_t>{most, most});
    CHECK(coarse.node_weights == std::vector<std::uint32_t>{most, 1});
}

} // namespace

} // namespace test_partition_weighted_graph
