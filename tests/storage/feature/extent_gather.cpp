#include <gneiss/storage/feature/extent_gather.hpp>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/misses.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>

#include "storage/counting_engine.hpp"
#include "storage/rows.hpp"
#include "support/temporary_directory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace test_storage_feature_extent_gather {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;

namespace {

constexpr serial_executor serial;

std::vector<node_id> distinct_rows(std::size_t draws, std::uint64_t rows, std::uint64_t seed) {
    const auto some = some_rows(draws, rows, seed);
    const std::set<node_id> distinct(some.begin(), some.end());
    std::vector<node_id> ids(distinct.begin(), distinct.end());
    shuffle(ids, random_key(seed, random_domain::user));
    return ids;
}

/// Rows of a cache fill and of the batches after it.
struct requests {
    std::vector<node_id> own;
    std::vector<std::vector<node_id>> batches;

    requests(std::size_t count, std::size_t draws, std::uint64_t rows, std::uint64_t seed = 1)
        : own(distinct_rows(draws, rows, 1000 + seed)) {
        for (std::size_t b = 0; b < count; ++b)
            batches.push_back(b % 5 == 3 ? std::vector<node_id>{} : distinct_rows(draws + b, rows, seed * 100 + b));
    }
    [[nodiscard]] coming_rows coming() const {
        return {batches.size(), [this](const auto& visit) {
                    for (std::size_t b = 0; b < batches.size(); ++b) visit(b, std::span<const node_id>(batches[b]));
                }};
    }
    [[nodiscard]] std::uint64_t dealt() const {
        std::uint64_t sum = 0;
        for (const auto& ids : batches) sum += ids.size();
        return sum;
    }
    [[nodiscard]] std::uint64_t distinct() const {
        std::set<node_id> all(own.begin(), own.end());
        for (const auto& ids : batches) all.insert(ids.begin(), ids.end());
        return all.size();
    }
};

any_row_source reader(const engine_factory& engines, const rows_file& file, const gather_options& reads,
    executor_ref executor, memory_budget& budget) {
    return any_row_source(std::in_place_type<disk_rows>, engines, file.stored, reads, executor, budget);
}

/// Gathers everything that was announced; true if all rows are right.
bool right(extent_rows& source, const rows_file& file, const requests& of) {
    source.expect(of.coming());
    bool all = gathers(source, file, of.own, 1);
    for (std::size_t b = 0; b < of.batches.size(); ++b) {
        source.select(b);
        all = gathers(source, file, of.batches[b], b) && all;
    }
    return all;
}

/// Flips a bit of byte `at` of a file.
void flip_bit(const memory_file_system& disk, const std::string& name, std::uint64_t at) {
    any_engine engine(memory_engine(disk, 8));
    gneiss::file raw(engine, name, {.write = true});
    const std::vector<std::byte> bit{disk.contents(name)[at] ^ std::byte{1}};
    io_queue queue(engine);
    queue.write(raw, at, bit);
    queue.drain();
}

} // namespace

TEST_CASE("rows dealt out equal the file's: every engine, row size, memory, gap and number of batches") {
    const temporary_directory folder;
    memory_budget budget;
    const tbb_executor threads(3);
    std::uint64_t passes = 0;
    const std::uint64_t rows = 900;
    std::vector<std::pair<requests, requests>> superbatches; // one, and another
    for (const std::size_t count : {0U, 1U, 9U, 60U})
        superbatches.emplace_back(requests(count, 200, rows, count + 1), requests(count + 1, 50, rows, 7));
    for (const auto& [name, engines] : all_engines())
        for (const std::size_t row_bytes : {1U, 100U, 512U, 3072U}) {
            const rows_file file(engines, folder / "rows", rows, row_bytes, 77);
            for (const std::uint64_t memory : {96U << 10, 300U << 10, 4U << 20})
                for (const auto& [of, another] : superbatches)
                    for (const std::size_t gap : {0U, 4096U}) {
                        if (name != "memory" && row_bytes == 3072 && of.batches.size() == 60)
                            continue; // many requests, no new path
                        CAPTURE(name);
                        CAPTURE(row_bytes);
                        CAPTURE(memory);
                        CAPTURE(of.batches.size());
                        const gather_options reads{.coalesce_bytes = gap};
                        std::optional<gather_choice> seen;
                        extent_rows source(reader(engines, file, reads, threads, budget), engines,
                            {.way = gather_way::scan,
                                .directory = folder.path(),
                                .memory = memory,
                                .reads = reads,
                                .least_piece = 8192,
                                .chosen = [&](const gather_choice& c) { seen = c; }},
                            threads, budget);
                        CHECK(right(source, file, of));
                        REQUIRE(seen);
                        CHECK(seen->scanned);
                        CHECK(seen->dealt_rows == of.dealt());
                        const extent_statistics dealt = source.dealt();
                        CHECK(dealt.passes == 1);
                        CHECK(dealt.dealt_rows == of.dealt());
                        passes += dealt.passes;
                        CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) <= 1); // the rows
                        CHECK(right(source, file, another));
                    }
        }
    CHECK(passes > 100);
}

TEST_CASE("batches may be gathered in any order, by one level and by two") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines())
        for (const bool two : {false, true}) {
            CAPTURE(name);
            CAPTURE(two);
            const std::uint64_t rows = 500;
            const rows_file file(engines, folder / "rows", rows, 512);
            extent_rows source(reader(engines, file, {}, serial, budget), engines,
                {.way = gather_way::scan,
                    .directory = folder.path(),
                    .memory = 256U << 10,
                    .least_piece = two ? 1U << 20 : 4096U},
                serial, budget);
            const requests of(9, 80, rows);
            source.expect(of.coming());
            CHECK(gathers(source, file, of.own));
            std::uint64_t dealt = 0;
            for (const std::size_t batch :
                {0U, 1U, 5U, 6U, 2U, 1U, 2U, 7U, 3U, 8U}) { // groups have three batches; the last ends it
                source.select(batch);
                CHECK(gathers(source, file, of.batches[batch]));
                dealt += of.batches[batch].size();
                CHECK(source.dealt().dealt_rows == dealt);
            }
        }
}

TEST_CASE("bytes are the model's floor: each row once, and each dealt row written once and read once; twice with two "
          "levels") {
    const temporary_directory folder;
    memory_budget budget;
    const engine_factory engines = [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
    constexpr std::size_t row_bytes = 512;
    const std::uint64_t rows = 4000;
    const rows_file file(engines, "rows", rows, row_bytes);
    for (const bool two : {false, true})
        for (const std::size_t gap : {0U, 2048U}) {
            CAPTURE(two);
            CAPTURE(gap);
            const gather_options reads{.coalesce_bytes = gap};
            std::optional<gather_choice> seen;
            extent_rows source(reader(engines, file, reads, serial, budget), engines,
                {.way = gather_way::scan,
                    .directory = folder.path(),
                    .memory = 4U << 20,
                    .reads = reads,
                    .least_piece = two ? 1U << 20 : 4096U,
                    .chosen = [&](const gather_choice& c) { seen = c; }},
                serial, budget);
            const requests of(40, 700, rows);
            REQUIRE(right(source, file, of));
            const extent_statistics dealt = source.dealt();
            const std::uint64_t floor = of.dealt() * row_bytes;
            const gather_stats all = source.statistics();
            CHECK(all.io.written_bytes == dealt.dealt_bytes);
            CHECK(all.bytes_wanted == of.distinct() * row_bytes);
            CHECK(all.io.read_bytes == dealt.scanned_bytes + dealt.dealt_bytes); // what is written is read once
            if (gap == 0)
                CHECK(dealt.scanned_bytes == of.distinct() * row_bytes);
            else
                CHECK(dealt.scanned_bytes <= rows * row_bytes);
            CHECK(dealt.scanned_bytes <= seen->scan.bytes);
            // Extents of rows of 512 bytes have no padding in one level; a tag of 4 bytes and pieces of whole records
            // in two.
            CHECK(seen->dealt_bytes >= dealt.dealt_bytes);
            if (two) {
                CHECK(dealt.dealt_bytes >= 2 * floor);
                CHECK(dealt.dealt_bytes < 2 * floor * 11 / 10);
            } else {
                CHECK(dealt.dealt_bytes == floor);
            }
        }
}

TEST_CASE("automatic takes the way that is faster on the device, reports both costs, and rows are the same") {
    const temporary_directory folder;
    memory_budget budget;
    const engine_factory engines = [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
    const std::uint64_t rows = 20'000;
    const rows_file file(engines, "rows", rows, 512);
    for (const double iops : {1e3, 1e5, 1e12})
        for (const std::size_t draws : {20U, 1000U, 6000U}) {
            CAPTURE(iops);
            CAPTURE(draws);
            const io_profile device{.bandwidth = 1e9, .iops = iops, .coalesce_bytes = 0, .spread = 1};
            const gather_options reads{.coalesce_bytes = 0};
            std::optional<gather_choice> seen;
            extent_rows source(reader(engines, file, reads, serial, budget), engines,
                {.directory = folder.path(),
                    .memory = 1U << 20,
                    .reads = reads,
                    .device = device,
                    .chosen = [&](const gather_choice& c) { seen = c; }},
                serial, budget);
            const requests of(12, draws, rows);
            REQUIRE(right(source, file, of));
            REQUIRE(seen);
            CHECK(seen->obstacle.empty());
            CHECK(seen->scanned == (seen->scan_seconds < seen->random_seconds));
            CHECK(seen->random_seconds == seen->random.seconds(device));
            CHECK(source.dealt().passes == (seen->scanned ? 1U : 0U));
            if (!seen->scanned) CHECK(seen->random.bytes == source.statistics().io.read_bytes);
            if (iops == 1e12) CHECK_FALSE(seen->scanned); // requests cost nothing
            if (iops == 1e3 && draws == 6000) CHECK(seen->scanned);
        }
}

TEST_CASE("a cache by Belady's change sets over dealt rows holds the file's rows, and reads no other row at random") {
    const temporary_directory folder;
    memory_budget budget;
    const engine_factory engines = [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
    const std::uint64_t rows = 3000;
    const rows_file file(engines, "rows", rows, 64);
    for (const std::size_t capacity : {0U, 1U, 200U, 1500U, 4000U})
        for (const std::uint64_t memory : {64U << 10, 1U << 20}) {
            CAPTURE(capacity);
            memory_trace trace;
            const requests of(25, 600, rows, capacity + 1);
            for (const auto& ids : of.batches) trace.append(ids);
            memory_change_sets sets;
            const belady_outcome best = belady(trace, {.capacity = capacity, .nodes = rows, .resident = {}}, serial,
                [&](std::size_t, const change_set& c) { sets.append(c); });
            any_row_source source(std::in_place_type<extent_rows>, reader(engines, file, {}, serial, budget), engines,
                extent_options{.way = gather_way::scan, .directory = folder.path(), .memory = memory}, serial, budget);
            extent_rows& dealt = *source.target<extent_rows>();
            CHECK(source.target<disk_rows>() == nullptr);
            cached_rows<any_row_source> cache(source, capacity, slot_table_kind::hashed, serial, budget);
            std::uint64_t misses = 0;
            dealt.expect({of.batches.size(), [&](const auto& visit) {
                              memory_change_sets again = sets;
                              bitmap cached(rows);
                              for (const node_id id : best.fill.in) cached.set(id);
                              for_each_miss(trace, &again, cached,
                                  [&](std::size_t b, std::span<const node_id> ids) { visit(b, ids); });
                          }});
            cache.fill(best.fill.in, best.fill.out);
            change_set_replay<memory_change_sets> replay(capacity, {}, sets);
            change_set changes;
            for (std::size_t b = 0; b < of.batches.size(); ++b) {
                const auto& ids = of.batches[b];
                for (const node_id id : ids) misses += !cache.holds(id);
                storage_test::gathered_rows to(ids.size(), 64, b);
                dealt.select(b);
                cache.gather(ids, to.target());
                CHECK(to.equal(file, ids));
                replay.next(ids, changes);
                cache.apply(changes, ids, to.target());
            }
            CHECK(dealt.dealt().dealt_rows == misses);
            CHECK(dealt.statistics().bytes_wanted <= (of.distinct() + 1) * 64);
        }
}

TEST_CASE("gathers that were not announced, not selected, or of other rows read the same rows from below") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        const std::uint64_t rows = 500;
        const rows_file file(engines, folder / "rows", rows, 512);
        extent_rows source(reader(engines, file, {}, serial, budget), engines,
            {.way = gather_way::scan, .directory = folder.path(), .memory = 256U << 10}, serial, budget);
        source.finish(); // no gather has started
        CHECK(gathers(source, file, some_rows(100, rows, 1)));
        source.select(0);
        CHECK(gathers(source, file, some_rows(100, rows, 2)));
        const requests of(6, 80, rows);
        source.expect(of.coming());
        CHECK(gathers(source, file, of.own));
        CHECK(gathers(source, file, of.batches[0])); // not selected
        source.select(1);
        CHECK(gathers(source, file, of.batches[2])); // another's rows
        source.select(600);
        CHECK(gathers(source, file, of.batches[2]));
        CHECK(source.dealt().dealt_rows == 0);
        source.select(4); // in any order
        CHECK(gathers(source, file, of.batches[4]));
        CHECK(source.dealt().dealt_rows == of.batches[4].size());
        storage_test::gathered_rows dropped(of.batches[2].size(), 512);
        source.select(2);
        source.begin(of.batches[2], dropped.target());
        CHECK(gathers(source, file, of.batches[0]));
        source.select(2);
        source.begin(of.batches[2], dropped.target());
        source.expect(of.coming()); // again, in place of the old ones
        CHECK(gathers(source, file, of.own));
        source.select(2);
        CHECK(gathers(source, file, of.batches[2]));
        source.drop();
        source.select(2);
        CHECK(gathers(source, file, of.batches[2]));
    }
}

TEST_CASE("a full disk is an error with the file and the need, or these batches are read at random and the reason is "
          "reported") {
    const temporary_directory folder;
    memory_budget budget;
    const std::uint64_t rows = 4000;
    const requests of(30, 500, rows);
    std::uint64_t refused = 0;
    for (const bool two : {false, true})
        for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{100'000}, of.dealt() * 512 - 512,
                 of.dealt() * 512 + 200'000, of.dealt() * 2048}) {
            CAPTURE(two);
            CAPTURE(room);
            const memory_file_system disk(rows * 512 + room);
            const engine_factory engines = [&] { return any_engine(memory_engine(disk, 8)); };
            const rows_file file(engines, "rows", rows, 512);
            const auto make = [&](gather_way way, std::vector<gather_choice>& seen) {
                return std::make_unique<extent_rows>(reader(engines, file, {.coalesce_bytes = 0}, serial, budget),
                    engines,
                    extent_options{.way = way,
                        .directory = folder.path(),
                        .memory = 1U << 20,
                        .reads = {.coalesce_bytes = 0},
                        .device = {.bandwidth = 1e9, .iops = 1e3, .coalesce_bytes = 0, .spread = 1},
                        .least_piece = two ? 1U << 20 : 4096U,
                        .chosen = [&](const gather_choice& c) { seen.push_back(c); }},
                    serial, budget);
            };
            std::vector<gather_choice> seen;
            const auto automatic = make(gather_way::automatic, seen);
            CHECK(right(*automatic, file, of));
            const bool full = !seen.back().obstacle.empty();
            if (full) {
                CHECK_FALSE(seen.back().scanned);
                CHECK(seen.back().obstacle.find("extents") != std::string::npos);
                CHECK(seen.back().obstacle.find("30 batches need") != std::string::npos);
            }
            const auto scan = make(gather_way::scan, seen);
            try {
                const bool all = right(*scan, file, of);
                CHECK(all);
                CHECK_FALSE(full);
            } catch (const error& e) {
                ++refused;
                CHECK(full);
                CHECK(e.code() == errc::no_space);
                CHECK(e.place().path.string().find("extents") != std::string::npos);
                CHECK(gathers(*scan, file, of.batches[0])); // the source is usable
            }
        }
    CHECK(refused >= 4);
}

TEST_CASE("too little memory is over budget, or these batches are read at random") {
    const temporary_directory folder;
    const engine_factory engines = [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
    memory_budget budget;
    const rows_file file(engines, "rows", 50, 30'000);
    const requests of(5, 20, 50);
    std::optional<gather_choice> seen;
    const auto make = [&](gather_way way, std::uint64_t memory, memory_budget& within) {
        return std::make_unique<extent_rows>(reader(engines, file, {}, serial, budget), engines,
            extent_options{.way = way,
                .directory = folder.path(),
                .memory = memory,
                .chosen = [&](const gather_choice& c) { seen = c; }},
            serial, within);
    };
    const auto scan = make(gather_way::scan, 64U << 10, budget);
    try {
        (void)right(*scan, file, of);
        FAIL("dealt out rows of 30 KB in 64 KiB");
    } catch (const error& e) {
        CHECK(e.code() == errc::over_budget);
    }
    CHECK(right(*make(gather_way::automatic, 64U << 10, budget), file, of));
    REQUIRE(seen);
    CHECK(seen->obstacle.find("5 batches") != std::string::npos);
    CHECK_THROWS_AS((void)make(gather_way::scan, 1000, budget), error);
    memory_budget little(std::uint64_t{1} << 20);
    CHECK_THROWS_AS((void)make(gather_way::scan, 1U << 20, little), over_budget); // and bitmaps
    {
        const auto fits = make(gather_way::scan, 512U << 10, little);
        CHECK(little.used() == extent_rows::need(50, {.memory = 512U << 10}).bytes);
        CHECK(right(*fits, file, of));
    }
    CHECK(little.used() == 0);
}

TEST_CASE("a flipped bit in an extent is corrupt, by one level and by two") {
    const temporary_directory folder;
    memory_budget budget;
    const std::uint64_t rows = 2000;
    const requests of(20, 300, rows);
    for (const bool two : {false, true}) {
        CAPTURE(two);
        const memory_file_system disk;
        const engine_factory engines = [&] { return any_engine(memory_engine(disk, 8)); };
        const rows_file file(engines, "rows", rows, 512);
        extent_rows source(reader(engines, file, {}, serial, budget), engines,
            {.way = gather_way::scan,
                .directory = folder.path(),
                .memory = 1U << 20,
                .least_piece = two ? 1U << 20 : 4096U},
            serial, budget);
        source.expect(of.coming());
        REQUIRE(gathers(source, file, of.own));
        const std::string name = (folder / "extents").string();
        flip_bit(disk, name, 5000);
        source.select(0);
        try {
            (void)gathers(source, file, of.batches[0]);
            FAIL("gathered rows of a damaged extent");
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            CHECK(e.place().path == name);
        }
    }
}

TEST_CASE("if any request fails, rows are right or the error is typed; the source can be used again") {
    const temporary_directory folder;
    memory_budget budget;
    const std::uint64_t rows = 300;
    const requests of(7, 60, rows);
    std::uint64_t runs = 0;
    std::vector<fault_kind> kinds{fault_kind::device_error, fault_kind::short_transfer, fault_kind::no_space,
        fault_kind::zero_read, fault_kind::interrupted};
    for (const auto& [name, engines] : all_engines(4)) {
        const rows_file file(engines, folder / "rows", rows, 512);
        for (const gather_way way : {gather_way::scan, gather_way::automatic})
            for (const bool two : {false, true})
                for (const fault_kind kind : kinds)
                    for (std::uint64_t at = 1;; at += 1 + at / 6, ++runs) {
                        CAPTURE(name);
                        CAPTURE(static_cast<int>(way));
                        CAPTURE(two);
                        CAPTURE(static_cast<int>(kind));
                        CAPTURE(at);
                        const auto injector = std::make_shared<fault_injector>(fault{kind, at, false, {}});
                        const engine_factory faults = [&, make = engines] {
                            return any_engine(faulty<any_engine>(make(), injector));
                        };
                        bool failed = false;
                        try {
                            extent_rows source(reader(faults, file, {.coalesce_bytes = 0}, serial, budget), faults,
                                {.way = way,
                                    .directory = folder.path(),
                                    .memory = 256U << 10,
                                    .device = {.bandwidth = 1e9, .iops = 1e3, .coalesce_bytes = 0, .spread = 1},
                                    .least_piece = two ? 1U << 20 : 4096U},
                                serial, budget);
                            try {
                                const bool all = right(source, file, of); // CHECK would catch the error
                                CHECK(all);
                            } catch (const std::runtime_error&) {
                                CHECK(right(source, file, of)); // the fault is over
                                throw;
                            }
                        } catch (const io_error& e) {
                            failed = true;
                            CHECK(!e.place().path.empty());
                        } catch (const error& e) {
                            failed = true;
                            CHECK((e.code() == errc::corrupt || e.code() == errc::no_space));
                            CHECK(!e.place().path.empty());
                        }
                        CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) <= 1);
                        if (injector->injected() == 0) {
                            CHECK_FALSE(failed);
                            break;
                        }
                        if (kind == fault_kind::short_transfer || kind == fault_kind::interrupted) CHECK_FALSE(failed);
                        if (kind == fault_kind::device_error || kind == fault_kind::zero_read) CHECK(failed);
                        if (kind == fault_kind::no_space && way == gather_way::scan) CHECK(failed);
                    }
        kinds.resize(2); // of the other engines: a failure and a repeated request
    }
    MESSAGE(runs, " runs");
}

TEST_CASE("after any error no request is in flight, the source is usable, and another thread may destroy it") {
    const temporary_directory folder;
    memory_budget budget;
    const std::uint64_t rows = 800;
    const requests of(9, 120, rows);
    for (const auto& [name, plain] : all_engines(4)) {
        const auto in_flight = std::make_shared<std::atomic<std::int64_t>>(0);
        const engine_factory engines = [&, make = plain] {
            return any_engine(storage_test::counting_engine(make(), in_flight));
        };
        const rows_file file(engines, folder / "rows", rows, 512);
        std::uint64_t failures = 0;
        for (const bool two : {false, true})
            for (const fault_kind kind : {fault_kind::no_space, fault_kind::device_error})
                for (std::uint64_t at = 1;; at += 1 + at / 2) {
                    CAPTURE(name);
                    CAPTURE(two);
                    CAPTURE(static_cast<int>(kind));
                    CAPTURE(at);
                    const auto injector = std::make_shared<fault_injector>(fault{kind, at, false, {}});
                    const engine_factory faults = [&, make = plain] { // of the extents
                        return any_engine(
                            storage_test::counting_engine(any_engine(faulty<any_engine>(make(), injector)), in_flight));
                    };
                    auto source = std::make_unique<extent_rows>(
                        reader(engines, file, {.coalesce_bytes = 0}, serial, budget), faults,
                        extent_options{.way = gather_way::scan,
                            .directory = folder.path(),
                            .memory = 256U << 10,
                            .least_piece = two ? 1U << 20 : 4096U},
                        serial, budget);
                    try {
                        const bool all = right(*source, file, of); // CHECK would catch the error
                        CHECK(all);
                    } catch (const std::exception&) {
                        ++failures;
                        CHECK(*in_flight == 0);
                        if (at % 2 == 0) CHECK(right(*source, file, of)); // the fault is over
                    }
                    std::jthread([&] { source.reset(); }).join();
                    if (injector->injected() == 0) break;
                }
        CHECK(failures > 10);
        CHECK(*in_flight == 0);
    }
}

TEST_CASE("a damaged piece leaves no read of its extent in flight, and other batches are read") {
    const temporary_directory folder;
    memory_budget budget;
    const std::uint64_t rows = 2000;
    const requests of(20, 300, rows);
    for (const bool two : {false, true}) {
        CAPTURE(two);
        const memory_file_system disk;
        const auto in_flight = std::make_shared<std::atomic<std::int64_t>>(0);
        const engine_factory engines = [&] {
            return any_engine(storage_test::counting_engine(any_engine(memory_engine(disk, 8)), in_flight));
        };
        const rows_file file(engines, "rows", rows, 512);
        extent_rows source(reader(engines, file, {}, serial, budget), engines,
            {.way = gather_way::scan,
                .directory = folder.path(),
                .memory = 256U << 10,
                .least_piece = two ? 1U << 20 : 4096U},
            serial, budget);
        source.expect(of.coming());
        REQUIRE(gathers(source, file, of.own));
        const std::string name = (folder / "extents").string();
        flip_bit(disk, name, 500);
        source.select(0);
        storage_test::gathered_rows to(of.batches[0].size(), 512);
        const auto gather = [&] {
            source.begin(of.batches[0], to.target());
            if (!two) CHECK(*in_flight != 0);
            source.finish();
        };
        CHECK_THROWS_AS(gather(), error);
        CHECK(*in_flight == 0);
        source.finish(); // nothing has begun
        source.select(1);
        CHECK(gathers(source, file, of.batches[1]));
        source.select(0);
        if (two)
            CHECK(gathers(source, file, of.batches[0])); // from below: its group is gone, with all extents
        else
            CHECK_THROWS_AS((void)gathers(source, file, of.batches[0]), error);
    }
}

} // namespace test_storage_feature_extent_gather
