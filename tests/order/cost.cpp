#include <gneiss/order/cost.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "fewest_swaps.hpp"

namespace test_order_cost {

using namespace gneiss;
using order_test::fewest_swaps_by_search;

TEST_CASE("a plan that never swaps reads and writes each partition once") {
    const std::vector<buffer_state> states{{{0, 1, 2}, {}}, {{0, 1, 2}, {}}};
    CHECK(cost_of(states, 100) == plan_cost{.swaps = 0, .read_bytes = 300, .written_bytes = 300});
}

TEST_CASE("read-only rows are never written") {
    const std::vector<buffer_state> states{{{0, 1}, {}}, {{1, 2}, {}}};
    CHECK(cost_of(states, 100, row_use::read_only) == plan_cost{.swaps = 1, .read_bytes = 300, .written_bytes = 0});
}

TEST_CASE("partitions of different size are charged their own bytes, from a table or a function") {
    const std::vector<buffer_state> states{{{0, 1}, {}}, {{1, 2}, {}}, {{0, 1}, {}}};
    const std::vector<std::uint64_t> bytes{100, 10, 1};
    const plan_cost expected{.swaps = 2, .read_bytes = 211, .written_bytes = 211};
    CHECK(cost_of(states, bytes) == expected);
    CHECK(cost_of(states, [&](partition_id p) { return bytes[p]; }) == expected);
}

TEST_CASE("every partition that is read is written once per residency if rows are updated") {
    const std::vector<buffer_state> states{{{0, 1}, {}}, {{0, 2}, {}}, {{3, 4}, {}}, {{0, 4}, {}}, {{0}, {}}};
    const plan_cost cost = cost_of(states, 7);
    CHECK(cost.read_bytes == cost.written_bytes);
    CHECK(cost.swaps == 4);
}

TEST_CASE("an empty plan costs nothing") { CHECK(cost_of(epoch_plan{}, 100) == plan_cost{}); }

TEST_CASE("no sequence of buffers beats the lower bound, and BETA never beats the optimum") {
    // Breadth-first search over every sequence of single swaps.
    for (std::uint32_t p = 2; p <= 5; ++p)
        for (std::uint32_t c = 2; c <= p; ++c) {
            const std::uint64_t best = fewest_swaps_by_search(p, c);
            CHECK(best >= swap_lower_bound(p, c));
            CHECK(best <= beta_swaps(p, c));
        }
}

TEST_CASE("lower bound and closed form give the published table") {
    const std::uint64_t beta[] = {27, 42, 78, 150, 294}, bound[] = {27, 38, 67, 127, 247};
    std::size_t row = 0;
    for (std::uint32_t p = 8; p <= 128; p *= 2, ++row) {
        CHECK(beta_swaps(p, p / 4) == beta[row]);
        CHECK(swap_lower_bound(p, p / 4) == bound[row]);
    }
    CHECK(beta_swaps(4, 2) == 5);
    CHECK(swap_lower_bound(4, 2) == 5);
}

TEST_CASE("a buffer that holds everything needs no swap, one that holds a single partition can never finish") {
    for (std::uint32_t p = 1; p < 64; ++p) {
        CHECK(swap_lower_bound(p, p) == 0);
        CHECK(beta_swaps(p, p + 3) == 0);
    }
    CHECK(swap_lower_bound(3, 1) == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("the counts do not overflow at the largest number of partitions") {
    CHECK(swap_lower_bound(1U << 16, 2) == (std::uint64_t{1} << 16) * ((1U << 16) - 1) / 2 - 1);
    CHECK(beta_swaps(1U << 16, 2) >= swap_lower_bound(1U << 16, 2));
}

} // namespace test_order_cost
