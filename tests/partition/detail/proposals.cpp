#include <gneiss/partition/detail/proposals.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace test_partition_detail_proposals {

using namespace gneiss;

TEST_CASE("lists that 32-bit offsets cannot address are refused, and those kept so far stay") {
    constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
    const std::vector<node_id> neighbors{7, 8, 9};
    detail::kept_lists kept;
    const std::array<std::uint32_t, 3> few{0, 2, 3};
    kept.keep({4, few, neighbors}, 0);
    const std::array<std::uint32_t, 2> many{0, most - 1};
    const adjacency_chunk huge{5, many, {neighbors.data(), most}}; // of which nothing is read
    CHECK_THROWS_AS(kept.keep(huge, 0), error);
    kept.keep({4, few, neighbors}, 1);
    REQUIRE(kept.nodes == std::vector<node_id>{4, 5});
    CHECK(kept.lists().list(0)[1] == 8);
    CHECK(kept.lists().list(1)[0] == 9);
}

} // namespace test_partition_detail_proposals
