#include <gneiss/graph/visit_counter.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/sample/neighbour.hpp>
#include <sample/graphs.hpp>

using namespace gneiss;

TEST_CASE("sampling through a counter gives the same sample and counts the lists that were drawn from") {
    const auto graph = test::whole_graph(2000, test::hub_edges(2000, 20000, 1));
    const visit_counter counter(graph);
    const auto seeds = test::some_nodes(2000, 100, 1);
    neighbour_sampler<> sampler({parse_fanout("3,4", neighbour_direction::in)}, 1);
    mini_batch_arena arena, counted;
    const auto sample = sampler.sample({}, graph, std::span<const node_id>(seeds), tbb_executor(3), arena);
    (void)sampler.sample({}, counter, std::span<const node_id>(seeds), tbb_executor(3), counted);
    CHECK((test::contents(arena) == test::contents(counted)));
    std::vector<std::uint32_t> expected(2000);
    for (std::size_t hop = 0; hop < sample.hops(); ++hop)
        for (const node_id v : sample.nodes.first(sample.node_counts[hop])) expected[v] += graph.in().degree(v) != 0;
    CHECK(std::ranges::equal(counter.visits(), expected));
}
