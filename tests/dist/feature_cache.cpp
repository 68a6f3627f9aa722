#include <gneiss/dist/feature_cache.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/miss_ratio.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/random.hpp>

namespace test_dist_feature_cache {

using namespace gneiss;

namespace {

constexpr std::size_t columns = 3;

/// Groups of distinct rows, of which low ones are more frequent.
memory_trace drawn(std::uint64_t seed, std::size_t groups, std::uint64_t nodes) {
    memory_trace trace;
    random_stream draws(random_key{seed, random_domain::generate});
    for (std::size_t g = 0; g < groups; ++g) {
        std::vector<node_id> ids;
        for (std::uint64_t n = draws.below(nodes); n != 0; --n) {
            const auto id = static_cast<node_id>(draws.below(1 + draws.below(nodes)));
            if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
        }
        trace.append(ids);
    }
    return trace;
}

/// Delivers the groups of a trace to a mirror, whose rows are those of the ids.
struct delivered {
    rows_mirror mirror;
    std::uint64_t sent = 0;

    explicit delivered(std::size_t capacity) : mirror(capacity, columns) {}

    row_delivery take(delivery_planner& plan, std::span<const node_id> ids) {
        row_delivery one = plan.next(ids);
        std::vector<float> message;
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (one.from[i] == no_slot)
                for (std::size_t c = 0; c < columns; ++c) message.push_back(static_cast<float>(columns * ids[i] + c));
        std::vector<float> rows(ids.size() * columns);
        mirror.apply(one.sequence, one.from, one.enter, {message.data(), one.sent(), columns},
            {rows.data(), ids.size(), columns});
        for (std::size_t i = 0; i < rows.size(); ++i)
            CHECK(rows[i] == static_cast<float>(columns * ids[i / columns] + i % columns));
        sent += one.sent();
        return one;
    }
};

} // namespace

TEST_CASE("a compute worker has the rows of every group, and as many are sent as a simulation of the policy reads") {
    std::vector<node_id> room;
    for (std::uint64_t seed = 0; seed < 30; ++seed)
        for (const std::size_t capacity : {std::size_t{1}, std::size_t{7}, std::size_t{20}, std::size_t{64}}) {
            CAPTURE(seed);
            CAPTURE(capacity);
            memory_trace trace = drawn(seed, 20, 40);
            const auto deliver = [&](delivery_planner plan, std::size_t window) {
                delivered to(capacity);
                for (std::size_t g = 0; g < trace.batches(); ++g) {
                    if (window != 0 && g % window == 0) {
                        trace_part part(trace, g, window);
                        plan.begin_window(part);
                    }
                    (void)to.take(plan, trace.read(g, room));
                }
                return std::pair(to.sent, plan.fills());
            };
            lru recent(capacity);
            CHECK(deliver(delivery_planner(lru(capacity)), 0) ==
                std::pair(simulate(recent, trace).misses, std::uint64_t{0}));
            for (const std::size_t window : {std::size_t{1}, std::size_t{3}, std::size_t{20}}) {
                const cache_counts best = simulate_belady(
                    trace, {.capacity = capacity, .batches = window, .carry = true, .nodes = 40}, serial_executor{});
                CHECK(deliver(delivery_planner(capacity), window) == std::pair(best.reads(), best.fills));
            }
            std::vector<node_id> ranked;
            for (node_id v = 0; v < 40; v += 2) ranked.push_back(v);
            static_cache fixed(ranked, capacity);
            const cache_counts of_fixed = simulate(fixed, trace);
            std::set<node_id> requested;
            for (std::size_t g = 0; g < trace.batches(); ++g) {
                const auto ids = trace.read(g, room);
                requested.insert(ids.begin(), ids.end());
            }
            const auto used = static_cast<std::uint64_t>(
                std::ranges::count_if(fixed.initial(), [&](node_id v) { return requested.contains(v); }));
            CHECK(deliver(delivery_planner(static_cache(ranked, capacity)), 0) ==
                std::pair(of_fixed.misses + used, used));
        }
}

TEST_CASE("a delivery out of its turn, or one that does not fit, is refused and changes nothing") {
    const memory_trace trace = drawn(5, 6, 30);
    std::vector<node_id> room;
    delivery_planner plan(lru(8));
    delivered to(8);
    const row_delivery first = to.take(plan, trace.read(0, room)), second = to.take(plan, trace.read(1, room));
    const auto refusal = [&](const row_delivery& one, std::size_t sent) {
        std::vector<float> message(sent * columns), rows(one.from.size() * columns);
        return test::code_of([&] {
            to.mirror.apply(one.sequence, one.from, one.enter, {message.data(), sent, columns},
                {rows.data(), one.from.size(), columns});
        });
    };
    CHECK(refusal(second, second.sent()) == errc::corrupt); // again
    row_delivery next = second;
    ++next.sequence;
    CHECK(refusal(next, next.sent() + 1) == errc::corrupt);
    row_delivery wrong = next;
    wrong.from.front() = 8;
    CHECK(refusal(wrong, wrong.sent()) == errc::corrupt);
    wrong = next;
    wrong.enter.push_back({static_cast<std::uint32_t>(next.from.size()), 0});
    CHECK(refusal(wrong, wrong.sent()) == errc::corrupt);
    wrong.enter.back() = {0, 8};
    CHECK(refusal(wrong, wrong.sent()) == errc::corrupt);
    (void)to.take(plan, trace.read(2, room)); // the cache is as it was
    CHECK(!refusal(first, first.sent()));     // and begins again
}

TEST_CASE("Belady's cache needs a window, of the groups that come") {
    memory_trace trace = drawn(5, 6, 30);
    std::vector<node_id> room;
    delivery_planner plan(8);
    CHECK(test::code_of([&] { (void)plan.next(trace.read(0, room)); }) == errc::invalid_argument);
    delivery_planner other(8);
    trace_part part(trace, 0, 2);
    other.begin_window(part);
    (void)other.next(trace.read(0, room));
    CHECK(test::code_of([&] { other.begin_window(part); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { (void)other.next(trace.read(3, room)); }) == errc::invalid_argument);
}

} // namespace test_dist_feature_cache
