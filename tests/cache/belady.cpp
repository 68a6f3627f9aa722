#include <gneiss/cache/belady.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include "ginex_changesets.hpp"
#include "traces.hpp"

namespace test_cache_belady {

using namespace gneiss;
using cache_test::ginex_changesets;
using cache_test::random_trace;

namespace {

const serial_executor serial;

struct computed {
    belady_outcome outcome;
    std::vector<change_set> changes;
};
template <class E>
computed run(const memory_trace& trace, const belady_options& options, const E& executor) {
    computed all;
    all.outcome = belady(trace, options, executor, [&](std::size_t batch, const change_set& changes) {
        CHECK(batch == all.changes.size());
        all.changes.push_back(changes);
    });
    return all;
}
computed run_as_printed(const memory_trace& trace, const belady_options& options) {
    computed all;
    all.outcome = ginex_changesets(
        trace, options, [&](std::size_t, const change_set& changes) { all.changes.push_back(changes); });
    return all;
}
void check_equal(computed a, computed b) {
    CHECK(a.outcome.fill == b.outcome.fill);
    REQUIRE(a.changes.size() == b.changes.size());
    for (std::size_t i = 0; i < a.changes.size(); ++i) {
        CAPTURE(i);
        CHECK(a.changes[i] == b.changes[i]);
    }
    std::ranges::sort(a.outcome.resident);
    std::ranges::sort(b.outcome.resident);
    CHECK(a.outcome.resident == b.outcome.resident);
}

/// Fewest fills and misses of any cache of `capacity` rows. Words represent sets of rows; any subset of the rows in
/// memory may stay after a batch, and any rows may be read before the first one, next to those carried over.
std::uint64_t fewest_reads(
    const memory_trace& trace, std::size_t capacity, std::uint64_t nodes, std::uint32_t resident) {
    constexpr std::uint64_t impossible = 1000000;
    const auto fits = [&](std::uint32_t set) { return static_cast<std::size_t>(std::popcount(set)) <= capacity; };
    std::vector<std::uint64_t> best(std::size_t{1} << nodes, impossible);
    for (std::uint32_t set = 0; set < best.size(); ++set)
        if (fits(set)) best[set] = static_cast<std::uint64_t>(std::popcount(set & ~resident));
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        std::uint32_t ids = 0;
        for (const node_id id : trace.read(batch, room)) ids |= std::uint32_t{1} << id;
        std::vector<std::uint64_t> after(best.size(), impossible);
        for (std::uint32_t set = 0; set < best.size(); ++set) {
            if (best[set] == impossible) continue;
            const std::uint64_t reads = best[set] + static_cast<std::uint64_t>(std::popcount(ids & ~set));
            const std::uint32_t present = set | ids;
            for (std::uint32_t kept = present;; kept = (kept - 1) & present) {
                if (fits(kept)) after[kept] = std::min(after[kept], reads);
                if (kept == 0) break;
            }
        }
        best.swap(after);
    }
    return *std::ranges::min_element(best);
}

/// Fills and misses of computed change sets, replayed to a cache that holds `resident`.
std::uint64_t reads_of(
    const memory_trace& trace, std::size_t capacity, std::span<const node_id> resident, const computed& all) {
    simulated_cache cache(capacity);
    cache.fill(resident);
    cache.apply(all.outcome.fill);
    std::uint64_t reads = all.outcome.fill.in.size();
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        for (const node_id id : trace.read(batch, room)) reads += !cache.holds(id);
        cache.apply(all.changes[batch]);
    }
    std::vector<node_id> left(cache.rows().begin(), cache.rows().end()), resident_after = all.outcome.resident;
    std::ranges::sort(left);
    std::ranges::sort(resident_after);
    CHECK(left == resident_after);
    return reads;
}

} // namespace

TEST_CASE("no cache reads fewer rows, whatever it carries over") {
    constexpr std::uint64_t nodes = 6;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        CAPTURE(seed);
        const memory_trace trace = random_trace(seed % 7, 1 + seed % 5, nodes, seed);
        const std::size_t capacity = seed % (nodes + 2);
        std::vector<node_id> resident;
        std::uint32_t set = 0;
        for (node_id id = 0; id < nodes; ++id)
            if (resident.size() < capacity && (mix64(seed * nodes + id) & 3) == 0) {
                resident.push_back(id);
                set |= std::uint32_t{1} << id;
            }
        const computed got = run(trace, {capacity, nodes, resident}, serial);
        CHECK(reads_of(trace, capacity, resident, got) == fewest_reads(trace, capacity, nodes, set));
    }
}

TEST_CASE("change sets equal the paper's, with an array and with a hash table, on any number of threads") {
    const tbb_executor two(2);
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const std::uint64_t nodes = seed % 3 == 0 ? 10 : 400;
        const memory_trace trace =
            random_trace(1 + seed % 40, 1 + static_cast<std::size_t>(nodes) / (1 + seed % 5), nodes, seed);
        const std::size_t capacity = static_cast<std::size_t>(seed * 7 % (nodes + nodes / 4));
        std::vector<node_id> resident;
        for (node_id id = 0; id < nodes; ++id)
            if (seed % 2 == 1 && resident.size() < capacity && mix64(seed * nodes + id) % 5 == 0)
                resident.push_back(id);
        const computed printed = run_as_printed(trace, {capacity, nodes, resident});
        check_equal(run(trace, {capacity, nodes, resident}, serial), printed);
        check_equal(run(trace, {capacity, 0, resident}, two), printed);
    }
}

TEST_CASE("batches large enough to be divided among threads give the same change sets as one thread") {
    const memory_trace trace = random_trace(12, 60000, 50000, 3);
    const computed one = run(trace, {5000, 50000, {}}, serial);
    const tbb_executor four(4);
    check_equal(run(trace, {5000, 50000, {}}, four), one);
    check_equal(run(trace, {5000, 0, {}}, four), one);
    check_equal(run_as_printed(trace, {5000, 50000, {}}), one);
}

TEST_CASE("the policy misses no more than any other, with capacity for no, some and all rows") {
    constexpr std::uint64_t nodes = 300;
    for (const std::size_t capacity :
        {std::size_t{0}, std::size_t{1}, std::size_t{30}, std::size_t{300}, std::size_t{1000}}) {
        CAPTURE(capacity);
        memory_trace trace = random_trace(40, 80, nodes, capacity);
        belady_policy best(trace, {.capacity = capacity}, serial);
        simulated_cache cache(capacity);
        const cache_counts counts = simulate(best, trace, cache);
        std::vector<node_id> left = best.resident(), held(cache.rows().begin(), cache.rows().end());
        std::ranges::sort(left);
        std::ranges::sort(held);
        CHECK(left == held);
        lru recent(capacity);
        s3_fifo queues(capacity);
        static_cache visited(rank_by(count_visits(trace, nodes), capacity), capacity);
        const cache_counts of_recent = simulate(recent, trace);
        CHECK(counts.reads() <= of_recent.reads());
        CHECK(counts.accesses() == of_recent.accesses());
        CHECK(counts.reads() <= simulate(queues, trace).reads());
        CHECK(counts.reads() <= simulate(visited, trace).reads());
        if (capacity >= nodes) CHECK(counts.misses == 0);
        if (capacity == 0) CHECK(counts.hits == 0);
    }
}

TEST_CASE("a superbatch of one batch fills its rows and changes nothing") {
    memory_trace trace;
    trace.append(std::vector<node_id>{5, 3, 9, 1});
    const computed got = run(trace, {3, 0, {}}, serial);
    CHECK(got.outcome.fill.in == std::vector<node_id>{5, 3, 1});
    CHECK(got.outcome.fill.in_position == std::vector<std::uint32_t>{0, 1, 2});
    CHECK(got.changes.at(0).empty());
}

TEST_CASE("a superbatch without batches or rows keeps the resident rows") {
    memory_trace trace;
    const std::vector<node_id> resident{4, 2};
    for (int batches = 0; batches < 3; ++batches, trace.append({})) {
        const computed got = run(trace, {2, 0, resident}, serial);
        CHECK(got.outcome.fill.empty());
        CHECK(reads_of(trace, 2, resident, got) == 0);
    }
}

TEST_CASE("rows that are carried over and used are not read again") {
    memory_trace trace;
    trace.append(std::vector<node_id>{1, 2, 3});
    trace.append(std::vector<node_id>{7, 8});
    const std::vector<node_id> resident{7, 100, 101, 2}; // 100 and 101 make room for rows used first
    const computed got = run(trace, {4, 0, resident}, serial);
    CHECK(got.outcome.fill.in == std::vector<node_id>{1, 3});
    CHECK(got.outcome.fill.out == std::vector<node_id>{100, 101});
    CHECK(reads_of(trace, 4, resident, got) == 3);
}

TEST_CASE("a row that is resident twice is refused, whether ids are dense or far apart") {
    memory_trace trace;
    trace.append(std::vector<node_id>{1, 2, 3});
    for (const node_id far : {node_id{0}, node_id{3'000'000'000}}) {
        const std::vector<node_id> distinct{2, far + 5, 4}, repeated{far + 5, 2, 4, far + 5};
        CHECK(belady_policy(trace, {.capacity = 4, .resident = distinct}, serial).initial().size() == 2);
        CHECK_THROWS_WITH_AS(belady_policy(trace, {.capacity = 4, .resident = repeated}, serial),
            doctest::Contains(("row " + std::to_string(far + 5) + " is resident twice").c_str()), error);
        CHECK_THROWS_AS(static_cache(repeated, 4), error);
    }
}

TEST_CASE("a row repeated in a batch, and more rows than declared, are reported") {
    memory_trace twice;
    twice.append(std::vector<node_id>{1, 2, 1});
    belady_policy policy(twice, {.capacity = 1}, serial);
    change_set changes;
    CHECK_THROWS_AS(policy.next(std::vector<node_id>{1, 2, 1}, changes), error);

    struct pretended {
        std::size_t declared, rows;
        [[nodiscard]] static std::size_t batches() { return 2; }
        [[nodiscard]] std::size_t size(std::size_t) const { return declared; }
        [[nodiscard]] std::span<const node_id> read(std::size_t, std::vector<node_id>& room) const {
            room.assign(rows, 0);
            return room;
        }
    };
    const pretended more{2, 3}, beyond{std::size_t{1} << 31, 0};
    CHECK_THROWS_AS(belady_policy(more, {.capacity = 1}, serial), error);
    CHECK_THROWS_AS(belady_policy(beyond, {.capacity = 1}, serial), error); // before any memory is allocated
}

TEST_CASE("invalid options and traces are refused") {
    memory_trace trace;
    trace.append(std::vector<node_id>{1, 2});
    const std::vector<node_id> resident{1, 2};
    const auto code = [&](auto call) {
        try {
            call();
        } catch (const error& e) {
            return e.code();
        }
        return errc::closed;
    };
    CHECK(code([&] { belady_policy(trace, {1, 0, resident}, serial); }) == errc::invalid_argument);
    CHECK(code([&] { belady_policy(trace, {1, 2, {}}, serial); }) == errc::out_of_range);
    belady_policy policy(trace, {.capacity = 1}, serial);
    change_set changes;
    CHECK(code([&] { policy.next(std::vector<node_id>{1}, changes); }) == errc::invalid_argument);
    policy.next(std::vector<node_id>{1, 2}, changes);
    CHECK(code([&] { policy.next(std::vector<node_id>{1, 2}, changes); }) == errc::invalid_argument);
}

TEST_CASE("a batch that differs from the trace, in its ids or in their order, is refused and changes nothing") {
    memory_trace trace;
    for (const std::vector<node_id>& batch : {std::vector<node_id>{1, 2}, {3, 4}, {3, 4}, {1, 2}}) trace.append(batch);
    belady_policy policy(trace, {.capacity = 2}, serial), same(trace, {.capacity = 2}, serial);
    change_set changes, expected;
    for (const std::vector<node_id>& other : {std::vector<node_id>{10, 11}, {2, 1}, {1}, {}})
        CHECK(test::code_of([&] { policy.next(other, changes); }) == errc::invalid_argument);
    for (const std::vector<node_id>& batch : {std::vector<node_id>{1, 2}, {3, 4}, {3, 4}, {1, 2}}) {
        policy.next(batch, changes);
        same.next(batch, expected);
        CHECK(changes == expected);
    }
    CHECK(test::code_of([&] { policy.next(std::vector<node_id>{1, 2}, changes); }) == errc::invalid_argument);

    memory_trace twice;
    twice.append(std::vector<node_id>{1, 1});
    twice.append(std::vector<node_id>{2});
    belady_policy broken(twice, {.capacity = 1}, serial);
    CHECK(test::code_of([&] { broken.next(std::vector<node_id>{1, 1}, changes); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { broken.next(std::vector<node_id>{2}, changes); }) ==
        errc::invalid_argument); // and no other follows
    const std::vector<node_id> resident{3, 3};
    CHECK(test::code_of([&] { belady_policy(trace, {.capacity = 2, .resident = resident}, serial); }) ==
        errc::invalid_argument);
}

} // namespace test_cache_belady
