#include <gneiss/order/beta.hpp>

#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <set>

#include "support/count_absent.hpp"

namespace test_order_beta {

using namespace gneiss;
using test::count_absent;

namespace {

std::vector<std::vector<partition_id>> residents(const epoch_plan& states) {
    std::vector<std::vector<partition_id>> sets;
    for (const buffer_state& s : states) sets.push_back(s.resident);
    return sets;
}

} // namespace

TEST_CASE("BETA swaps as often as its closed form predicts and trains every bucket once, for all 2 <= c <= p <= 64") {
    for (std::uint32_t p = 2; p <= 64; ++p)
        for (std::uint32_t c = 2; c <= p; ++c) {
            const epoch_plan states = beta_order(p, c, p * 64 + c)(c);
            CAPTURE(p);
            CAPTURE(c);
            REQUIRE(cost_of(states, 1).swaps == beta_swaps(p, c));
            REQUIRE_NOTHROW(validate(states, p, c));
            REQUIRE(beta_swaps(p, c) >= swap_lower_bound(p, c));
        }
}

TEST_CASE("the fixed order of (6, 3) is Figure 5's") {
    const epoch_plan states = beta_order(6, 3, 0, beta_options::fixed())(0);
    CHECK(residents(states) ==
        std::vector<std::vector<partition_id>>{
            {0, 1, 2}, {0, 1, 3}, {0, 1, 4}, {0, 1, 5}, {1, 2, 5}, {2, 3, 5}, {2, 3, 4}, {3, 4, 5}});
    // The new buckets of a state: red in the figure.
    CHECK(states[1].edge_buckets == std::vector<edge_bucket>{{0, 3}, {1, 3}, {3, 0}, {3, 1}, {3, 3}});
    CHECK(states[4].edge_buckets == std::vector<edge_bucket>{{2, 5}, {5, 2}});
    CHECK(states[7].edge_buckets == std::vector<edge_bucket>{{4, 5}, {5, 4}});
}

TEST_CASE("each randomization keeps the swaps and the validity and changes the plan from epoch to epoch") {
    for (const beta_options options : {beta_options{true, false, false, false}, beta_options{false, true, false, false},
             beta_options{false, false, true, false}, beta_options{false, false, false, true}, beta_options{}})
        for (const auto& [p, c] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{16, 4}, {17, 5}, {32, 8}}) {
            const beta_order order(p, c, 3, options);
            std::set<std::vector<std::vector<partition_id>>> buffers;
            std::vector<epoch_plan> plans;
            for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
                plans.push_back(order(epoch));
                buffers.insert(residents(plans.back()));
                CHECK(cost_of(plans.back(), 1).swaps == beta_swaps(p, c));
                CHECK_NOTHROW(validate(plans.back(), p, c));
                for (std::size_t before = 0; before < epoch; ++before) CHECK(plans[before] != plans.back());
            }
            // Only the last option keeps the sequence of buffers.
            const bool only_buckets = options == beta_options{false, false, false, true};
            CHECK(buffers.size() == (only_buckets ? 1 : 5));
        }
}

TEST_CASE("without randomizations all epochs and seeds are equal; with them a plan is a function of seed and epoch") {
    CHECK(beta_order(12, 4, 1, beta_options::fixed())(0) == beta_order(12, 4, 2, beta_options::fixed())(7));
    CHECK(beta_order(12, 4, 1)(3) == beta_order(12, 4, 1)(3));
    CHECK(beta_order(12, 4, 1)(3) != beta_order(12, 4, 2)(3));
}

TEST_CASE("the initial set of partitions in the buffer is uniform") {
    constexpr std::uint32_t p = 8, c = 2;
    constexpr int epochs = 8000;
    std::vector<int> count(p * p);
    const beta_order order(p, c, 11);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        const auto first = order(epoch).front().resident;
        ++count[first[0] * p + first[1]];
    }
    double chi = 0;
    constexpr double expected = epochs / 28.0;
    for (std::uint32_t a = 0; a < p; ++a)
        for (std::uint32_t b = a + 1; b < p; ++b)
            chi += (count[a * p + b] - expected) * (count[a * p + b] - expected) / expected;
    CHECK(chi < 27 + 5 * 7.4); // 27 degrees of freedom, five sigma
}

TEST_CASE("consecutive states differ by one swap and each trains a new pair") {
    const epoch_plan states = beta_order(23, 6, 5)(2);
    for (std::size_t s = 1; s < states.size(); ++s) {
        CHECK(count_absent(states[s].resident, states[s - 1].resident) == 1);
        CHECK(states[s].edge_buckets.size() >= 2);
    }
}

TEST_CASE("a buffer that fits everything gives one state") {
    for (std::uint32_t slots : {5U, 6U, 100U}) {
        const epoch_plan states = beta_order(5, slots)(0);
        CHECK(states.size() == 1);
        CHECK(states[0].edge_buckets.size() == 25);
    }
    CHECK(beta_order(1, 1)(0) == epoch_plan{{{0}, {{0, 0}}}});
}

TEST_CASE("a buffer that cannot hold two partitions is refused") {
    CHECK_THROWS_AS(beta_order(4, 1), error);
    CHECK_THROWS_AS(beta_order(4, 0), error);
    CHECK_THROWS_AS(beta_order(0, 2), error);
}

TEST_CASE("a sequence of a buffer that cannot hold two partitions is refused, and does not run for ever") {
    const random_key key{1, random_domain::plan};
    CHECK_THROWS_AS((void)beta_sequence(4, 1, key), error);
    CHECK_THROWS_AS((void)beta_sequence(4, 0, key), error);
    CHECK_THROWS_AS((void)beta_sequence(0, 2, key), error);
    CHECK(beta_sequence(1, 1, key) == buffer_sequence{{0}});
}

} // namespace test_order_beta
