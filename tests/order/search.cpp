#include <gneiss/order/search.hpp>

#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "fewest_swaps.hpp"
#include "support/count_absent.hpp"
#include "swap_search.hpp"

namespace test_order_search {

using namespace gneiss;
using order_test::fewest_swaps_by_search;
using order_test::format_sequence;
using order_test::search_sequence;
using test::count_absent;

TEST_CASE("every sequence of the table pairs all partitions with fewer swaps than BETA, as a valid plan in any epoch") {
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    for (const detail::found_sequence_row& row : detail::found_sequences) {
        const auto [p, c] = std::pair(row.partitions, row.resident_partitions);
        CAPTURE(p);
        CAPTURE(c);
        CHECK(seen.insert({p, c}).second);
        const searched_order order(p, c, 3);
        REQUIRE(order.found());
        for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
            const epoch_plan states = order(epoch);
            REQUIRE_NOTHROW(validate(states, p, c));
            const std::uint64_t swaps = cost_of(states, 1).swaps;
            CHECK(swaps <= row.swaps);
            CHECK(swaps < beta_swaps(p, c));
            CHECK(swaps >= swap_lower_bound(p, c));
            CHECK(states == order(epoch));
            if (epoch > 0) CHECK(states != order(epoch - 1));
            for (std::size_t s = 1; s < states.size(); ++s)
                CHECK(count_absent(states[s].resident, states[s - 1].resident) >= 1);
        }
        CHECK(format_sequence(*found_sequence(p, c)) == row.swaps_text);
    }
}

TEST_CASE("fewer swaps than BETA for known sequences: 8 for (8, 4), at most 40 for (16, 4), 76 for (32, 8)") {
    CHECK(cost_of(searched_order(8, 4)(0), 1).swaps == 8);
    CHECK(cost_of(searched_order(16, 4)(0), 1).swaps <= 40);
    CHECK(cost_of(searched_order(32, 8)(0), 1).swaps <= 76);
}

TEST_CASE("without a known sequence the plan is BETA's") {
    for (const auto& [p, c] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{{9, 2}, {300, 20}, {5, 5}, {1, 1}}) {
        CHECK_FALSE(searched_order(p, c, 4).found());
        CHECK(searched_order(p, c, 4)(2) == beta_order(p, c, 4)(2));
    }
}

TEST_CASE("a search finds the fewest swaps of small buffers, and no sequence with fewer") {
    for (std::uint32_t p = 3; p <= 5; ++p)
        for (std::uint32_t c = 2; c < p; ++c) {
            CAPTURE(p);
            CAPTURE(c);
            const auto fewest = static_cast<std::uint32_t>(fewest_swaps_by_search(p, c));
            const auto found = search_sequence(p, c, fewest, 1, 1 << 17);
            REQUIRE(found);
            CHECK(found->size() == fewest + 1);
            CHECK_NOTHROW(validate(train_when_first_resident(*found, p), p, c));
            CHECK_FALSE(search_sequence(p, c, fewest - 1, 1, 1 << 14));
        }
}

TEST_CASE("a search finds valid sequences with BETA's swaps or fewer, and none below the bound") {
    for (std::uint32_t p = 3; p <= 8; ++p)
        for (std::uint32_t c = 2; c < p; ++c) {
            CAPTURE(p);
            CAPTURE(c);
            const auto bound = static_cast<std::uint32_t>(swap_lower_bound(p, c)),
                       beta = static_cast<std::uint32_t>(beta_swaps(p, c));
            CHECK_FALSE(search_sequence(p, c, bound - 1, 1, 2000));
            const auto found = search_sequence(p, c, beta, 1, 1 << 17);
            REQUIRE(found);
            CHECK(found->size() <= beta + 1);
            const epoch_plan states = train_when_first_resident(*found, p);
            CHECK_NOTHROW(validate(states, p, c));
            for (const auto& buffer : *found) CHECK(buffer.size() == c);
            for (std::size_t s = 1; s < found->size(); ++s) CHECK(count_absent((*found)[s], (*found)[s - 1]) == 1);
            CHECK(parse_sequence(format_sequence(*found), c) == *found);
            CHECK(found == search_sequence(p, c, beta, 1, 1 << 17));
        }
}

TEST_CASE("impossible searches and invalid texts are refused") {
    CHECK_THROWS_AS((void)search_sequence(4, 4, 3, 0, 10), error);
    CHECK_THROWS_AS((void)search_sequence(4, 1, 3, 0, 10), error);
    CHECK_THROWS_AS((void)search_sequence(60, 3, 900, 0, 10), error);
    CHECK_THROWS_AS((void)parse_sequence("AEF", 4), error);
    CHECK_THROWS_AS((void)parse_sequence("EF", 4), error);
    CHECK_THROWS_AS((void)parse_sequence("AB", 4), error);
    CHECK_THROWS_AS((void)parse_sequence("A!", 4), error);
    CHECK_THROWS_AS((void)searched_order(4, 1), error);
}

TEST_CASE("the search reproduces the sequences of the table" * doctest::test_suite("long")) {
    for (const detail::found_sequence_row& row : detail::found_sequences) {
        CAPTURE(row.partitions);
        CAPTURE(row.resident_partitions);
        const auto found = search_sequence(row.partitions, row.resident_partitions, row.swaps, row.seed, row.moves);
        REQUIRE(found);
        CHECK(format_sequence(*found) == row.swaps_text);
    }
}

} // namespace test_order_search
