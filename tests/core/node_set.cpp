#include <gneiss/core/node_set.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace test_core_node_set {

using namespace gneiss;

TEST_CASE("a set of nodes has the members that were inserted, as a list or as a bitmap, within its memory; rank and "
          "select are inverse") {
    random_stream draw(random_key{1, random_domain::user});
    for (const std::uint64_t nodes : {1U, 40U, 3000U, 3200U, 100000U})
        for (const std::uint64_t insertions : {0U, 5U, 200U, 20000U}) {
            node_set set(nodes);
            std::set<node_id> expected;
            for (std::uint64_t i = 0; i < insertions; ++i) {
                const auto node = static_cast<node_id>(draw.below(nodes));
                set.insert(node);
                expected.insert(node);
            }
            set.finish();
            CHECK(set.size() == expected.size());
            CHECK(set.bytes() <= std::max<std::uint64_t>(nodes / 8 + 8, 4 * (nodes / 32 + 16)));
            for (node_id node = 0; node < std::min<std::uint64_t>(nodes, 5000); ++node)
                CHECK(set.contains(node) == expected.contains(node));
            set.index();
            CHECK(set.bytes() <= std::max<std::uint64_t>(nodes / 8 + nodes / 128 + 16, 4 * (nodes / 32 + 16)));
            const std::vector<node_id> members(expected.begin(), expected.end());
            for (std::size_t k = 0; k < members.size(); ++k) REQUIRE(set.select(k) == members[k]);
            for (std::uint64_t node = 0; node <= nodes; node += node % 3 + 1)
                REQUIRE(set.rank(node) ==
                    static_cast<std::uint64_t>(std::ranges::lower_bound(members, node) - members.begin()));
            REQUIRE(set.rank(nodes) == members.size());
            std::vector<node_id> found;
            set.for_each(nodes / 3, nodes / 3 * 2, [&](node_id node) { found.push_back(node); });
            CHECK(found ==
                std::vector<node_id>(expected.lower_bound(static_cast<node_id>(nodes / 3)),
                    expected.lower_bound(static_cast<node_id>(nodes / 3 * 2))));
        }
}

TEST_CASE("a node beyond the graph is refused, and is no member of a bitmap or a list") {
    for (const node_id members : {3U, 900U}) { // a list, a bitmap
        node_set set(1000);
        for (node_id node = 0; node < members; ++node) set.insert(node);
        CHECK_THROWS_AS(set.insert(1000), error);
        CHECK_THROWS_AS(set.insert(500000), error);
        set.finish();
        CHECK(set.size() == members);
        CHECK_FALSE(set.contains(500000));
    }
}

} // namespace test_core_node_set
