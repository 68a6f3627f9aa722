#include <gneiss/order/from_buckets.hpp>

#include <gneiss/core/random.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/grid_walks.hpp>
#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <vector>

#include "support/count_absent.hpp"

namespace test_order_from_buckets {

using namespace gneiss;
using test::count_absent;

namespace {

/// Oracle: fewest loads over all evictions, one set of buffers per bucket. The buffer starts empty.
std::uint64_t fewest_loads(const std::vector<edge_bucket>& buckets, std::uint32_t partitions, std::uint32_t slots) {
    std::map<std::uint32_t, std::uint64_t> cost{{0, 0}}; // buffer → loads so far
    for (const auto& [i, j] : buckets) {
        std::map<std::uint32_t, std::uint64_t> next;
        for (std::uint32_t to = 0; to < 1U << partitions; ++to) {
            if ((to >> i & 1U) == 0 || (to >> j & 1U) == 0) continue;
            if (static_cast<std::uint32_t>(std::popcount(to)) > slots) continue;
            for (const auto& [from, loads] : cost) {
                const std::uint64_t total = loads + static_cast<std::uint64_t>(std::popcount(to & ~from));
                const auto [at, fresh] = next.emplace(to, total);
                if (!fresh && total < at->second) at->second = total;
            }
        }
        cost = std::move(next);
    }
    std::uint64_t best = ~std::uint64_t{0};
    for (const auto& [buffer, loads] : cost) best = std::min(best, loads);
    return best;
}

} // namespace

TEST_CASE("Belady's eviction loads no more than any choice, by brute force") {
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
        const std::uint32_t p = 3 + static_cast<std::uint32_t>(trial % 4),
                            c = 2 + static_cast<std::uint32_t>(trial % 3);
        std::vector<edge_bucket> buckets = row_major_buckets(p);
        shuffle(buckets, random_key{trial, random_domain::user});
        const epoch_plan states = plan_from_buckets(buckets, p, c);
        CHECK(cost_of(states, 1).read_bytes == fewest_loads(buckets, p, c));
    }
}

TEST_CASE("every list of all buckets gives a valid plan that trains them in the given order") {
    for (std::uint64_t trial = 0; trial < 100; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        const auto p = static_cast<std::uint32_t>(1 + draw.below(20));
        const auto c = static_cast<std::uint32_t>(2 + draw.below(p + 2));
        std::vector<edge_bucket> buckets = row_major_buckets(p);
        shuffle(buckets, random_key{trial, random_domain::user}.with(1));
        const epoch_plan states = plan_from_buckets(buckets, p, c);
        REQUIRE_NOTHROW(validate(states, p, c));
        std::vector<edge_bucket> trained;
        for (std::size_t s = 0; s < states.size(); ++s) {
            trained.insert(trained.end(), states[s].edge_buckets.begin(), states[s].edge_buckets.end());
            if (s > 0) CHECK(count_absent(states[s].resident, states[s - 1].resident) > 0); // otherwise one state
        }
        CHECK(trained == buckets);
        if (c >= p) CHECK(states.size() == 1);
    }
}

TEST_CASE("the first state takes buckets until a partition would have to leave") {
    const std::vector<edge_bucket> buckets{{0, 0}, {1, 0}, {2, 2}, {0, 2}, {3, 0}};
    const epoch_plan states = plan_from_buckets(buckets, 4, 3);
    REQUIRE(states.size() == 2);
    CHECK(states[0].resident == std::vector<partition_id>{0, 1, 2});
    CHECK(
        states[1].resident == std::vector<partition_id>{0, 2, 3}); // 1 and 2 are never needed again: the lowest leaves
}

TEST_CASE("a list of all buckets never swaps less than the lower bound") {
    for (std::uint32_t p = 2; p < 20; ++p)
        for (std::uint32_t c = 2; c <= p; ++c)
            CHECK(cost_of(row_major_order(p, c)(0), 1).swaps >= swap_lower_bound(p, c));
}

TEST_CASE("an empty list, one bucket, and buckets outside the partitions are handled") {
    CHECK(plan_from_buckets({}, 3, 2).empty());
    const std::vector<edge_bucket> one{{2, 1}}, outside{{0, 3}};
    CHECK(plan_from_buckets(one, 3, 2) == epoch_plan{{{1, 2}, {{2, 1}}}});
    CHECK_THROWS_AS((void)plan_from_buckets(outside, 3, 2), error);
    CHECK_THROWS_AS((void)plan_from_buckets(one, 3, 1), error);
}

} // namespace test_order_from_buckets
