#include <gneiss/cuda/storage/device_tier.cuh>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>

#include "cache/traces.hpp"

#include <simt/storage/support.hpp>

#include <deque>
#include <optional>

namespace test_simt_storage_device_tier {

using namespace simt_storage;
using simt_model::layout;

namespace {

constexpr std::uint64_t nodes = 90;
constexpr std::size_t most = 40; // rows of a batch
using simt_model::serial;

/// Runs batches through a tier and through the host's cache with the same policy: the same bits, the same hits.
template <class T, class Policy>
void check_as_host(const memory_trace& trace, Policy policy, Policy same, std::size_t columns, slot_table_kind kind,
    std::size_t stages) {
    table_source source(nodes, columns * sizeof(T)), of_host(nodes, columns * sizeof(T));
    memory_budget budget;
    cuda::stream compute;
    cuda::device_tier<T, table_source> tier(source, policy.capacity(), kind, most, serial, budget, stages);
    cached_rows<table_source> host(of_host, policy.capacity(), kind, serial, budget);
    tier.fill(policy.initial(), {}, compute);
    host.fill(same.initial());

    std::deque<simt_model::rows<T>> gathered; // checked at the end
    std::vector<std::byte> bytes(most * columns * sizeof(T));
    const gather_target to{bytes.data(), columns * sizeof(T)};
    std::vector<node_id> room;
    change_set changes;
    std::uint64_t bus = tier.statistics().bus_bytes;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        const std::span<const node_id> ids = trace.read(batch, room);
        gathered.emplace_back(most + 3, columns, layout::aligned);
        const gather_stats before = host.statistics();
        tier.gather(ids, gathered.back().view(), compute);
        host.gather(ids, to);
        const gather_stats after = host.statistics();
        if (!ids.empty()) { // places, and the rows that no slot holds
            const std::uint64_t misses = after.rows - before.rows - (after.hits - before.hits),
                                traffic = tier.statistics().bus_bytes - bus;
            const std::uint64_t least = 4 + 4 * ids.size() + misses * columns * sizeof(T);
            CHECK(traffic >= least);
            CHECK(traffic <= least + misses * 14 + 2 * cuda::transfer_slot::alignment);
        }
        policy.next(ids, changes);
        tier.apply(changes, ids, std::as_const(gathered.back()).view(), compute);
        same.next(ids, changes);
        host.apply(changes, ids, to);
        CHECK(tier.held() == host.held());
        bus = tier.statistics().bus_bytes;
    }
    compute.synchronize();
    for (std::size_t batch = 0; batch < trace.batches(); ++batch)
        CHECK(equal(gathered[batch], source, trace.read(batch, room)));
    CHECK(tier.statistics().gathered == host.statistics());
    for (node_id id = 0; id < nodes; ++id) CHECK(tier.holds(id) == host.holds(id));
}

/// Returns precomputed change sets of an optimal cache.
change_set_replay<memory_change_sets> belady_replay(const memory_trace& trace, std::size_t capacity) {
    memory_change_sets sets;
    const belady_outcome result = belady(trace, {.capacity = capacity, .nodes = nodes}, serial,
        [&](std::size_t, const change_set& changes) { sets.append(changes); });
    return {capacity, result.fill.in, sets};
}
static_cache ranked(const memory_trace& trace, std::size_t capacity) {
    return {rank_by(count_visits(trace, nodes), capacity), capacity};
}

} // namespace

TEST_CASE_TEMPLATE(
    "simt.storage.device_tier: batches have the bits and hits of the host's cache, static, optimal or recent", T, float,
    bfloat16) {
    const memory_trace trace = cache_test::random_trace(14, most, nodes, 1);
    for (const std::size_t capacity : {0U, 1U, 25U, 90U, 200U})
        for (const std::size_t columns : {8U, 33U}) {
            CAPTURE(capacity);
            const slot_table_kind kind = columns == 8 ? slot_table_kind::direct : slot_table_kind::hashed;
            check_as_host<T>(trace, ranked(trace, capacity), ranked(trace, capacity), columns, kind, 2);
            check_as_host<T>(trace, belady_replay(trace, capacity), belady_replay(trace, capacity), columns, kind, 1);
            check_as_host<T>(trace, lru(capacity), lru(capacity), columns, kind, 3);
        }
}

TEST_CASE("simt.storage.device_tier: incoming and remaining rows are right, filled in parts of a batch") {
    table_source source(nodes, 40);
    memory_budget budget;
    cuda::stream compute;
    cuda::device_tier<float, table_source> tier(source, 50, slot_table_kind::hashed, 7, serial, budget);
    std::vector<node_id> first(45), second{80, 81, 82, 83, 84, 85, 86, 87, 88, 89}, leaving{3, 44, 7, 10, 11};
    std::iota(first.begin(), first.end(), 0U);
    tier.fill(first, {}, compute);
    tier.fill(second, leaving, compute);
    CHECK(tier.held() == 50);
    CHECK_FALSE(tier.holds(44));
    CHECK(source.statistics().rows == 55);
    for (node_id id = 0; id < nodes; id += 6) {
        const std::vector<node_id> ids{id, id + 1, id + 5, id, id + 2, 89, 0}; // repeats are allowed
        simt_model::rows<float> out(9, 10, layout::aligned);
        tier.gather(ids, out.view(), compute);
        compute.synchronize();
        CHECK(equal(out, source, ids));
    }
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.storage.device_tier: memory is charged as planned, and not allocated later") {
    table_source source(nodes, 36);
    memory_budget budget;
    using tier_type = cuda::device_tier<float, table_source>;
    const std::size_t before = simt::the_device().used();
    tier_type tier(source, 30, slot_table_kind::direct, most, serial, budget, 3);
    CHECK(budget.used(memory_kind::device) == tier_type::device_bytes(9, 30, most, 3));
    CHECK(budget.used(memory_kind::pinned) == tier_type::pinned_bytes(9, most, 3));
    CHECK(budget.used(memory_kind::host) == nodes * 4);
    CHECK(simt::the_device().used() == before + tier_type::device_bytes(9, 30, most, 3));
    memory_budget small(memory_budget::unlimited, memory_budget::unlimited, 1000);
    CHECK_THROWS_AS(tier_type(source, 30, slot_table_kind::direct, most, serial, small), over_budget);
    table_source odd(nodes, 6);
    CHECK_THROWS_AS(tier_type(odd, 30, slot_table_kind::direct, most, serial, budget), error);
}
#endif

TEST_CASE("simt.storage.device_tier: invalid gathers and changes are bytes, and a failed change leaves it empty") {
    table_source source(nodes, 32);
    memory_budget budget;
    cuda::stream compute;
    cuda::device_tier<float, table_source> tier(source, 10, slot_table_kind::direct, 5, serial, budget);
    simt_model::rows<float> out(5, 8, layout::aligned);
    const auto code = [&](auto call) {
        try {
            call();
        } catch (const error& e) {
            return e.code();
        }
        return errc::closed;
    };
    const std::vector<node_id> ids{1, 2, 3, 4, 5};
    CHECK(code([&] { tier.gather(std::vector<node_id>{1, 90}, out.view(), compute); }) == errc::out_of_range);
    CHECK(code([&] { tier.gather(std::vector<node_id>(6), out.view(), compute); }) == errc::out_of_range);
    tier.fill(ids, {}, compute);
    source.fails = true;
    tier.gather(ids, out.view(), compute); // all are present
    compute.synchronize();
    CHECK(equal(out, source, ids));
    CHECK(code([&] { tier.gather(std::vector<node_id>{1, 6}, out.view(), compute); }) == errc::io);
    CHECK(tier.held() == 5);
    CHECK(code([&] { tier.fill(std::vector<node_id>{7}, {}, compute); }) == errc::io);
    CHECK(tier.held() == 0);
    source.fails = false;
    tier.fill(ids, {}, compute);
    const std::vector<node_id> batch{1, 2, 3, 4, 8};
    const auto follow = [&](const change_set& changes) {
        return code([&] { tier.apply(changes, batch, out.view(), compute); });
    };
    CHECK(follow({{1}, {}, {0}}) == errc::invalid_argument); // is present
    CHECK(tier.held() == 0);
    CHECK(follow({{}, {9}, {}}) == errc::invalid_argument);   // more leave than enter
    CHECK(follow({{8}, {9}, {4}}) == errc::invalid_argument); // is absent
    CHECK(follow({{8}, {}, {}}) == errc::invalid_argument);   // without its position
    CHECK(follow({{8}, {}, {0}}) == errc::invalid_argument);  // another row is there
    CHECK(follow({{8}, {}, {5}}) == errc::invalid_argument);  // beyond the batch
    CHECK(follow({{90}, {}, {0}}) == errc::out_of_range);
    CHECK(follow({{1, 2, 3, 4, 5, 6}, {}, {0, 1, 2, 3, 4, 5}}) == errc::invalid_argument);
    CHECK(follow({{8}, {}, {4}}) == errc::closed);
    CHECK(tier.holds(8));
    compute.synchronize(); // the last change reads `out`
}

} // namespace test_simt_storage_device_tier
