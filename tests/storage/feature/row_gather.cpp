#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "storage/rows.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

namespace test_storage_feature_row_gather {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;
using storage_test::gathered_rows;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;

namespace {

constexpr serial_executor serial;

std::vector<node_id> all_rows(std::uint64_t rows) {
    std::vector<node_id> ids(rows);
    std::iota(ids.begin(), ids.end(), 0U);
    return ids;
}

/// Returns the memory engine, whose files have no alignment or blocks, so that requests can be counted on any machine.
engine_factory blockless() {
    return [disk = memory_file_system{}] { return any_engine(memory_engine(disk, 8)); };
}

} // namespace

TEST_CASE("gathered rows equal the file's: every engine, row size, gap, and order of ids") {
    const temporary_directory folder;
    memory_budget budget;
    const tbb_executor threads(3);
    for (const auto& [name, engines] : all_engines())
        for (const std::size_t row_bytes : {1U, 3U, 512U, 768U, 3072U, 5000U})
            for (const std::uint64_t offset : {0U, 77U, 4096U}) {
                CAPTURE(name);
                CAPTURE(row_bytes);
                CAPTURE(offset);
                const std::uint64_t rows = 200;
                const rows_file file(engines, folder / "rows", rows, row_bytes, offset);
                for (const std::size_t gap : {0U, 600U, 16U << 10, 1U << 20})
                    for (const bool direct : {true, false}) {
                        CAPTURE(gap);
                        CAPTURE(direct);
                        disk_rows source(
                            engines, file.stored, {.coalesce_bytes = gap, .direct = direct}, threads, budget);
                        std::vector<node_id> falling = all_rows(rows);
                        std::ranges::reverse(falling);
                        CHECK(gathers(source, file, all_rows(rows)));
                        CHECK(gathers(source, file, falling));
                        CHECK(gathers(source, file, {}));
                        CHECK(gathers(source, file, std::vector<node_id>{199}));
                        CHECK(gathers(source, file, std::vector<node_id>(9, 7)));
                        for (std::uint64_t seed = 0; seed < 3; ++seed)
                            CHECK(gathers(source, file, some_rows(seed == 0 ? 900 : 40, rows, seed), seed));
                    }
            }
}

TEST_CASE("staging of two small blocks and requests shorter than a row give the same rows") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines())
        for (const std::size_t row_bytes : {3U, 512U, 5000U}) {
            CAPTURE(name);
            CAPTURE(row_bytes);
            const std::uint64_t rows = (std::uint64_t{3} << 20) / row_bytes; // several times the staging memory
            const rows_file file(engines, folder / "rows", rows, row_bytes);
            for (const std::size_t run_bytes : {1U, 4096U, 64U << 10}) {
                disk_rows source(engines, file.stored,
                    {.coalesce_bytes = 4096, .run_bytes = run_bytes, .staging_bytes = 0}, serial, budget);
                CHECK(gathers(source, file, some_rows(3000, rows, 1)));
                if (row_bytes > 3) CHECK(gathers(source, file, all_rows(rows)));
            }
        }
}

TEST_CASE("neither rows nor requests depend on the number of threads") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines()) {
        const rows_file rows(engines, folder / "rows", 4000, 768);
        const std::vector<node_id> ids = some_rows(3000, 4000, 5);
        std::optional<gather_stats> first;
        for (const std::size_t threads : {1U, 2U, 5U}) {
            const tbb_executor executor(threads);
            disk_rows source(engines, rows.stored, {.coalesce_bytes = 2000}, executor, budget);
            CHECK(gathers(source, rows, ids));
            const gather_stats stats = source.statistics();
            if (!first) first = stats;
            CHECK(stats.io.reads == first->io.reads);
            CHECK(stats.io.read_bytes == first->io.read_bytes);
            CHECK(stats.bytes_wanted == first->bytes_wanted);
        }
    }
}

TEST_CASE("rows are merged up to the gap and the longest request, and the read bytes are reported") {
    const engine_factory engines = blockless();
    memory_budget budget;
    const rows_file file(engines, "rows", 10'000, 100);
    const auto stats_of = [&](std::span<const node_id> ids, const gather_options& options) {
        disk_rows source(engines, file.stored, options, serial, budget);
        CHECK(gathers(source, file, ids));
        return source.statistics();
    };
    const std::vector<node_id> apart{40, 10, 20, 30, 10}; // 900 bytes between neighbors
    const gather_stats plain = stats_of(apart, {.coalesce_bytes = 899});
    CHECK(plain.rows == 5);
    CHECK(plain.bytes_wanted == 400);
    CHECK(plain.io.reads == 4);
    CHECK(plain.amplification() == 1.0);
    const gather_stats merged = stats_of(apart, {.coalesce_bytes = 900});
    CHECK(merged.io.reads == 1);
    CHECK(merged.io.read_bytes == 3100);
    CHECK(merged.amplification() == 3100.0 / 400);
    CHECK(stats_of(apart, {.coalesce_bytes = 900, .run_bytes = 3100}).io.reads == 1);
    CHECK(stats_of(apart, {.coalesce_bytes = 900, .run_bytes = 3099}).io.reads == 2);
    CHECK(stats_of(all_rows(10'000), {.coalesce_bytes = 0, .run_bytes = 100'000}).io.reads == 10);
    CHECK(stats_of(all_rows(50), {.coalesce_bytes = 0, .run_bytes = 1}).io.reads == 50); // a row is never cut
}

TEST_CASE("aligned rows of the direct alignment are read without extra bytes") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        any_engine engine = engines();
        const rows_file small(engines, folder / "rows", 1, 8192);
        const std::size_t unit = file(engine, folder / "rows", {.direct = true}).alignment();
        const rows_file rows(engines, folder / "rows", 64, std::max<std::size_t>(unit, 512));
        disk_rows source(engines, rows.stored, {.coalesce_bytes = 0}, serial, budget);
        CHECK(gathers(source, rows, std::vector<node_id>{62, 0, 31, 33}));
        CHECK(source.statistics().io.reads == 4);
        CHECK(source.statistics().amplification() == 1.0);
    }
}

TEST_CASE("an id beyond the rows is refused before anything is read, and the source remains usable") {
    const engine_factory engines = blockless();
    memory_budget budget;
    const rows_file file(engines, "rows", 10, 8);
    disk_rows source(engines, file.stored, {}, serial, budget);
    gathered_rows to(2, 8);
    try {
        source.gather(std::vector<node_id>{3, 10}, to.target());
        FAIL("gathered a row that is not there");
    } catch (const error& e) {
        CHECK(e.code() == errc::out_of_range);
        CHECK(e.place().path == "rows");
    }
    CHECK(to.untouched());
    CHECK(source.statistics() == gather_stats{});
    CHECK(gathers(source, file, std::vector<node_id>{3, 9}));
}

TEST_CASE("a started gather no longer needs its ids, and the next one or the destructor drops it") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        const rows_file file(engines, folder / "rows", 3000, 512);
        disk_rows source(engines, file.stored, {.coalesce_bytes = 0}, serial, budget);
        source.finish(); // no gather has started
        const std::vector<node_id> ids = some_rows(500, 3000, 1);
        gathered_rows to(ids.size(), 512);
        source.begin(std::vector<node_id>(ids), to.target());
        CHECK(to.untouched());
        source.finish();
        CHECK(to.equal(file, ids));
        {
            gathered_rows dropped(ids.size(), 512);
            source.begin(ids, dropped.target());
            CHECK(dropped.untouched());
        }
        CHECK(gathers(source, file, some_rows(100, 3000, 2)));
        gathered_rows last(ids.size(), 512);
        source.begin(ids, last.target());
    }
}

TEST_CASE("invalid input is refused: files too short for their rows, staging and ids beyond the budget") {
    const engine_factory engines = blockless();
    memory_budget budget;
    const rows_file file(engines, "rows", 10, 100);
    const auto open = [&](const stored_rows& rows, memory_budget& within) {
        disk_rows(engines, rows, {}, serial, within);
    };
    CHECK_THROWS_AS(open({"rows", 0, 11, 100}, budget), error);
    CHECK_THROWS_AS(open({"rows", 1, 10, 100}, budget), error);
    CHECK_THROWS_AS(open({"rows", 0, std::uint64_t{1} << 62, 100}, budget), error);
    CHECK_THROWS_AS(open({"rows", 0, 10, 0}, budget), error);
    CHECK_THROWS_AS(open({"none", 0, 10, 100}, budget), io_error);
    memory_budget little(std::uint64_t{1} << 20);
    CHECK_THROWS_AS(open(file.stored, little), over_budget);
    disk_rows source(engines, file.stored, {.run_bytes = 4096, .staging_bytes = 0}, serial, little);
    const std::uint64_t used = little.used();
    gathered_rows to(100'000, 100);
    CHECK_THROWS_AS(source.gather(some_rows(100'000, 10, 1), to.target()), over_budget);
    CHECK(to.untouched());
    CHECK(little.used() == used);
    CHECK(gathers(source, file, some_rows(50, 10, 1)));
    CHECK(little.used() == used + 50 * 16);
}

TEST_CASE("a file truncated while open is corrupt, with its place") {
    const temporary_directory folder;
    memory_budget budget;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        const rows_file file(engines, folder / "rows", 100, 1024);
        disk_rows source(engines, file.stored, {.coalesce_bytes = 0}, serial, budget);
        any_engine engine = engines();
        gneiss::file(engine, folder / "rows", {.write = true}).resize(50 * 1024);
        gathered_rows to(2, 1024);
        try {
            source.gather(std::vector<node_id>{10, 90}, to.target());
            FAIL("gathered a row beyond the end");
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            CHECK(e.place().path == folder / "rows");
            CHECK(e.place().offset == 90 * 1024);
            CHECK(e.place().length == 1024);
        }
        CHECK(to.untouched());
        CHECK(gathers(source, file, std::vector<node_id>{10, 49}));
    }
}

TEST_CASE("if any request fails, rows are right or the error names the place; the source can be used again") {
    const temporary_directory folder;
    memory_budget budget;
    std::uint64_t runs = 0;
    for (const auto& [name, engines] : all_engines(4)) {
        const rows_file file(engines, folder / "rows", 400, 1536);
        const std::vector<node_id> ids = some_rows(30, 400, 3);
        const auto sweep = [&, make = engines](fault_kind kind, bool sticky, std::uint64_t last) {
            for (std::uint64_t at = 1; at <= last; ++at, ++runs) {
                CAPTURE(name);
                CAPTURE(static_cast<int>(kind));
                CAPTURE(sticky);
                CAPTURE(at);
                const auto injector =
                    std::make_shared<fault_injector>(fault{kind, at, sticky, {.open = false, .resize = false}});
                disk_rows source([&] { return any_engine(faulty<any_engine>(make(), injector)); }, file.stored,
                    {.coalesce_bytes = 0, .staging_bytes = 0}, serial, budget);
                int number = 0; // errno
                auto to = std::make_unique<gathered_rows>(ids.size(), 1536);
                const auto named = [&](const error_place& place) {
                    return place.path == folder / "rows" && place.length > 0 && place.offset < file.bytes.size();
                };
                try {
                    source.gather(ids, to->target());
                    CHECK(to->equal(file, ids));
                } catch (const io_error& e) {
                    number = e.code().value();
                    CHECK(named(e.place()));
                } catch (const error& e) {
                    number = -1;
                    CHECK(e.code() == errc::corrupt);
                    CHECK(named(e.place()));
                }
                to.reset(); // a write of requests in flight would be detected here
                const bool struck = injector->injected() > 0;
                const int expected = !struck           ? 0
                    : kind == fault_kind::device_error ? EIO
                    : kind == fault_kind::zero_read    ? -1
                    : !sticky                          ? 0
                    : kind == fault_kind::interrupted  ? EINTR
                    : kind == fault_kind::try_again    ? EAGAIN
                                                       : 0;
                CHECK(number == expected);
                if (!sticky && struck) CHECK(gathers(source, file, ids));
                if (!struck) return;
            }
        };
        for (const fault_kind kind : {fault_kind::device_error, fault_kind::short_transfer, fault_kind::zero_read,
                 fault_kind::interrupted, fault_kind::try_again})
            sweep(kind, false, 1000);
        for (const fault_kind kind :
            {fault_kind::device_error, fault_kind::short_transfer, fault_kind::zero_read, fault_kind::interrupted})
            sweep(kind, true, 1000);
        sweep(fault_kind::try_again, true, 1); // each attempt sleeps
    }
    MESSAGE(runs, " runs");
    const auto refused = std::make_shared<fault_injector>(fault{fault_kind::device_error, 1, false, {}});
    CHECK_THROWS_AS(disk_rows([&] { return any_engine(faulty<any_engine>(threads_engine(2), refused)); },
                        {folder / "rows", 0, 1, 1}, {}, serial, budget),
        io_error);
}

} // namespace test_storage_feature_row_gather
