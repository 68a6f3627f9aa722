#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>

#include "storage/rows.hpp"
#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

namespace test_storage_feature_mapped_rows {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;
using test::code_of;

namespace {

const engine_factory engines = [] { return any_engine(threads_engine(2)); };
constexpr serial_executor serial;

checksum_table checksums_of(const rows_file& file) {
    checksum_collector sums(file_id(file.stored.path.filename().string()), 4096);
    sums.update(std::span(file.bytes).subspan(file.stored.offset));
    return sums.finish(std::span(file.bytes).first(file.stored.offset));
}

} // namespace

TEST_CASE("mapped rows and rows in memory equal the file's, for all row sizes and threads") {
    const temporary_directory folder;
    memory_budget budget;
    for (const std::size_t threads : {1U, 9U})
        for (const std::size_t row_bytes : {1U, 3U, 512U, 768U, 3072U, 5000U})
            for (const std::uint64_t offset : {0U, 77U, 4096U}) {
                CAPTURE(threads);
                CAPTURE(row_bytes);
                CAPTURE(offset);
                const tbb_executor executor(threads);
                const rows_file file(engines, folder / "rows", 400, row_bytes, offset);
                const checksum_table checksums = checksums_of(file);
                mapped_rows mapped(file.stored, executor);
                memory_rows unchecked(file.stored, nullptr, executor, budget),
                    checked(file.stored, &checksums, executor, budget);
                for (const std::size_t count : {0U, 1U, 90U, 2000U}) {
                    const std::vector<node_id> ids = some_rows(count, 400, count);
                    CHECK(gathers(mapped, file, ids));
                    CHECK(gathers(unchecked, file, ids));
                    CHECK(gathers(checked, file, ids));
                }
                CHECK(mapped.statistics() == gather_stats{.rows = 2091});
                CHECK(checked.statistics() == gather_stats{.rows = 2091, .hits = 2091});
            }
}

TEST_CASE("rows in memory are verified on load: any flipped bit, a wrong size, other checksums") {
    const temporary_directory folder;
    memory_budget budget;
    const rows_file file(engines, folder / "rows", 100, 300, 128);
    const checksum_table checksums = checksums_of(file);
    const auto load = [&](const stored_rows& rows) {
        return [&, rows] { memory_rows(rows, &checksums, serial, budget); };
    };
    CHECK_FALSE(code_of(load(file.stored)));
    for (const std::uint64_t at : {0U, 127U, 128U, 4000U, 30'127U}) {
        CAPTURE(at);
        any_engine engine = engines();
        gneiss::file to(engine, file.stored.path, {.write = true});
        io_queue queue(engine);
        std::byte flipped = file.bytes[at] ^ std::byte{4};
        queue.write(to, at, {&flipped, 1});
        queue.drain();
        CHECK(code_of(load(file.stored)) == errc::corrupt);
        queue.write(to, at, {&file.bytes[at], 1});
        queue.drain();
    }
    stored_rows elsewhere = file.stored;
    elsewhere.offset = 0;
    CHECK(code_of(load(elsewhere)) == errc::invalid_argument);
    std::filesystem::resize_file(file.stored.path, file.bytes.size() + 1);
    CHECK(code_of(load(file.stored)) == errc::corrupt);
}

TEST_CASE("invalid input is refused: short files, rows without bytes, ids beyond the rows, small budgets") {
    const temporary_directory folder;
    memory_budget budget, little(2999);
    const rows_file file(engines, folder / "rows", 10, 300);
    stored_rows longer = file.stored, none = file.stored, absent = file.stored;
    longer.rows = 11;
    none.row_bytes = 0;
    absent.path = folder / "absent";
    for (const bool map : {true, false}) {
        const auto open = [&](const stored_rows& rows, memory_budget& within) {
            if (map)
                mapped_rows(rows, serial);
            else
                memory_rows(rows, nullptr, serial, within);
        };
        CHECK(code_of([&] { open(longer, budget); }) == errc::corrupt);
        CHECK(code_of([&] { open(none, budget); }) == errc::invalid_argument);
        CHECK_THROWS_AS(open(absent, budget), io_error);
    }
    CHECK_THROWS_AS(memory_rows(file.stored, nullptr, serial, little), over_budget);
    mapped_rows mapped(file.stored, serial);
    memory_rows memory(file.stored, nullptr, serial, budget);
    CHECK(budget.used() == 3000);
    storage_test::gathered_rows to(1, 300);
    const std::vector<node_id> beyond{10};
    CHECK(code_of([&] { mapped.gather(beyond, to.target()); }) == errc::out_of_range);
    CHECK(code_of([&] { memory.gather(beyond, to.target()); }) == errc::out_of_range);
    CHECK(to.untouched());
}

} // namespace test_storage_feature_mapped_rows
