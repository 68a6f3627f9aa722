#include <gneiss/partition/detail/neighbor_counts.hpp>

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include <gneiss/core/random.hpp>

#include "../support.hpp"

namespace test_partition_detail_neighbor_counts {

using namespace gneiss;
using namespace partition_test;

TEST_CASE("the neighbors of every node are counted by part, whatever the chunk; unassigned neighbors are not") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 3U, max_partition_count}) {
            random_stream draw(random_key(k, random_domain::user));
            std::vector<partition_id16> part(graph.nodes());
            for (partition_id16& p : part)
                p = draw.below(4) == 0 ? no_partition
                                       : static_cast<partition_id16>(k - 1 - draw.below(std::min(k, 9U)));
            for (const std::size_t chunk : {1U, 5U, 100U}) {
                detail::neighbor_counts counts(k);
                symmetric_stream stream(graph, chunk);
                for (adjacency_chunk lists = stream.next(); !lists.empty(); lists = stream.next()) {
                    counts.begin(lists);
                    for (std::size_t i = 0; i < lists.size(); ++i) {
                        std::map<partition_id16, std::uint32_t> expected, counted;
                        for (const node_id u : lists.list(i))
                            if (part[u] != no_partition) ++expected[part[u]];
                        counts.count(i, part);
                        counts.take([&](partition_id16 p, std::uint32_t n) { CHECK(counted.emplace(p, n).second); });
                        CHECK(counted == expected);
                    }
                }
            }
        }
}

} // namespace test_partition_detail_neighbor_counts
