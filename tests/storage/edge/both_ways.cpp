#include <gneiss/storage/edge/both_ways.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <storage/buckets.hpp>
#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/random.hpp>

namespace test_storage_edge_both_ways {

using gneiss::edge;
using gneiss::test::build;

TEST_CASE("edges are stored both ways if each has its reverse, of any relation, however often, in any partitions") {
    gneiss::random_stream draw(gneiss::random_key{3, gneiss::random_domain::user});
    int yes = 0, no = 0;
    for (int round = 0; round < 300; ++round) {
        const gneiss::bucket_layout layouts[] = {
            {{6, 1}, 0}, {{7, 3}, 3}, {{9, 12}, 2}, {gneiss::test::cut_into({1, 0, 5, 2}), 0}};
        const gneiss::bucket_layout& layout = layouts[round % 4];
        const auto node = [&] { return static_cast<gneiss::node_id>(draw.below(layout.rows.nodes)); };
        const auto relation = [&] {
            return static_cast<gneiss::relation_id>(draw.below(std::max<std::uint64_t>(layout.relations, 1)));
        };
        std::vector<edge> edges;
        for (std::uint64_t i = draw.below(30); i > 0; --i) {
            const edge e{node(), relation(), node()};
            for (std::uint64_t n = 1 + draw.below(3) / 2; n > 0; --n) edges.push_back(e);
            edges.push_back({e.destination, relation(), e.source});
        }
        if (round % 3 != 0) edges.push_back({node(), relation(), node()});
        std::set<std::pair<gneiss::node_id, gneiss::node_id>> pairs;
        for (const edge& e : edges) pairs.emplace(e.source, e.destination);
        bool right = true;
        for (const auto& [u, v] : pairs) right = right && pairs.contains({v, u});
        const gneiss::test::temporary_directory directory;
        CHECK(gneiss::stored_both_ways(build(directory.path(), layout, edges), 1 << 16) == right);
        ++(right ? yes : no);
    }
    CHECK(yes > 50);
    CHECK(no > 50);
}

TEST_CASE("blocks longer than the memory are compared to their ends") {
    const gneiss::bucket_layout layout{{40'000, 2}, 2};
    std::vector<edge> edges;
    for (std::uint32_t v = 0; v < 40'000; ++v)
        for (const std::uint32_t u : {(v + 1) % 40'000, (v + 177) % 40'000}) {
            edges.push_back({v, v % 2, u});
            edges.push_back({u, 0, v});
        }
    const auto both_ways = [&] {
        const gneiss::test::temporary_directory directory;
        int polls = 0;
        const bool result =
            gneiss::stored_both_ways(build(directory.path(), layout, edges, 1 << 20), 0, [&] { ++polls; });
        CHECK(polls > 0);
        return result;
    };
    CHECK(both_ways());
    edges.push_back(edges[0]);
    CHECK(both_ways());
    edges.back() = {39'999, 1, 39'990};
    edges.push_back({39'991, 1, 39'999}); // the counts of nodes are equal
    CHECK_FALSE(both_ways());
}

} // namespace test_storage_edge_both_ways
