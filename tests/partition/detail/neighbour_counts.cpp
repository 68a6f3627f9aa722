#include <gneiss/partition/detail/neighbour_counts.hpp>

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include <gneiss/core/random.hpp>

#include "../support.hpp"

namespace test_partition_detail_neighbour_counts {

using namespace gneiss;
using namespace partition_test;

TEST_CASE("the neighbours of every node are counted by part, whatever the chunk; those without one are not") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 3U, max_parts}) {
            random_stream draw(random_key(k, random_domain::user));
            std::vector<part_id> part(graph.nodes());
            for (part_id& p : part) p = draw.below(4) == 0 ? no_part : static_cast<part_id>(k - 1 - draw.below(std::min(k, 9U)));
            for (const std::size_t chunk : {1U, 5U, 100U}) {
                detail::neighbour_counts counts(k);
                symmetric_stream stream(graph, chunk);
                for (adjacency_chunk lists = stream.next(); !lists.empty(); lists = stream.next()) {
                    counts.begin(lists);
                    for (std::size_t i = 0; i < lists.size(); ++i) {
                        std::map<part_id, std::uint32_t> expected, counted;
                        for (const node_id u : lists.list(i))
                            if (part[u] != no_part) ++expected[part[u]];
                        counts.count(i, part);
                        counts.take([&](part_id p, std::uint32_t n) { CHECK(counted.emplace(p, n).second); });
                        CHECK(counted == expected);
                    }
                }
            }
        }
}

} // namespace test_partition_detail_neighbour_counts
