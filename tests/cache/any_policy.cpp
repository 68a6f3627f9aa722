#include <gneiss/cache/any_policy.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/core/executor/serial.hpp>

#include "traces.hpp"

namespace test_cache_any_policy {

using namespace gneiss;
using cache_test::random_trace;

namespace {

/// The smallest policy: holds nothing and reads every row each time.
struct no_cache {
    [[nodiscard]] static std::size_t capacity() noexcept { return 0; }
    [[nodiscard]] static std::span<const node_id> initial() noexcept { return {}; }
    static void next(std::span<const node_id>, change_set& out) noexcept { out.clear(); }
};
static_assert(cache_policy<no_cache>);

/// A naive model of a cache: maps the earlier rows and the ids of a batch to the rows held after it.
using naive_cache = std::function<std::set<node_id>(std::span<const node_id>)>;

naive_cache naive_lru(std::size_t capacity) {
    return [capacity, order = std::list<node_id>()](std::span<const node_id> ids) mutable {
        for (const node_id id : ids) {
            order.remove(id);
            order.push_front(id);
            if (order.size() > capacity) order.pop_back();
        }
        return std::set<node_id>(order.begin(), order.end());
    };
}

/// Algorithm 1 of the paper, row by row, on standard queues.
naive_cache naive_s3_fifo(std::size_t capacity) {
    struct model {
        std::size_t capacity;
        std::deque<node_id> small{}, main{}, ghost{}; // oldest last
        std::map<node_id, int> uses{};

        [[nodiscard]] std::size_t most_small() const { return std::max<std::size_t>(capacity / 10, 1); }
        void evict_main() {
            for (;;) {
                const node_id oldest = main.back();
                main.pop_back();
                if (uses[oldest] == 0) {
                    uses.erase(oldest);
                    return;
                }
                --uses[oldest];
                main.push_front(oldest);
            }
        }
        void evict_small() {
            while (!small.empty()) {
                const node_id oldest = small.back();
                small.pop_back();
                if (uses[oldest] > 1) {
                    uses[oldest] = 0;
                    main.push_front(oldest);
                } else {
                    uses.erase(oldest);
                    ghost.push_front(oldest);
                    if (ghost.size() > capacity - most_small()) ghost.pop_back();
                    return;
                }
            }
        }
        std::set<node_id> batch(std::span<const node_id> ids) {
            std::vector<node_id> missing;
            for (const node_id id : ids)
                if (uses.contains(id))
                    uses[id] = std::min(uses[id] + 1, 3);
                else
                    missing.push_back(id);
            for (const node_id id : missing) {
                while (uses.size() >= capacity) {
                    if (main.size() > capacity - most_small() || small.empty())
                        evict_main();
                    else
                        evict_small();
                }
                const auto known = std::ranges::find(ghost, id);
                if (known != ghost.end()) {
                    *known = ~node_id{0}; // keeps its place in the queue
                    main.push_front(id);
                } else
                    small.push_front(id);
                uses[id] = 0;
            }
            std::set<node_id> held;
            for (const auto& [id, count] : uses) held.insert(id);
            return held;
        }
    };
    return [m = model{capacity}](
               std::span<const node_id> ids) mutable { return m.capacity == 0 ? std::set<node_id>() : m.batch(ids); };
}

void check_like(any_cache_policy policy, const naive_cache& naive, const memory_trace& trace) {
    simulated_cache cache(policy.capacity());
    cache.fill(policy.initial());
    change_set changes;
    changes.out.push_back(77); // left over from another batch
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        CAPTURE(batch);
        const auto ids = trace.read(batch, room);
        policy.next(ids, changes);
        REQUIRE(changes.in.size() == changes.in_position.size());
        CHECK(std::ranges::is_sorted(changes.in_position));
        for (std::size_t i = 0; i < changes.in.size(); ++i) REQUIRE(changes.in[i] == ids[changes.in_position[i]]);
        cache.apply(changes);
        const auto held = naive(ids);
        CHECK(std::set<node_id>(cache.rows().begin(), cache.rows().end()) == held);
    }
}

} // namespace

TEST_CASE("LRU holds the same rows after each batch as a list of rows by last use") {
    for (std::uint64_t seed = 0; seed < 30; ++seed)
        for (const std::size_t capacity :
            {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{40}, std::size_t{100}}) {
            CAPTURE(seed);
            CAPTURE(capacity);
            check_like(lru(capacity), naive_lru(capacity), random_trace(30, 1 + 3 * seed, 60, seed));
        }
}

TEST_CASE("S3-FIFO holds the same rows after each batch as the paper's queues") {
    for (std::uint64_t seed = 0; seed < 40; ++seed)
        for (const std::size_t capacity :
            {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{11}, std::size_t{40}, std::size_t{100}}) {
            CAPTURE(seed);
            CAPTURE(capacity);
            check_like(s3_fifo(capacity), naive_s3_fifo(capacity), random_trace(60, 1 + 2 * seed, 90, seed));
        }
}

TEST_CASE("S3-FIFO misses less than LRU if most rows are used once") {
    memory_trace trace;
    node_id once = 1000;
    for (int batch = 0; batch < 200; ++batch) {
        std::vector<node_id> ids;
        for (node_id id = 0; id < 50; ++id)
            if ((mix64(static_cast<std::uint64_t>(batch) * 50 + id) & 3) == 0) ids.push_back(id);
        for (int i = 0; i < 40; ++i) ids.push_back(once++);
        trace.append(ids);
    }
    lru recent(60);
    s3_fifo queues(60);
    CHECK(simulate(queues, trace).misses < simulate(recent, trace).misses);
}

TEST_CASE("a static cache keeps the first rows of a ranking; no cache keeps nothing") {
    const std::vector<std::uint32_t> degrees{3, 9, 1, 9, 0, 4};
    CHECK(rank_by(degrees, 3) == std::vector<node_id>{1, 3, 5});
    CHECK(rank_by(degrees, 0).empty());
    CHECK(rank_by(degrees, 10) == std::vector<node_id>{1, 3, 5, 0, 2, 4});
    const memory_trace trace = random_trace(10, 6, 6, 1);
    check_like(static_cache(rank_by(degrees, 6), 2), [](auto) { return std::set<node_id>{1, 3}; }, trace);
    check_like(static_cache(rank_by(degrees, 6), 0), [](auto) { return std::set<node_id>(); }, trace);
    check_like(static_cache(rank_by(degrees, 6), 9), [](auto) { return std::set<node_id>{0, 1, 2, 3, 4, 5}; }, trace);
    check_like(no_cache{}, [](auto) { return std::set<node_id>(); }, trace);
    const auto visits = count_visits(trace, 6);
    std::vector<node_id> room;
    for (node_id id = 0; id < 6; ++id) {
        std::uint32_t count = 0;
        for (std::size_t batch = 0; batch < 10; ++batch) count += std::ranges::count(trace.read(batch, room), id) != 0;
        CHECK(visits[id] == count);
    }
}

TEST_CASE("replay returns the computed change sets and ends after the last one") {
    const memory_trace trace = random_trace(20, 40, 100, 5);
    memory_change_sets computed;
    const serial_executor executor;
    const auto outcome =
        belady(trace, {.capacity = 15}, executor, [&](std::size_t, const change_set& c) { computed.append(c); });
    belady_policy live(trace, {.capacity = 15}, executor);
    change_set_replay replay(15, outcome.fill.in, computed);
    CHECK(std::ranges::equal(replay.initial(), live.initial()));
    change_set a, b;
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        live.next(trace.read(batch, room), a);
        replay.next(trace.read(batch, room), b);
        CHECK(a == b);
    }
    CHECK_THROWS_AS(replay.next({}, b), error);
}

TEST_CASE("a replayed change set that does not fit its batch is refused") {
    for (const change_set& wrong : {change_set{{}, {}, {3}}, change_set{{}, {1}, {}}}) {
        memory_change_sets sets;
        sets.append(wrong);
        change_set_replay replay(4, {}, sets);
        change_set out;
        CHECK_THROWS_AS(replay.next(std::vector<node_id>{1, 2, 3}, out), error);
    }
}

} // namespace test_cache_any_policy
