#include <gneiss/storage/feature/extent_file.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/faulty.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace test_storage_feature_extent_file {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

namespace {

/// Returns record `number` of an extent: bytes that depend on both.
std::vector<std::byte> record(std::size_t extent, std::uint64_t number, std::size_t bytes) {
    std::vector<std::byte> result(bytes);
    const random_key key = random_key(extent, random_domain::user).with(number);
    for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(key[i]);
    return result;
}

/// Appends all records, extents in random order, each in two parts.
void fill(extent_file& to, const extent_sizes& sizes, std::uint64_t seed) {
    std::vector<std::size_t> turns;
    for (std::size_t e = 0; e < sizes.records.size(); ++e)
        turns.insert(turns.end(), static_cast<std::size_t>(sizes.records[e]), e);
    shuffle(turns, random_key(seed, random_domain::user));
    std::vector<std::uint64_t> done(sizes.records.size());
    for (const std::size_t e : turns) {
        const auto bytes = record(e, done[e]++, sizes.record_bytes);
        const auto head = std::span(bytes).first(bytes.size() / 3);
        to.append(e, head, std::span(bytes).subspan(head.size()));
    }
    to.finish();
}

/// True if an extent has its records, in order and without gaps.
bool holds(extent_file& from, const extent_sizes& sizes, std::size_t extent, std::span<std::byte> memory) {
    from.begin(extent, memory);
    std::uint64_t next = 0;
    while (const auto part = from.next()) {
        if (part->first != next || part->bytes.size() % sizes.record_bytes != 0) return false;
        for (auto rest = part->bytes; !rest.empty(); rest = rest.subspan(sizes.record_bytes))
            if (!std::ranges::equal(rest.first(sizes.record_bytes), record(extent, next++, sizes.record_bytes)))
                return false;
    }
    return next == sizes.records[extent];
}

const std::vector<std::vector<std::uint64_t>> shapes{
    {}, {0}, {1}, {0, 5, 0}, {40, 1, 0, 300, 7}, std::vector<std::uint64_t>(30, 17)};

} // namespace

TEST_CASE(
    "extents read back in order, in any order of extents, with the least memory: every engine, record and piece") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines())
        for (const std::size_t record_bytes : {1U, 100U, 512U, 4096U, 5000U})
            for (const std::size_t piece_bytes : {4096U, 8192U, 65536U})
                for (const auto& records : shapes) {
                    if (record_bytes > piece_bytes) continue;
                    CAPTURE(name);
                    CAPTURE(record_bytes);
                    CAPTURE(piece_bytes);
                    CAPTURE(records.size());
                    const extent_sizes sizes{record_bytes, piece_bytes, records};
                    aligned_buffer<std::byte> memory((records.size() + 1) * piece_bytes), little(piece_bytes);
                    extent_file file(engines, folder / "extents", sizes, 7, memory.span());
                    fill(file, sizes, record_bytes);
                    const io_stats written = file.stats();
                    CHECK(written.written_bytes == file.bytes());
                    CHECK(file.bytes() <= sizes.bytes());
                    for (std::size_t e = records.size(); e-- > 0;)
                        CHECK(holds(file, sizes, e, e % 2 == 0 ? memory.span() : little.span()));
                    CHECK(file.stats().read_bytes == file.bytes()); // each byte once
                }
}

TEST_CASE("rows of whole blocks are stored without other bytes") {
    const engine_factory engines = [] { return any_engine(memory_engine()); };
    const extent_sizes sizes{512, 8192, {100, 3, 0, 17}};
    aligned_buffer<std::byte> memory(4 * 8192);
    extent_file file(engines, "extents", sizes, 1, memory.span());
    CHECK(file.bytes() == 120 * 512);
}

TEST_CASE("an open file has no name, so nothing remains of it") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        const extent_sizes sizes{10, 4096, {900}};
        aligned_buffer<std::byte> memory(4 * 4096);
        extent_file file(engines, folder / "extents", sizes, 7, memory.span());
        CHECK(std::filesystem::is_empty(folder.path()));
        fill(file, sizes, 1);
        CHECK(holds(file, sizes, 0, memory.span()));
    }
}

TEST_CASE("an unfinished read is dropped by the next") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines()) {
        CAPTURE(name);
        const extent_sizes sizes{100, 4096, {500, 600}};
        aligned_buffer<std::byte> memory(4 * 4096);
        extent_file file(engines, folder / "extents", sizes, 7, memory.span());
        fill(file, sizes, 1);
        file.begin(0, memory.span());
        CHECK(file.next());
        CHECK(holds(file, sizes, 1, memory.span()));
        file.begin(1, memory.span());
        CHECK(holds(file, sizes, 0, memory.span()));
    }
}

TEST_CASE("records that do not fit the sizes, and too little memory, are refused") {
    const engine_factory engines = [] { return any_engine(memory_engine()); };
    aligned_buffer<std::byte> memory(3 * 4096);
    const auto with = [&](const extent_sizes& sizes, std::size_t bytes) {
        extent_file(engines, "e", sizes, 1, memory.span().first(bytes));
    };
    CHECK_THROWS_AS(with({0, 4096, {1}}, 8192), error);
    CHECK_THROWS_AS(with({5000, 4096, {1}}, 8192), error);
    CHECK_THROWS_AS(with({8, 1000, {1}}, 8192), error);
    CHECK_THROWS_AS(with({8, 4096, {1, 1, 1}}, 3 * 4096), error);
    CHECK_NOTHROW(with({8, 4096, {1, 0, 1}}, 3 * 4096));
    extent_file file(engines, "e", {8, 4096, {2, 1}}, 1, memory.span());
    const auto one = record(0, 0, 8);
    CHECK_THROWS_AS(file.append(0, {}, std::span(one).first(7)), error);
    file.append(1, {}, one);
    CHECK_THROWS_AS(file.append(1, {}, one), error);
    file.append(0, {}, one);
    CHECK_THROWS_WITH_AS(file.finish(), doctest::Contains("extent 0 has 1 records of 2"), error);
    file.append(0, {}, one);
    file.finish();
    CHECK_THROWS_AS(file.begin(0, memory.span().first(100)), error);
}

TEST_CASE("any flipped bit of an extent is corrupt, with its place, and other extents are read") {
    const memory_file_system disk;
    const engine_factory engines = [&] { return any_engine(memory_engine(disk)); };
    const extent_sizes sizes{100, 4096, {50, 90}};
    aligned_buffer<std::byte> memory(3 * 4096);
    extent_file file(engines, "extents", sizes, 3, memory.span());
    fill(file, sizes, 1);
    any_engine engine = engines();
    gneiss::file raw(engine, "extents", {.write = true});
    const std::vector<std::byte> whole = disk.contents("extents");
    const std::uint64_t second = 4096 + 1000; // 50 records are a whole piece and ten records
    for (const std::uint64_t at :
        {std::uint64_t{0}, std::uint64_t{3999}, std::uint64_t{4096}, second, second + 3999, second + 4096 + 17}) {
        CAPTURE(at);
        const bool first = at < second;
        std::vector<std::byte> bit(1, whole[static_cast<std::size_t>(at)] ^ std::byte{4});
        io_queue queue(engine);
        queue.write(raw, at, bit);
        queue.drain();
        try {
            (void)holds(file, sizes, first ? 0 : 1, memory.span());
            FAIL("read a damaged extent");
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            CHECK(e.place().path == "extents");
            CHECK(e.place().offset == (first ? at / 4096 * 4096 : second + (at - second) / 4096 * 4096));
        }
        CHECK(holds(file, sizes, first ? 1 : 0, memory.span()));
        bit[0] = whole[static_cast<std::size_t>(at)];
        queue.write(raw, at, bit);
        queue.drain();
        CHECK(holds(file, sizes, first ? 0 : 1, memory.span()));
    }
}

TEST_CASE("a full disk, and any other fault, ends in the right records or an error with the place") {
    const temporary_directory folder;
    std::uint64_t runs = 0;
    for (const auto& [name, engines] : all_engines(4))
        for (const fault_kind kind : {fault_kind::device_error, fault_kind::no_space, fault_kind::short_transfer,
                 fault_kind::zero_read, fault_kind::interrupted, fault_kind::try_again})
            for (std::uint64_t at = 1;; ++at, ++runs) {
                CAPTURE(name);
                CAPTURE(static_cast<int>(kind));
                CAPTURE(at);
                const auto injector = std::make_shared<fault_injector>(fault{kind, at, false, {}});
                const extent_sizes sizes{100, 4096, {90, 0, 200}};
                aligned_buffer<std::byte> memory(4 * 4096);
                bool failed = false;
                try {
                    extent_file file([&, make = engines] { return any_engine(faulty<any_engine>(make(), injector)); },
                        folder / "extents", sizes, 3, memory.span());
                    fill(file, sizes, 1);
                    for (std::size_t e = 0; e < 3; ++e) {
                        const bool all = holds(file, sizes, e, memory.span()); // CHECK would catch the error
                        CHECK(all);
                    }
                } catch (const io_error& e) {
                    failed = true;
                    CHECK(e.place().path == folder / "extents");
                    CHECK(e.out_of_space() == (kind == fault_kind::no_space));
                } catch (const error& e) {
                    failed = true;
                    CHECK(e.code() == errc::corrupt);
                    CHECK(e.place().path == folder / "extents");
                    CHECK(kind == fault_kind::zero_read);
                }
                if (injector->injected() == 0) {
                    CHECK_FALSE(failed);
                    break;
                }
                CHECK(failed ==
                    (kind == fault_kind::device_error || kind == fault_kind::no_space ||
                        kind == fault_kind::zero_read));
            }
    CHECK(runs > 50);
}

} // namespace test_storage_feature_extent_file
