#include <gneiss/order/spread.hpp>

#include <doctest/doctest.h>

#include <gneiss/order/beta.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace test_order_spread {

using namespace gneiss;

TEST_CASE("spreading keeps the plan valid and its traffic") {
    for (std::uint32_t p = 2; p <= 20; ++p)
        for (std::uint32_t c = 2; c <= p; ++c) {
            const plan first = beta_order(p, c, 5)(3);
            const plan spread = beta_order(p, c, 5, {.spread_edge_buckets = true})(3);
            CHECK_NOTHROW(validate(spread, p, c));
            CHECK(cost_of(spread, 1) == cost_of(first, 1));
        }
}

TEST_CASE("every state that holds a bucket trains it equally often, by chi-square") {
    const plan base = beta_order(8, 4, 1, beta_options::fixed())(0);
    std::vector<std::uint32_t> holders;
    for (std::uint32_t s = 0; s < base.size(); ++s)
        if (std::ranges::count(base[s].resident, 0U) && std::ranges::count(base[s].resident, 1U)) holders.push_back(s);
    REQUIRE(holders.size() > 2);
    std::map<std::uint32_t, double> count;
    constexpr int tries = 6000;
    for (std::uint64_t t = 0; t < tries; ++t) {
        plan states = base;
        spread_edge_buckets(states, 8, random_key{t, random_domain::plan});
        for (std::uint32_t s = 0; s < states.size(); ++s) count[s] += static_cast<double>(std::ranges::count(states[s].edge_buckets, edge_bucket{0, 1}));
    }
    const double expected = tries / static_cast<double>(holders.size());
    double chi = 0, total = 0;
    for (const std::uint32_t s : holders) {
        chi += (count[s] - expected) * (count[s] - expected) / expected;
        total += count[s];
    }
    CHECK(total == tries);
    const double freedom = static_cast<double>(holders.size()) - 1;
    CHECK(std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom));
}

} // namespace test_order_spread
