#include <gneiss/cache/simulate.hpp>

#include <algorithm>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>

#include "support/error_code.hpp"

namespace test_cache_simulate {

using namespace gneiss;

TEST_CASE("incoming rows take the slots of outgoing ones, then free slots, the lowest first") {
    simulated_cache cache(5);
    cache.fill(std::vector<node_id>{10, 11, 12});
    cache.apply({{20, 21, 22}, {12, 10}, {}});
    CHECK(std::ranges::equal(cache.rows(), std::vector<node_id>{21, 11, 20, 22}));
    CHECK(cache.holds(22));
    CHECK(!cache.holds(12));
}

TEST_CASE("change sets that break the rule are refused") {
    const std::vector<change_set> wrong{
        {{}, {1}, {}},        // more leave than enter
        {{5}, {4}, {}},       // leaves, but is absent
        {{1}, {}, {}},        // enters, but is present
        {{5, 5}, {1, 2}, {}}, // enters twice
        {{5, 6}, {}, {}},     // more rows than slots
    };
    for (const change_set& changes : wrong) {
        simulated_cache cache(3);
        cache.fill(std::vector<node_id>{1, 2});
        CHECK_THROWS_AS(cache.apply(changes), error);
    }
    simulated_cache cache(2);
    CHECK_THROWS_AS(cache.fill(std::vector<node_id>{1, 2, 3}), error);
}

TEST_CASE("hits, misses, fills and admitted rows are counted; a fill of a row that no batch uses is refused") {
    struct scripted {
        change_set changes;
        std::vector<node_id> first{1, 2};
        [[nodiscard]] static std::size_t capacity() { return 3; }
        [[nodiscard]] std::span<const node_id> initial() const { return first; }
        void next(std::span<const node_id>, change_set& out) const { out = changes; }
    };
    memory_trace trace;
    trace.append(std::vector<node_id>{2, 7, 8});
    scripted policy{{{8}, {}, {2}}};
    CHECK(simulate(policy, trace) == cache_counts{.hits = 1, .misses = 2, .fills = 2, .admitted = 1});
    for (const change_set& wrong : {change_set{{8}, {}, {1}}, change_set{{8}, {}, {3}}, change_set{{8}, {}, {}}}) {
        scripted other{wrong};
        CHECK_THROWS_AS(simulate(other, trace), error);
    }
}

TEST_CASE_TEMPLATE("a row that a batch requests twice is refused, and later batches keep the cache within its rows",
    Policy, lru, s3_fifo) {
    Policy policy(3);
    change_set changes;
    std::set<node_id> cached;
    const auto apply = [&] {
        for (const node_id id : changes.out) REQUIRE(cached.erase(id) == 1);
        for (const node_id id : changes.in) REQUIRE(cached.insert(id).second);
        REQUIRE(cached.size() <= 3);
    };
    policy.next(std::vector<node_id>{1, 2, 3}, changes);
    apply();
    CHECK(test::code_of([&] { policy.next(std::vector<node_id>{7, 7, 8}, changes); }) == errc::invalid_argument);
    for (const node_id id : changes.out) cached.erase(id);
    cached.insert(changes.in.begin(), changes.in.end());
    for (node_id first = 10; first < 40; first += 3) {
        policy.next(std::vector<node_id>{first, first + 1, first + 2}, changes);
        apply();
    }
    CHECK(cached.size() == 3);
}

TEST_CASE("a row that is named twice, more rows than slots, rows and batches beyond a trace are refused") {
    lru policy(3);
    change_set changes;
    policy.next(std::vector<node_id>{1, 2, 3}, changes);
    CHECK(test::code_of([&] { policy.next(std::vector<node_id>{1, 1, 2}, changes); }) ==
        errc::invalid_argument); // cached rows
    CHECK(test::code_of([] { static_cache(std::vector<node_id>{4, 5, 4}, 3); }) == errc::invalid_argument);
    CHECK(test::code_of([] { change_set_replay(1, {1, 2}, memory_change_sets{}); }) == errc::invalid_argument);
    memory_trace trace;
    trace.append(std::vector<node_id>{1, 9});
    std::vector<node_id> room;
    CHECK(test::code_of([&] { (void)trace.read(1, room); }) == errc::out_of_range);
    CHECK(test::code_of([&] { (void)trace.size(7); }) == errc::out_of_range);
    CHECK(test::code_of([&] { (void)count_visits(trace, 9); }) == errc::out_of_range);
}

} // namespace test_cache_simulate
