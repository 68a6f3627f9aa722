#include <gneiss/cache/simulate.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "storage/counting_engine.hpp"
#include "storage/rows.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <set>

namespace test_storage_feature_cached_rows {

using namespace gneiss;
using storage_test::gathered_rows;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;

namespace {

constexpr std::uint64_t rows = 120;
constexpr std::size_t row_bytes = 2000; // so that a few dozen occupy several threads
constexpr serial_executor serial;

engine_factory memory() {
    return [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
}

/// Returns a batch of distinct rows.
std::vector<node_id> batch_of(std::size_t size, std::uint64_t seed) {
    std::vector<node_id> ids(rows);
    std::iota(ids.begin(), ids.end(), 0U);
    shuffle(ids, random_key(seed, random_domain::user));
    ids.resize(size);
    return ids;
}

/// Returns a random change set that is valid for a cache with these rows after this batch.
change_set some_changes(const simulated_cache& cache, std::span<const node_id> batch, std::uint64_t seed) {
    random_stream draw(random_key(seed, random_domain::user));
    change_set result;
    for (std::uint32_t i = 0; i < batch.size(); ++i) {
        if (cache.holds(batch[i]) || draw.below(2) == 0) continue;
        result.in.push_back(batch[i]);
        result.in_position.push_back(i);
    }
    std::vector<node_id> leaving(cache.rows().begin(), cache.rows().end());
    shuffle(leaving, random_key(seed + 1, random_domain::user));
    const std::size_t free = cache.capacity() - cache.rows().size();
    const std::size_t in = std::min(result.in.size(), cache.capacity());
    result.in.resize(in);
    result.in_position.resize(in);
    const std::size_t least = in - std::min(in, free), most = std::min(in, leaving.size());
    leaving.resize(least + static_cast<std::size_t>(draw.below(most - least + 1)));
    result.out = leaving;
    return result;
}

/// True if the cache holds the simulated rows and returns them without reading below.
template <class Cache>
bool equal(Cache& cache, const simulated_cache& expected, const rows_file& file) {
    if (cache.held() != expected.rows().size()) return false;
    for (node_id id = 0; id < rows; ++id)
        if (cache.holds(id) != expected.holds(id)) return false;
    const gather_stats before = cache.statistics();
    if (!gathers(cache, file, expected.rows())) return false;
    const gather_stats after = cache.statistics();
    return after.hits - before.hits == expected.rows().size() && after.io == before.io;
}

} // namespace

TEST_CASE("after every fill and change set the cache equals the simulation, and gathers equal the file") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    const tbb_executor threads(3);
    memory_budget budget;
    disk_rows disk(engines, file.stored, {}, serial, budget);
    for (const std::size_t capacity : {0U, 1U, 7U, 60U, 120U, 500U})
        for (const slot_table_kind kind : {slot_table_kind::direct, slot_table_kind::hashed})
            for (const bool parallel : {false, true}) {
                CAPTURE(capacity);
                CAPTURE(static_cast<int>(kind));
                cached_rows cache(
                    disk, capacity, kind, parallel ? executor_ref(threads) : executor_ref(serial), budget);
                simulated_cache expected(std::min<std::size_t>(capacity, rows));
                const std::vector<node_id> first = batch_of(expected.capacity() / 2, capacity);
                cache.fill(first);
                expected.fill(first);
                CHECK(equal(cache, expected, file));
                gather_stats counted = cache.statistics();
                for (std::uint64_t batch = 0; batch < 30; ++batch) {
                    CAPTURE(batch);
                    const std::vector<node_id> ids = batch_of(1 + batch * 3, 1000 + batch);
                    for (const node_id id : ids) counted.hits += expected.holds(id);
                    counted.rows += ids.size();
                    gathered_rows to(ids.size(), row_bytes, batch);
                    cache.gather(ids, to.target());
                    REQUIRE(to.equal(file, ids));
                    CHECK(cache.statistics().hits == counted.hits);
                    CHECK(cache.statistics().rows == counted.rows);
                    const change_set changes = some_changes(expected, ids, 7 * batch);
                    cache.apply(changes, ids, to.target());
                    expected.apply(changes);
                    REQUIRE(equal(cache, expected, file));
                    counted = cache.statistics();
                }
                const change_set carried = some_changes(expected, batch_of(rows, 5), 5);
                const gather_stats before = disk.statistics();
                cache.fill(carried.in, carried.out);
                CHECK(disk.statistics().rows - before.rows == carried.in.size()); // only absent rows are read
                expected.apply(carried);
                CHECK(equal(cache, expected, file));
            }
}

TEST_CASE("ids may repeat; a cache of all rows reads nothing, and one of none reads everything") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    disk_rows disk(engines, file.stored, {}, serial, budget);
    const tbb_executor threads(3);
    cached_rows whole(disk, rows, slot_table_kind::hashed, threads, budget);
    cached_rows nothing(disk, 0, slot_table_kind::direct, serial, budget);
    whole.fill(batch_of(rows, 1));
    const std::vector<node_id> ids = some_rows(9000, rows, 3);
    const std::uint64_t reads = disk.statistics().io.reads;
    CHECK(gathers(whole, file, ids));
    CHECK(whole.statistics().hits == whole.statistics().rows);
    CHECK(disk.statistics().io.reads == reads);
    CHECK(gathers(nothing, file, ids));
    CHECK(nothing.statistics().hits == 0);
    CHECK(disk.statistics().io.reads > reads);
}

TEST_CASE("caches nest: a row is taken from the highest tier that holds it") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    any_row_source disk(std::in_place_type<disk_rows>, engines, file.stored, gather_options{}, serial, budget);
    cached_rows lower(disk, 60, slot_table_kind::direct, serial, budget);
    cached_rows upper(lower, 20, slot_table_kind::hashed, serial, budget);
    const std::vector<node_id> order = batch_of(rows, 9);
    lower.fill(std::span(order).first(60));
    upper.fill(std::span(order).subspan(40, 20));
    const gather_stats before = lower.statistics();
    CHECK(before.hits == 20); // the fill of the upper one
    CHECK(gathers(upper, file, order));
    CHECK(upper.statistics().rows == 120);
    CHECK(upper.statistics().hits == 20);
    CHECK(lower.statistics().rows - before.rows == 100);
    CHECK(lower.statistics().hits - before.hits == 40);
    CHECK(upper.statistics().bytes_wanted == disk.statistics().bytes_wanted);
    CHECK(disk.statistics().rows == 60 + 60);
}

TEST_CASE("released memory leaves the budget, and every row is a miss until it is acquired again") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    disk_rows disk(engines, file.stored, {}, serial, budget);
    const std::uint64_t before = budget.used();
    cached_rows cache(disk, 50, slot_table_kind::direct, serial, budget);
    CHECK(budget.used() - before == cache.need(rows, row_bytes, 50, slot_table_kind::direct).bytes);
    const std::vector<node_id> ids = batch_of(50, 1);
    cache.fill(ids);
    cache.release();
    CHECK(cache.held() == 0);
    CHECK(budget.used() < before + 50 * row_bytes);
    CHECK(gathers(cache, file, ids));
    CHECK(cache.statistics().hits == 0);
    CHECK_THROWS_AS(cache.fill(ids), error); // over budget
    cache.acquire();
    CHECK(gathers(cache, file, ids));
    CHECK(cache.statistics().hits == 0);
    cache.fill(ids);
    CHECK(gathers(cache, file, ids));
    CHECK(cache.statistics().hits == 50);
    memory_budget little(100);
    CHECK_THROWS_AS(cached_rows(disk, 50, slot_table_kind::direct, serial, little), over_budget);
}

TEST_CASE("a failed fill leaves the cache empty, and later gathers are right") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    const auto injector = std::make_shared<fault_injector>(fault{fault_kind::device_error, 3, false, {.open = false}});
    disk_rows disk([&] { return any_engine(faulty<any_engine>(engines(), injector)); }, file.stored,
        {.coalesce_bytes = 0, .run_bytes = 1}, serial, budget);
    cached_rows cache(disk, 50, slot_table_kind::hashed, serial, budget);
    cache.fill(batch_of(2, 1));
    CHECK(cache.held() == 2);
    std::vector<node_id> more;
    for (node_id id = 0; id < rows && more.size() < 9; ++id)
        if (!cache.holds(id)) more.push_back(id);
    CHECK_THROWS_AS(cache.fill(more), io_error);
    CHECK(cache.held() == 0);
    CHECK(gathers(cache, file, batch_of(rows, 2)));
    CHECK(cache.statistics().hits == 0);
}

TEST_CASE("invalid changes are refused and leave the cache empty") {
    const engine_factory engines = memory();
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    disk_rows disk(engines, file.stored, {}, serial, budget);
    cached_rows cache(disk, 3, slot_table_kind::direct, serial, budget);
    const std::vector<node_id> ids{0, 1, 2, 3, 4, 5};
    gathered_rows to(ids.size(), row_bytes);
    cache.gather(ids, to.target());
    for (const change_set& wrong : {change_set{{3, 4}, {}, {3, 4}}, // more rows than slots
             change_set{{3}, {4}, {3}},                             // 4 is absent
             change_set{{1}, {0}, {1}},                             // 1 is present
             change_set{{}, {0}, {}},                               // nothing replaces it
             change_set{{3, 3}, {0, 1}, {3, 3}},                    // twice
             change_set{{3}, {0}, {}},                              // no position
             change_set{{3}, {0}, {4}},                             // the position of another row
             change_set{{9}, {0}, {3}},                             // 9 was not gathered
             change_set{{3}, {0}, {7'000'000}},                     // beyond the batch
             change_set{{3}, {200}, {3}},                           // no such row
             change_set{{200}, {0}, {3}}}) {
        cache.fill(std::vector<node_id>{0, 1});
        CHECK(cache.held() == 2);
        CHECK_THROWS_AS(cache.apply(wrong, ids, to.target()), error);
        CHECK(cache.held() == 0);
        cache.release();
        cache.acquire();
        CHECK(gathers(cache, file, ids));
    }
    CHECK_THROWS_AS(cache.fill(std::vector<node_id>{0, 1, 2, 3}), error);
    CHECK_THROWS_WITH_AS(cache.apply({{9}, {}, {3}}, ids, to.target()),
        "a change of cached rows takes row 9 from position 3 of the batch, where row 3 is", error);
    CHECK_THROWS_WITH_AS(cache.apply({{3}, {}, {7}}, ids, to.target()),
        "a change of cached rows takes row 3 from position 7 of a batch of 6", error);
}

namespace {

/// Runs on the calling thread; the last of so many calls has no memory.
struct failing_executor {
    std::size_t* calls; // 0: none fails

    template <class Body>
    void run(std::size_t tasks, Body&& body) const {
        if (*calls != 0 && --*calls == 0) throw std::bad_alloc();
        for (std::size_t i = 0; i < tasks; ++i) body(i);
    }
    [[nodiscard]] static constexpr std::size_t concurrency() noexcept { return 1; }
};

} // namespace

TEST_CASE("a gather that fails while rows are copied leaves no read in flight, and the cache is usable") {
    const auto in_flight = std::make_shared<std::atomic<std::int64_t>>(0);
    const engine_factory engines = [&, make = memory()] {
        return any_engine(storage_test::counting_engine(make(), in_flight));
    };
    const rows_file file(engines, "rows", rows, row_bytes);
    memory_budget budget;
    std::size_t calls = 0;
    const failing_executor executor{&calls};
    disk_rows source(engines, file.stored, {}, serial, budget);
    cached_rows cache(source, 40, slot_table_kind::direct, executor, budget);
    cached_rows stacked(cache, 20, slot_table_kind::hashed, serial, budget);
    cache.fill(batch_of(40, 1));
    stacked.fill(batch_of(20, 2));
    const std::vector<node_id> ids = batch_of(rows, 3);
    gathered_rows to(ids.size(), row_bytes);
    const auto fails = [&](auto& from) {
        from.begin(ids, to.target());
        CHECK(*in_flight != 0);
        calls = 1;
        CHECK_THROWS_AS(from.finish(), std::bad_alloc);
        CHECK(*in_flight == 0);
        CHECK(calls == 0);
        from.finish(); // nothing has begun
        CHECK(gathers(from, file, ids));
    };
    fails(cache);
    fails(stacked);
}

} // namespace test_storage_feature_cached_rows
