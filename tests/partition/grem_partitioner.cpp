#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/listed_edges.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/grem_partitioner.hpp>
#include <gneiss/partition/quality.hpp>

namespace test_partition_grem_partitioner {

using namespace gneiss;

namespace {

symmetric_csr planted() {
    generated_edges edges(planted_partition<>(
        {.nodes = 3000, .edges = 45000, .communities = 60, .mixing = .2, .degree_exponent = 0, .seed = 1}));
    return make_symmetric_csr(edges);
}

} // namespace

TEST_CASE("the lists contain each edge of the graph once") {
    edge_list<> edges(5, {{0, 0, 1}, {1, 0, 0}, {3, 0, 2}, {2, 0, 2}, {4, 0, 1}});
    const symmetric_csr graph = make_symmetric_csr(edges);
    for (const std::size_t chunk : {1UL, 2UL, 100UL}) {
        symmetric_stream lists(graph, chunk);
        listed_edges listed(lists);
        CHECK(listed.edges() == 4);
        for (int pass = 0; pass < 2; ++pass) {
            std::vector<edge> seen;
            listed.rewind();
            for (auto some = listed.next(); !some.empty(); some = listed.next())
                seen.insert(seen.end(), some.begin(), some.end());
            std::ranges::sort(seen);
            CHECK(seen == std::vector<edge>{{0, 0, 1}, {0, 0, 1}, {1, 0, 4}, {2, 0, 3}});
        }
    }
}

TEST_CASE("GREM over lists with the library's seed partitioner finds communities near the cut of all edges in memory") {
    const symmetric_csr graph = planted();
    symmetric_stream lists(graph);
    const serial_executor executor;
    const weighted_graph whole = make_weighted_graph(lists);
    for (const std::uint32_t parts : {2U, 5U, 8U}) {
        memory_scratch<> place;
        const double best =
            measure_partition(lists, multilevel_partition(whole, {.parts = parts}, executor), parts).cut;
        const auto cut = [&](const grem_options& options) {
            const std::vector<partition_id16> part =
                grem_partitioner{options}(lists, {.parts = parts}, place, executor);
            CHECK(std::ranges::max(part_sizes(part, parts)) <= max_weight(3000, parts, .03));
            return measure_partition(lists, part, parts).cut;
        };
        const double patient = cut({.chunk = .2, .older = .65, .passes = 2}), fixed = cut({.chunk = .2, .older = 1});
        CHECK(patient < best + .05);
        CHECK(patient < fixed);
    }
}

} // namespace test_partition_grem_partitioner
