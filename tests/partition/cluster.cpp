#include <gneiss/partition/cluster.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include "support.hpp"

namespace test_partition_cluster {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

std::map<node_id, std::uint64_t> weights_of(
    const symmetric_csr& graph, const node_clusters& clusters, balance_by balance) {
    std::map<node_id, std::uint64_t> weights;
    for (node_id v = 0; v < graph.nodes(); ++v)
        if (clusters.of[v] != no_cluster) weights[clusters.of[v]] += node_weight(balance, graph.degree(v));
    return weights;
}

/// Returns cliques of ten, each joined to the next by one edge, numbered at random.
symmetric_csr ring_of_cliques(node_id cliques, std::vector<node_id>& clique_of) {
    std::vector<node_id> number(cliques * 10);
    for (node_id i = 0; i < number.size(); ++i) number[i] = i;
    shuffle(number, random_key(3, random_domain::user));
    std::vector<edge> edges;
    clique_of.resize(number.size());
    for (node_id c = 0; c < cliques; ++c)
        for (node_id i = 0; i < 10; ++i) {
            clique_of[number[c * 10 + i]] = c;
            for (node_id j = 0; j < i; ++j) edges.push_back({number[c * 10 + i], 0, number[c * 10 + j]});
            if (i == 0) edges.push_back({number[c * 10], 0, number[(c + 1) % cliques * 10 + 1]});
        }
    return graph_of(number.size(), std::move(edges));
}

} // namespace

TEST_CASE(
    "clusters keep their weight limit, are numbered by their first nodes, and nodes without neighbors have none") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint64_t cap : {1U, 2U, 5U, 1000U})
            for (const balance_by balance : {balance_by::nodes, balance_by::edges}) {
                CAPTURE(name);
                CAPTURE(cap);
                symmetric_stream stream(graph, 7);
                const node_clusters clusters =
                    cluster_nodes(stream, {.balance = balance}, {.max_weight = cap}, executor);
                std::map<node_id, std::uint32_t> members;
                node_id next = 0;
                for (node_id v = 0; v < graph.nodes(); ++v) {
                    CHECK((clusters.of[v] == no_cluster) == (graph.degree(v) == 0));
                    if (clusters.of[v] == no_cluster) continue;
                    CHECK(clusters.of[v] <= next);
                    next = std::max(next, clusters.of[v] + 1);
                    ++members[clusters.of[v]];
                }
                CHECK(next == clusters.count);
                for (const auto& [cluster, weight] : weights_of(graph, clusters, balance))
                    CHECK((weight <= cap || members[cluster] == 1));
            }
}

TEST_CASE("cliques are found as clusters") {
    std::vector<node_id> clique_of;
    const symmetric_csr graph = ring_of_cliques(50, clique_of);
    symmetric_stream stream(graph);
    const node_clusters clusters = cluster_nodes(stream, {}, {.max_weight = 10}, executor);
    CHECK(clusters.count == 50);
    for (node_id v = 0; v < 500; ++v)
        for (node_id u = 0; u < 500; ++u) CHECK((clusters.of[v] == clusters.of[u]) == (clique_of[v] == clique_of[u]));
}

TEST_CASE("the leaves of a hub whose cluster is full join each other") {
    const symmetric_csr graph = small_graphs()[4].graph; // a star of 39 leaves
    symmetric_stream stream(graph);
    CHECK(cluster_nodes(stream, {}, {.max_weight = 10}, executor).count == 4);
}

TEST_CASE("no cluster crosses the given parts") {
    const symmetric_csr graph = random_graph(2000, 9000, 5);
    std::vector<partition_id16> parts(2000);
    for (std::size_t v = 0; v < parts.size(); ++v) parts[v] = static_cast<partition_id16>(v * 7 % 3);
    symmetric_stream stream(graph);
    const node_clusters clusters = cluster_nodes(stream, {}, {.max_weight = 50, .within = parts}, executor);
    std::map<node_id, partition_id16> part_of;
    for (node_id v = 0; v < 2000; ++v)
        if (clusters.of[v] != no_cluster)
            CHECK(part_of.try_emplace(clusters.of[v], parts[v]).first->second == parts[v]);
    CHECK(clusters.count < 1000);
}

TEST_CASE("neither threads nor chunks change clusters") {
    const symmetric_csr graph = random_graph(30000, 100000, 6);
    symmetric_stream whole(graph), pieces(graph, 1234);
    const node_clusters one = cluster_nodes(whole, {.seed = 4}, {.max_weight = 30}, executor);
    const node_clusters other = cluster_nodes(pieces, {.seed = 4}, {.max_weight = 30}, tbb_executor(3));
    CHECK(one.of == other.of);
    CHECK(one.count == other.count);
}

} // namespace test_partition_cluster
