#include <gneiss/cache/miss_ratio.hpp>

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>

#include "traces.hpp"

namespace test_cache_miss_ratio {

using namespace gneiss;

TEST_CASE("a part of a trace has its batches and ends with the trace") {
    memory_trace whole = cache_test::random_trace(7, 5, 20, 3);
    trace_part part(whole, 5, 4);
    REQUIRE(part.batches() == 2);
    std::vector<node_id> room;
    for (std::size_t b = 0; b < 2; ++b) {
        CHECK(part.size(b) == whole.size(5 + b));
        CHECK(std::ranges::equal(part.read(b, room), whole.read(5 + b, room)));
    }
    CHECK(trace_part(whole, 9, 1).batches() == 0);
}

TEST_CASE(
    "superbatches save no more than one with all batches; carried rows cost no reads; one superbatch carries nothing") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        memory_trace trace = cache_test::random_trace(24, 12, 40, seed);
        for (const std::size_t capacity : {0U, 1U, 7U, 40U})
            for (const std::uint64_t nodes : {0U, 40U}) {
                const auto reads = [&](std::size_t batches, bool carry) {
                    return simulate_belady(trace,
                        {.capacity = capacity, .batches = batches, .carry = carry, .nodes = nodes}, serial_executor{});
                };
                belady_policy policy(trace, {.capacity = capacity, .nodes = nodes}, serial_executor{});
                const cache_counts best = simulate(policy, trace);
                CHECK(reads(24, true) == best);
                CHECK(reads(24, false) == best);
                CHECK(reads(100, false) == best);
                for (const std::size_t batches : {1U, 5U, 8U}) {
                    const cache_counts carried = reads(batches, true), afresh = reads(batches, false);
                    CHECK(carried.accesses() == best.accesses());
                    CHECK(best.reads() <= carried.reads());
                    CHECK(carried.reads() <= afresh.reads());
                }
            }
    }
    memory_trace none;
    CHECK(simulate_belady(none, {.capacity = 3, .batches = 2}, serial_executor{}) == cache_counts{});
    CHECK_THROWS_AS((void)simulate_belady(none, {.capacity = 3, .batches = 0}, serial_executor{}), error);
}

TEST_CASE("superbatches without carried rows are independent caches") {
    memory_trace trace = cache_test::random_trace(10, 9, 30, 1);
    cache_counts sum;
    for (std::size_t first = 0; first < 10; first += 4) {
        trace_part part(trace, first, 4);
        belady_policy policy(part, {.capacity = 6}, serial_executor{});
        sum += simulate(policy, part);
    }
    CHECK(simulate_belady(trace, {.capacity = 6, .batches = 4, .carry = false}, serial_executor{}) == sum);
}

TEST_CASE("a page is read once per batch unless it stays, even if rows share or straddle it") {
    memory_trace trace;
    trace.append(std::vector<node_id>{0, 3, 1}); // rows of 40 bytes: page 0 of 64 bytes; 1 and 2; 0 and 1
    trace.append(std::vector<node_id>{2});       // page 1
    trace.append(std::vector<node_id>{0});       // page 0
    const auto pages = [&](std::uint64_t bytes) { return simulate_pages(trace, 40, bytes, 64); };
    CHECK(pages(0) == cache_counts{.hits = 0, .misses = 5});
    // Pages 1 and 2 are used last in the order 0, 1, 2 of the first batch, so they stay; then page 0 is read again.
    CHECK(pages(2 * 64) == cache_counts{.hits = 1, .misses = 4, .fills = 0, .admitted = 3});
    CHECK(pages(3 * 64) == cache_counts{.hits = 2, .misses = 3, .fills = 0, .admitted = 3});
    CHECK_THROWS_AS((void)simulate_pages(trace, 0, 1, 64), error);
    trace.append(std::vector<node_id>{4'000'000'000U});
    CHECK_THROWS_AS((void)simulate_pages(trace, 4096, 4096, 2048), error);
}

TEST_CASE("pages of one row behave like LRU over rows") {
    memory_trace trace = cache_test::random_trace(30, 15, 60, 4);
    for (const std::size_t capacity : {1U, 8U, 30U}) {
        lru rows(capacity);
        CHECK(simulate_pages(trace, 4096, capacity * 4096) == simulate(rows, trace));
    }
}

} // namespace test_cache_miss_ratio
