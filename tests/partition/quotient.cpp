#include <gneiss/partition/quotient.hpp>

#include <doctest/doctest.h>

#include <map>
#include <utility>

#include <gneiss/core/executor/serial.hpp>

#include "support.hpp"

namespace test_partition_quotient {

using namespace gneiss;
using namespace partition_test;

TEST_CASE("the graph of clusters equals one counted edge by edge, whatever the chunks") {
    for (const auto& [name, graph] : small_graphs())
        for (const balance_by balance : {balance_by::nodes, balance_by::edges}) {
            CAPTURE(name);
            const partition_request request{.balance = balance};
            symmetric_stream stream(graph, 7);
            const node_clusters clusters = cluster_nodes(stream, request, {.max_weight = 4}, serial_executor{});
            std::map<std::pair<node_id, node_id>, std::uint32_t> edges;
            std::map<node_id, std::uint64_t> weights;
            for (node_id v = 0; v < graph.nodes(); ++v) {
                if (clusters.of[v] != no_cluster) weights[clusters.of[v]] += node_weight(balance, graph.degree(v));
                for (const node_id u : graph.list(v))
                    if (clusters.of[u] != clusters.of[v]) ++edges[{clusters.of[v], clusters.of[u]}];
            }
            const auto result = quotient_graph(stream, clusters, 1000, request);
            REQUIRE(result);
            CHECK_NOTHROW(check_graph(*result));
            REQUIRE(result->nodes() == clusters.count);
            CHECK(result->arcs() == edges.size());
            for (node_id c = 0; c < result->nodes(); ++c) {
                CHECK(result->weight(c) == weights[c]);
                result->for_each(c, [&](node_id d, std::uint32_t w) { CHECK(edges[{c, d}] == w); });
            }
        }
}

TEST_CASE("many edges between clusters are summed in a growing table") {
    const symmetric_csr graph = random_graph(3000, 20000, 2);
    symmetric_stream stream(graph, 100);
    const node_clusters clusters = cluster_nodes(stream, {}, {.max_weight = 1}, serial_executor{}); // each node alone
    const auto result = quotient_graph(stream, clusters, 20000, {});
    REQUIRE(result);
    CHECK(result->arcs() > 4096);
    CHECK(2 * result->total_edge_weight() == graph.arcs());
    CHECK_FALSE(quotient_graph(stream, clusters, result->arcs() / 2 - 1, {}));
    CHECK(quotient_graph(stream, clusters, result->arcs() / 2, {}));
}

} // namespace test_partition_quotient
