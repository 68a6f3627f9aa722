#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "storage/rows.hpp"
#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

namespace test_storage_feature_row_source {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::gathered_rows;
using storage_test::gathers;
using storage_test::rows_file;
using storage_test::some_rows;

TEST_CASE("statistics of parts add up, and ratios of nothing are defined") {
    const gather_stats a{.rows = 4, .hits = 1, .bytes_wanted = 10, .io = {.reads = 2, .read_bytes = 30}},
        b{.rows = 6, .hits = 4, .bytes_wanted = 20, .io = {.reads = 1, .read_bytes = 60}};
    CHECK(a + b == b + a);
    CHECK((a + b).amplification() == 3.0);
    CHECK(gather_stats{}.amplification() == 1);
}

TEST_CASE("a type-erased source gathers like itself, whether it can read ahead or not") {
    const temporary_directory folder;
    const engine_factory engines = [] { return any_engine(threads_engine(4)); };
    const rows_file file(engines, folder / "rows", 300, 100);
    const serial_executor executor;
    memory_budget budget;
    std::vector<any_row_source> sources;
    sources.emplace_back(std::in_place_type<disk_rows>, engines, file.stored, gather_options{}, executor, budget);
    sources.emplace_back(std::in_place_type<mapped_rows>, file.stored, executor);
    sources.emplace_back(std::in_place_type<memory_rows>, file.stored, nullptr, executor, budget);
    for (any_row_source& source : sources) {
        CHECK(source.rows() == 300);
        CHECK(source.row_bytes() == 100);
        CHECK(gathers(source, file, some_rows(70, 300, 1)));
        const std::vector<node_id> ids = some_rows(50, 300, 2);
        gathered_rows to(ids.size(), 100);
        source.begin(std::vector<node_id>(ids), to.target());
        source.finish();
        CHECK(to.equal(file, ids));
        CHECK(source.statistics().rows == 120);
    }
}

TEST_CASE("a target that does not match the rows is refused before anything is written") {
    const temporary_directory folder;
    const engine_factory engines = [] { return any_engine(threads_engine(4)); };
    const rows_file file(engines, folder / "rows", 300, 100);
    const serial_executor executor;
    memory_budget budget;
    disk_rows disk(engines, file.stored, gather_options{}, executor, budget);
    std::vector<any_row_source> sources;
    sources.emplace_back(std::in_place_type<disk_rows>, engines, file.stored, gather_options{}, executor, budget);
    sources.emplace_back(std::in_place_type<mapped_rows>, file.stored, executor);
    sources.emplace_back(std::in_place_type<memory_rows>, file.stored, nullptr, executor, budget);
    sources.emplace_back(
        std::in_place_type<cached_rows<disk_rows>>, disk, 10U, slot_table_kind::direct, executor, budget);
    const std::vector<node_id> ids{7, 8, 9};
    const std::vector<std::uint32_t> two{0, 1};
    for (any_row_source& source : sources) {
        std::vector<std::byte> memory(250, std::byte{1}); // deliberately too small: for rows of 50 bytes
        CHECK_THROWS_WITH_AS(source.gather(ids, {memory.data(), 50}),
            "a target with 50 bytes from row to row cannot take rows of 100 bytes", error);
        CHECK(test::code_of([&] { source.begin(ids, {memory.data(), 50}); }) == errc::invalid_argument);
        CHECK(test::code_of([&] { source.gather(ids, {nullptr, 100}); }) == errc::invalid_argument);
        CHECK(test::code_of([&] { source.gather(ids, {memory.data(), 100, two}); }) == errc::invalid_argument);
        CHECK(memory == std::vector<std::byte>(250, std::byte{1}));
        source.gather({}, {});
        CHECK(gathers(source, file, ids));
    }
    cached_rows cache(disk, 10, slot_table_kind::direct, executor, budget);
    std::vector<std::byte> memory(250);
    CHECK(test::code_of([&] { cache.apply({{9}, {}, {2}}, ids, {memory.data(), 50}); }) == errc::invalid_argument);
}

TEST_CASE("a matrix of fewer rows than are gathered is refused, in order and with positions") {
    std::vector<float> memory(8);
    const gather_target two = gather_target::of(matrix_view<float>(memory.data(), 2, 4));
    two.check(2, 16);
    CHECK(test::code_of([&] { two.check(3, 16); }) == errc::invalid_argument);
    CHECK(test::code_of([&] { two.check(2, 17); }) == errc::invalid_argument);
    gather_target placed = two;
    const std::vector<std::uint32_t> positions{1, 2};
    placed.positions = positions;
    CHECK(test::code_of([&] { placed.check(2, 16); }) == errc::invalid_argument);
    placed.rows = 3;
    placed.check(2, 16);
}

} // namespace test_storage_feature_row_source
