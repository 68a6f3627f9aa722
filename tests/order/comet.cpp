#include <gneiss/order/comet.hpp>

#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "support/count_absent.hpp"

namespace test_order_comet {

using namespace gneiss;
using test::count_absent;

TEST_CASE("a balanced trail visits every pair once, shares one end between neighbors, and visits everything evenly") {
    CHECK(balanced_trail(0).empty());
    CHECK(balanced_trail(1).empty());
    for (std::uint32_t n = 2; n <= 65; ++n) {
        CAPTURE(n);
        const auto trail = balanced_trail(n);
        REQUIRE(trail.size() == std::size_t{n} * (n - 1) / 2);
        std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
        for (const auto& [a, b] : trail) {
            REQUIRE(a < n);
            REQUIRE(b < n);
            REQUIRE(a != b);
            seen.insert(std::minmax(a, b));
        }
        REQUIRE(seen.size() == trail.size());
        for (std::size_t i = 1; i < trail.size(); ++i) {
            const auto& [a, b] = trail[i - 1];
            const auto& [c, d] = trail[i];
            REQUIRE((a == c || a == d || b == c || b == d));
        }
        // After any prefix the visits of two partitions differ by a few; keeping one would make a difference of n − 2.
        std::vector<std::uint32_t> visits(n);
        for (const auto& [a, b] : trail) {
            ++visits[a], ++visits[b];
            // For odd n the last one closes each cycle, and is at both ends of it.
            const auto [least, most] = std::ranges::minmax(visits);
            REQUIRE(most - least <= 3);
        }
    }
}

TEST_CASE("COMET's plans hold every bucket once, swap one logical partition at a time, and differ between epochs") {
    for (const logical_order pairs : {logical_order::greedy, logical_order::balanced})
        for (std::uint32_t p = 2; p <= 40; ++p)
            for (std::uint32_t c = 2; c <= p; ++c) {
                CAPTURE(p);
                CAPTURE(c);
                const comet_order order(p, c, 7, pairs);
                const epoch_plan states = order(3);
                REQUIRE_NOTHROW(validate(states, p, c));
                const std::uint32_t l = order.logical_partitions();
                REQUIRE(states.size() == (l == 1 ? 1 : l * (l - 1) / 2));
                for (std::size_t s = 1; s < states.size(); ++s)
                    REQUIRE(count_absent(states[s].resident, states[s - 1].resident) <= c / 2);
                if (c < p && c % 2 == 0 && p % (c / 2) == 0) { // formula of §5.1: all pairs of l, one swap each
                    REQUIRE(l == 2 * p / c);
                    REQUIRE(cost_of(states, 1).swaps == (l * (l - 1) / 2 - 1) * (c / 2));
                }
                REQUIRE(order(3) == states);
                if (p > 3) REQUIRE(order(4) != states);
            }
}

TEST_CASE("BETA over groups costs the same as BETA over that number of partitions, and groups change every epoch") {
    for (std::uint32_t l = 2; l <= 20; ++l)
        for (std::uint32_t g = 1; g <= 4; ++g) {
            CAPTURE(l);
            CAPTURE(g);
            const std::uint32_t c = 4 * g, p = l * g;
            const comet_order order(p, c, 7, logical_order::beta);
            const epoch_plan states = order(3);
            REQUIRE_NOTHROW(validate(states, p, c));
            REQUIRE(states.size() == (l <= 4 ? 1 : beta_swaps(l, 4) + 1));
            REQUIRE(cost_of(states, 1).swaps == (l <= 4 ? 0 : beta_swaps(l, 4) * g));
            REQUIRE(order(3) == states);
            if (l > 4) REQUIRE(order(4) != states);
        }
    for (std::uint32_t c = 2; c <= 9; ++c) // groups that do not divide evenly
        REQUIRE_NOTHROW(validate(comet_order(23, c, 1, logical_order::beta)(0), 23, c));
}

TEST_CASE("COMET at p = 32, c = 8, l = 8 loads 108 partitions after the first fill, BETA 78") {
    const epoch_plan states = comet_order(32, 8, 1)(0);
    CHECK(cost_of(states, 1).swaps == 108);
    CHECK(beta_swaps(32, 8) == 78);
}

TEST_CASE("grouping is random: all pairs share a logical partition equally often") {
    constexpr std::uint32_t p = 8, c = 4, epochs = 7000; // groups of 2: a given pair in 1 of 7 epochs
    const comet_order order(p, c, 5);
    std::map<std::pair<partition_id, partition_id>, int> together;
    for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
        std::map<std::pair<partition_id, partition_id>, int> meetings;
        for (const buffer_state& s : order(epoch))
            for (const partition_id i : s.resident)
                for (const partition_id j : s.resident)
                    if (i < j) ++meetings[{i, j}];
        for (const auto& [pair, count] : meetings)
            if (count == 3) ++together[pair]; // with each of the three others; other pairs meet once
    }
    double chi_square = 0;
    for (const auto& [pair, count] : together) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(together.size() == 28);
    CHECK(chi_square < 55); // 27 degrees of freedom, p = 0.001
}

TEST_CASE("a bucket inside a logical partition trains in a uniformly random one of its states") {
    constexpr std::uint32_t p = 8, c = 4, epochs = 6000;
    const comet_order order(p, c, 9, logical_order::balanced);
    std::vector<double> count(3); // by state, first to last
    for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
        const epoch_plan states = order(epoch);
        std::size_t nth = 0;
        for (const buffer_state& s : states) {
            if (!std::ranges::binary_search(s.resident, partition_id{0})) continue;
            if (std::ranges::find(s.edge_buckets, edge_bucket{0, 0}) != s.edge_buckets.end()) count[nth] += 1;
            ++nth;
        }
        REQUIRE(nth == 3);
    }
    double chi_square = 0;
    for (const double n : count) chi_square += (n - epochs / 3.0) * (n - epochs / 3.0) / (epochs / 3.0);
    CHECK(chi_square < 13.8); // 2 degrees of freedom, p = 0.001
}

TEST_CASE("a buffer that cannot hold two partitions is refused") {
    CHECK_THROWS_AS(comet_order(8, 1), error);
    CHECK_THROWS_AS(comet_order(0, 4), error);
}

} // namespace test_order_comet
