#include <gneiss/order/train_partitions_first.hpp>

#include <gneiss/order/cost.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/count_absent.hpp"

namespace test_order_train_partitions_first {

using namespace gneiss;
using test::count_absent;

namespace {

template <class Visit>
void for_all_small(std::uint32_t most, Visit&& visit) {
    for (std::uint32_t p = 1; p <= most; ++p)
        for (std::uint32_t c = 1; c <= p + 1; ++c)
            for (std::uint32_t k = 0; k <= p; ++k) {
                CAPTURE(p);
                CAPTURE(c);
                CAPTURE(k);
                visit(p, c, k);
            }
}

} // namespace

TEST_CASE("every partition with training nodes trains once, in a state that holds it, for all small p, c and k") {
    for_all_small(14, [](std::uint32_t p, std::uint32_t c, std::uint32_t k) {
        for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            const node_plan result = train_partitions_first(p, c, k, 5, epoch);
            REQUIRE(result.trained.size() == result.states.size());
            std::vector<int> trained(p);
            for (std::size_t s = 0; s < result.states.size(); ++s) {
                const auto& resident = result.states[s].resident;
                REQUIRE(!resident.empty());
                REQUIRE(resident.size() <= c);
                REQUIRE(std::ranges::adjacent_find(resident, std::ranges::greater_equal{}) == resident.end());
                REQUIRE(resident.back() < p);
                REQUIRE(result.states[s].edge_buckets.empty());
                REQUIRE(std::ranges::is_sorted(result.trained[s]));
                REQUIRE(std::ranges::includes(resident, result.trained[s]));
                for (const partition_id t : result.trained[s]) ++trained[t];
            }
            for (std::uint32_t t = 0; t < p; ++t) REQUIRE(trained[t] == (t < k));
            REQUIRE(result == train_partitions_first(p, c, k, 5, epoch));
        }
    });
}

TEST_CASE("training nodes that fit stay with random others: one state of all slots, no swap") {
    for_all_small(14, [](std::uint32_t p, std::uint32_t c, std::uint32_t k) {
        if (k >= c && c < p) return;
        const node_plan result = train_partitions_first(p, c, k, 5, 2);
        REQUIRE(result.states.size() == 1);
        REQUIRE(result.states[0].resident.size() == std::min(c, p));
        for (partition_id t = 0; t < k; ++t) REQUIRE(result.states[0].resident[t] == t);
    });
}

TEST_CASE("training nodes that do not fit: every partition is visited, one logical partition enters at a time") {
    for_all_small(14, [](std::uint32_t p, std::uint32_t c, std::uint32_t k) {
        if (k < c || c >= p) return;
        const node_plan result = train_partitions_first(p, c, k, 5, 2);
        const std::uint32_t group = std::max(c / 2, 1U), logical = ceil_div(p, group);
        REQUIRE(result.states.size() == logical - std::min(c, 2U) + 1);
        std::set<partition_id> seen(result.states[0].resident.begin(), result.states[0].resident.end());
        for (std::size_t s = 1; s < result.states.size(); ++s) {
            // An entering partition was never resident before.
            const auto& resident = result.states[s].resident;
            const auto unseen = std::ranges::count_if(resident, [&](partition_id x) { return !seen.contains(x); });
            REQUIRE(unseen == count_absent(resident, result.states[s - 1].resident));
            REQUIRE(unseen >= 1);
            REQUIRE(unseen <= group);
            seen.insert(resident.begin(), resident.end());
        }
        REQUIRE(seen.size() == p);
        REQUIRE(cost_of(result.states, 1, row_use::read_only).read_bytes == p); // each is read once
    });
}

TEST_CASE("the others are redrawn each epoch, all of them equally often, by chi-square") {
    constexpr std::uint32_t p = 12, c = 5, k = 2, epochs = 9000;
    std::vector<double> count(p);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
        for (const buffer_state& only : train_partitions_first(p, c, k, 3, epoch).states)
            for (const partition_id x : only.resident) ++count[x];
    double chi = 0;
    constexpr double expected = epochs * double{c - k} / (p - k);
    for (partition_id x = k; x < p; ++x) chi += (count[x] - expected) * (count[x] - expected) / expected;
    CHECK(count[0] == epochs);
    CHECK(count[1] == epochs);
    CHECK(chi < 27.9); // draws without replacement vary less than 9 degrees of freedom, p = 0.001
    CHECK(train_partitions_first(p, c, k, 3, 0) != train_partitions_first(p, c, k, 4, 0));
}

TEST_CASE("a partition trains in each of its states equally often, by chi-square") {
    constexpr std::uint32_t p = 8, c = 4, epochs = 20000;
    // A partition of the first state stays for 1, 2 or 3 states; use those that stay for all three.
    std::vector<double> count(3);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        const node_plan result = train_partitions_first(p, c, p, 7, epoch);
        REQUIRE(result.states.size() == 3);
        for (std::size_t s = 0; s < 3; ++s)
            for (const partition_id t : result.trained[s]) {
                const bool always = std::ranges::all_of(result.states,
                    [t](const buffer_state& held) { return std::ranges::binary_search(held.resident, t); });
                if (always && t == result.states[0].resident[0]) ++count[s];
            }
    }
    const double expected = (count[0] + count[1] + count[2]) / 3;
    CHECK(expected > 500);
    double chi = 0;
    for (const double n : count) chi += (n - expected) * (n - expected) / expected;
    CHECK(chi < 13.8); // 2 degrees of freedom, p = 0.001
}

TEST_CASE("the partitions with training nodes are those up to the last training row") {
    const row_partitioning rows{100, 8}; // 13 rows each
    CHECK(leading_partitions(rows, {}) == 0);
    for (node_id last = 0; last < 100; ++last) {
        const std::vector<node_id> training{0, last, last / 2};
        CHECK(leading_partitions(rows, training) == rows.of(last) + 1);
    }
}

TEST_CASE("impossible buffers and more training partitions than partitions are refused") {
    CHECK_THROWS_AS((void)train_partitions_first(4, 0, 1, 0, 0), error);
    CHECK_THROWS_AS((void)train_partitions_first(0, 1, 0, 0, 0), error);
    CHECK_THROWS_AS((void)train_partitions_first(4, 2, 5, 0, 0), error);
}

} // namespace test_order_train_partitions_first
