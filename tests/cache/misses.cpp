#include <gneiss/cache/misses.hpp>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

#include <algorithm>
#include <set>
#include <vector>

namespace test_cache_misses {

using namespace gneiss;

namespace {

constexpr std::uint64_t rows = 60;

memory_trace random_trace(std::uint64_t seed) {
    memory_trace trace;
    random_stream draw(random_key(seed, random_domain::user));
    for (std::size_t batch = 0; batch < 12; ++batch) {
        std::vector<node_id> ids;
        for (node_id id = 0; id < rows; ++id)
            if (draw.below(3) == 0) ids.push_back(id);
        shuffle(ids, random_key(seed, random_domain::user).with(batch));
        trace.append(ids);
    }
    return trace;
}

} // namespace

TEST_CASE("misses are those of a cache that applies the change sets batch by batch, for any capacity") {
    for (std::uint64_t seed = 0; seed < 20; ++seed)
        for (const std::size_t capacity : {0U, 1U, 7U, 30U, 100U}) {
            CAPTURE(seed);
            CAPTURE(capacity);
            memory_trace trace = random_trace(seed);
            memory_change_sets sets;
            const belady_outcome best = belady(trace, {.capacity = capacity, .nodes = rows, .resident = {}},
                serial_executor{}, [&](std::size_t, const change_set& c) { sets.append(c); });
            // Oracle: a set of rows.
            memory_change_sets same = sets;
            std::set<node_id> held(best.fill.in.begin(), best.fill.in.end());
            std::vector<std::vector<node_id>> expected;
            change_set change;
            std::vector<node_id> room;
            for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
                auto& misses = expected.emplace_back();
                for (const node_id id : trace.read(batch, room))
                    if (!held.contains(id)) misses.push_back(id);
                REQUIRE(same.next(change));
                for (const node_id id : change.out) held.erase(id);
                held.insert(change.in.begin(), change.in.end());
            }
            bitmap cached(rows);
            for (const node_id id : best.fill.in) cached.set(id);
            std::vector<std::vector<node_id>> seen;
            for_each_miss(trace, &sets, cached, [&](std::size_t batch, std::span<const node_id> misses) {
                CHECK(batch == seen.size());
                seen.emplace_back(misses.begin(), misses.end());
            });
            CHECK(seen == expected);
            for (node_id id = 0; id < rows; ++id) CHECK(cached[id] == held.contains(id));
        }
}

TEST_CASE("without change sets the cache stays as it is") {
    memory_trace trace;
    trace.append(std::vector<node_id>{4, 2, 9});
    trace.append(std::vector<node_id>{9, 3});
    bitmap cached(10);
    cached.set(9);
    std::vector<std::vector<node_id>> seen;
    for_each_miss<memory_trace, memory_change_sets>(trace, nullptr, cached,
        [&](std::size_t, std::span<const node_id> misses) { seen.emplace_back(misses.begin(), misses.end()); });
    CHECK(seen == std::vector<std::vector<node_id>>{{4, 2}, {3}});
    CHECK(cached.count() == 1);
}

TEST_CASE("change sets that do not belong to the trace are refused") {
    memory_trace trace;
    trace.append(std::vector<node_id>{1, 2});
    const auto code_of = [&](memory_change_sets sets, std::size_t size) {
        bitmap cached(size);
        try {
            for_each_miss(trace, &sets, cached, [](std::size_t, std::span<const node_id>) {});
        } catch (const error& e) {
            return e.code();
        }
        return errc::io;
    };
    memory_change_sets beyond;
    beyond.append({.in = {}, .out = {}, .in_position = {2}});
    CHECK(code_of({}, 10) == errc::invalid_argument);
    CHECK(code_of(beyond, 10) == errc::corrupt);
    CHECK(code_of(beyond, 2) == errc::out_of_range);
}

} // namespace test_cache_misses
