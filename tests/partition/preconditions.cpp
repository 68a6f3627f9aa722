// A wrong argument is a typed error, in release builds too: it reads or writes nothing beyond its arrays, and ends.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/grem_analysis.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/partition/multilevel.hpp>
#include <gneiss/partition/quality.hpp>
#include <gneiss/partition/quotient.hpp>
#include <gneiss/partition/weighted_graph.hpp>
#include <partition/support.hpp>
#include <support/error_code.hpp>

namespace test_partition_preconditions {

using namespace gneiss;
using partition_test::graph_of;
using test::code_of;

namespace {

/// A stream whose further passes have nodes that the first had not.
struct growing_stream {
    using edge_type = edge;
    std::vector<edge> chunk{};
    int pass = 0;
    bool given = false;
    std::span<const edge> next() {
        if (given) return {};
        given = true;
        chunk.assign(8, {0, 0, 1});
        if (pass > 1) chunk.back() = {1000, 0, 1000000};
        return chunk;
    }
    void rewind() {
        ++pass;
        given = false;
    }
    std::uint64_t nodes() const { return 4; }
    edge_index edges() const { return 8; }
};

} // namespace

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("caps need a part, and an imbalance that is a number") {
    CHECK(code_of([] { (void)max_weight(10, 0, .03); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)max_weight(10, 2, -.1); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)max_weight(10, 2, nan); }) == errc::invalid_argument);
    const std::vector<std::uint64_t> counts{4, 6};
    CHECK(code_of([&] { (void)label_caps(counts, 0, 1); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)label_caps(counts, 2, .5); }) == errc::invalid_argument);
}

TEST_CASE("sizes and weights refuse parts beyond their number and assignments of other nodes") {
    const symmetric_csr graph = graph_of(4, {{0, 0, 1}, {1, 0, 2}});
    symmetric_stream lists(graph);
    const weighted_graph weighted = make_weighted_graph(lists);
    const std::vector<partition_id16> beyond{0, 1, 2, 0}, shorter{0, 1};
    CHECK(code_of([&] { (void)part_sizes(beyond, 2); }) == errc::out_of_range);
    for (const balance_by balance : {balance_by::nodes, balance_by::edges}) {
        CHECK(code_of([&] { (void)part_weights(lists, beyond, 2, balance); }) == errc::out_of_range);
        CHECK(code_of([&] { (void)part_weights(lists, shorter, 2, balance); }) == errc::invalid_argument);
    }
    CHECK(code_of([&] { (void)part_weights(weighted, beyond, 2); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)part_weights(weighted, shorter, 2); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)edge_cut(weighted, shorter); }) == errc::invalid_argument);
    CHECK(edge_cut(weighted, beyond) == 2);
}

TEST_CASE("graphs by hand are checked before they are cut, contracted or partitioned") {
    const serial_executor one;
    weighted_graph empty;
    empty.offsets.clear();
    weighted_graph wrong;
    wrong.offsets = {0, 1, 2};
    wrong.neighbors = {1, 7};
    const std::vector<partition_id16> parts{0, 1};
    const std::vector<node_id> clusters{0, 0}, beyond{0, 3}, shorter{0};
    for (const weighted_graph* graph : {&empty, &wrong}) {
        CHECK(code_of([&] { (void)edge_cut(*graph, parts); }) == errc::invalid_argument);
        CHECK(code_of([&] { (void)contract(*graph, clusters, 1, one); }) == errc::invalid_argument);
        CHECK(code_of([&] { (void)multilevel_partition(*graph, {.parts = 2}, one); }) == errc::invalid_argument);
        std::vector<partition_id16> given = parts;
        CHECK(code_of([&] { multilevel_refine(*graph, given, {.parts = 2}, one); }) == errc::invalid_argument);
    }
    CHECK(code_of([&] { (void)part_weights(empty, parts, 2); }) == errc::invalid_argument);
    weighted_graph right = wrong;
    right.neighbors = {1, 0};
    CHECK(contract(right, clusters, 1, one).nodes() == 1);
    CHECK(code_of([&] { (void)contract(right, beyond, 2, one); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)contract(right, shorter, 1, one); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)contract(right, clusters, 9, one); }) == errc::invalid_argument);
}

TEST_CASE("clusters are of the nodes of their stream, within limits") {
    const serial_executor one;
    const symmetric_csr graph = partition_test::random_graph(50, 200, 1);
    symmetric_stream lists(graph);
    const std::vector<partition_id16> few(7);
    CHECK(code_of([&] { (void)cluster_nodes(lists, {}, {.max_weight = 4, .within = few}, one); }) ==
        errc::invalid_argument);
    CHECK(code_of([&] { (void)cluster_nodes(lists, {}, {.max_weight = std::uint64_t{1} << 32}, one); }) ==
        errc::invalid_argument);
    node_clusters clusters = cluster_nodes(lists, {}, {.max_weight = 4}, one);
    CHECK(quotient_graph(lists, clusters, 1000, {}).has_value());
    node_clusters wrong = clusters;
    wrong.of[3] = static_cast<node_id>(wrong.count);
    CHECK(code_of([&] { (void)quotient_graph(lists, wrong, 1000, {}); }) == errc::invalid_argument);
    clusters.of.pop_back();
    CHECK(code_of([&] { (void)quotient_graph(lists, clusters, 1000, {}); }) == errc::invalid_argument);
}

TEST_CASE("estimates refuse numbers outside their definition, and end") {
    CHECK(code_of([] { (void)neighbor_counts{}.kept(0, 4); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)neighbor_counts{}.kept(5, 4); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)effective_chunks(1, 2); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)effective_chunks(nan, 2); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)effective_chunks(.5, 0); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)wrong_side(4, 5, 1); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)wrong_side(4, 2, std::uint64_t{1} << 62); }) == errc::invalid_argument);
    const std::vector<float> scores{1, std::numeric_limits<float>::quiet_NaN(), 2};
    CHECK(code_of([&] { (void)most_influential(std::span(scores), 2); }) == errc::not_finite);
}

TEST_CASE("GREM checks options where it plans memory, needs an executor, and edges that are the same in each pass") {
    const serial_executor one;
    CHECK(code_of([] { (void)grem_bytes(10, 10, 2, {.chunk = nan}); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)grem_partitioner{{.chunk = -1}}.memory(10, 10, {}); }) == errc::invalid_argument);
    CHECK(code_of([] { (void)multilevel_bisector<serial_executor>{}(graph_of(3, {{0, 0, 1}}), {2, 2}, 0); }) ==
        errc::invalid_argument);
    growing_stream edges;
    memory_scratch<> place;
    CHECK(code_of([&] {
        (void)grem(edges, place, {.parts = 4}, {.shuffle = false}, multilevel_bisector<serial_executor>{.on = &one});
    }) == errc::invalid_argument);
}

} // namespace test_partition_preconditions
