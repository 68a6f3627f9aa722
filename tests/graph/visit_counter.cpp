#include <gneiss/graph/visit_counter.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <sample/graphs.hpp>

namespace test_graph_visit_counter {

using namespace gneiss;

TEST_CASE(
    "sampling through a counter gives the same sample and counts the visits of each list, or the reads they need") {
    const auto graph = test::whole_graph(2000, test::hub_edges(2000, 20000, 1));
    const visit_counter counter(graph, ~std::uint32_t{0});
    const auto seeds = test::some_nodes(2000, 100, 1);
    neighbor_sampler<> sampler({parse_fanout("3,4", neighbor_direction::in)}, 1);
    mini_batch_arena arena, counted;
    const auto sample = sampler.sample({}, graph, std::span<const node_id>(seeds), tbb_executor(3), arena);
    (void)sampler.sample({}, counter, std::span<const node_id>(seeds), tbb_executor(3), counted);
    CHECK((test::contents(arena) == test::contents(counted)));
    std::vector<std::uint32_t> expected(2000);
    for (std::size_t hop = 0; hop < sample.hops(); ++hop)
        for (const node_id v : sample.nodes.first(sample.node_counts[hop])) expected[v] += graph.in().degree(v) != 0;
    CHECK(std::ranges::equal(counter.visits(), expected));

    const visit_counter reads(graph, 2);
    const std::vector<node_id> ids{3, 1};
    const std::vector<std::uint32_t> offsets{5, 9, 10}, positions{6, 0, 1, 7, 4};
    std::vector<node_id> found(5);
    REQUIRE(graph.in().degree(3) > 7);
    REQUIRE(graph.in().degree(1) > 4);
    reads.neighbors_at({ids, neighbor_direction::in, offsets, positions}, {found});
    CHECK(reads.visits()[3] == 2);
    CHECK(reads.visits()[1] == 1);
}

} // namespace test_graph_visit_counter
