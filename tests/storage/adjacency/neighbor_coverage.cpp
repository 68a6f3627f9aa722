#include <gneiss/storage/adjacency/neighbor_coverage.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>

namespace test_storage_adjacency_neighbor_coverage {

using namespace gneiss;

TEST_CASE("the coverage of a partition is the share of its nodes' edges whose other end is resident") {
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        const row_partitioning rows{60 + 10 * seed, 7};
        std::vector<edge> edges = test::hub_edges(rows.nodes, 500, seed);
        for (edge& e : edges) e.relation = 0;
        shuffle(edges, random_key(seed, random_domain::user));
        std::erase_if(edges, [&](const edge& e) { return rows.of(e.destination) == 5 || rows.of(e.source) == 5; }); // one without edges
        const test::temporary_directory directory;
        const bucket_store store = test::build(directory.path(), bucket_layout{rows, 1}, edges);
        for (const std::vector<partition_id>& resident : {std::vector<partition_id>{1, 2, 5}, {0, 6}, {0, 1, 2, 3, 4, 5, 6}})
            for (const auto direction : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
                const auto there = [&](partition_id p) { return std::ranges::binary_search(resident, p); };
                std::vector<double> present(7, 0), all(7, 0);
                const auto count = [&](node_id own, node_id other) {
                    all[rows.of(own)] += 1;
                    if (there(rows.of(other))) present[rows.of(own)] += 1;
                };
                for (const edge& e : edges) {
                    if (direction != neighbor_direction::out) count(e.destination, e.source);
                    if (direction != neighbor_direction::in) count(e.source, e.destination);
                }
                const neighbor_coverage coverage(store, resident, direction);
                CHECK(coverage.complete() == (resident.size() == 7));
                for (const partition_id p : resident)
                    CHECK(coverage[p] == doctest::Approx(all[p] == 0 ? 1 : present[p] / all[p]));
                const neighbor_coverage half(store, resident, direction, .5);
                for (const partition_id p : resident) CHECK(half[p] == doctest::Approx((1 + coverage[p]) / 2));
                std::vector<node_id> nodes;
                for (node_id v = 0; v < rows.nodes; ++v)
                    if (there(rows.of(v))) nodes.push_back(v);
                std::vector<float> each(3, -1.F);
                coverage.of(nodes, each);
                REQUIRE(each.size() == nodes.size());
                for (std::size_t i = 0; i < nodes.size(); ++i) CHECK(each[i] == coverage[rows.of(nodes[i])]);
            }
    }
}

} // namespace test_storage_adjacency_neighbor_coverage
