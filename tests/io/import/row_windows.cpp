#include <gneiss/io/import/row_windows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>

namespace test_io_import_row_windows {

namespace {

using namespace gneiss;
using namespace gneiss::importing;

/// Rows of keys in memory, in slices like the maps of an import.
struct table_map {
    std::vector<std::uint32_t> rows;
    std::size_t parts = 1;
    std::size_t loaded = 99, loads = 0;

    [[nodiscard]] std::size_t slices() const { return parts; }
    [[nodiscard]] std::size_t slice_of(std::uint64_t key) const {
        return static_cast<std::size_t>(key) * parts / rows.size();
    }
    void load(std::size_t slice) {
        loads += loaded != slice;
        loaded = slice;
    }
    std::uint32_t operator()(std::uint64_t key) const {
        CHECK(slice_of(key) == loaded);
        return rows[static_cast<std::size_t>(key)];
    }
};

} // namespace

TEST_CASE("records are returned by row, whatever the memory, the slices and the order of the source") {
    const test::temporary_directory directory;
    random_stream draw(random_key{1, random_domain::user});
    constexpr std::size_t nodes = 1000;
    std::vector<std::uint32_t> rows(nodes), lengths(nodes);
    std::iota(rows.begin(), rows.end(), 0U);
    for (std::size_t i = nodes; i > 1; --i) std::swap(rows[i - 1], rows[draw.below(i)]);
    for (const bool fixed : {true, false}) {
        std::vector<std::uint64_t> begins(nodes + 1, 0); // by row
        for (std::size_t row = 0; row < nodes; ++row) {
            lengths[row] = fixed ? 24 : 4 * static_cast<std::uint32_t>(draw.below(20));
            begins[row + 1] = begins[row] + lengths[row];
        }
        std::vector<std::byte> expected(begins.back());
        for (std::byte& b : expected) b = static_cast<std::byte>(draw.below(256));
        for (const std::uint64_t memory : {200U, 3000U, 20000U, 1000000U})
            for (const std::size_t slices : {1U, 7U})
                for (const bool ascending : {true, false}) {
                    CAPTURE(memory);
                    table_map map{.rows = rows, .parts = slices};
                    const row_windows windows = fixed
                        ? row_windows(nodes, 24, memory)
                        : row_windows(nodes, memory, [&](std::uint64_t row) { return begins[row]; });
                    std::vector<std::byte> found;
                    arrange_rows(
                        windows, map, ascending, memory, directory / "spill",
                        [&](const auto& put) {
                            for (std::size_t i = 0; i < nodes; ++i) {
                                const std::size_t key = ascending ? i : nodes - 1 - i, row = rows[key];
                                put(key, i, std::span<const std::byte>(expected).subspan(begins[row], lengths[row]));
                            }
                        },
                        [&](row_window& window) {
                            std::uint64_t end = begins[window.first + window.seen.size()];
                            if (!fixed)
                                for (std::size_t i = 0; i <= window.seen.size(); ++i) {
                                    window.offsets.resize(i + 1);
                                    window.offsets[i] = begins[window.first + i] - begins[window.first];
                                }
                            end -= begins[window.first];
                            CHECK((end <= memory || memory == 200));
                            window.bytes.assign(end, std::byte{0});
                        },
                        [&](const row_window& window) {
                            CHECK(std::ranges::count(window.seen, false) == 0);
                            found.insert(found.end(), window.bytes.begin(), window.bytes.end());
                        },
                        [](std::uint64_t, std::uint64_t) { FAIL("no row comes twice"); });
                    CHECK(found == expected);
                    CHECK(std::filesystem::is_empty(directory.path()));
                    if (ascending && windows.size() < 3) CHECK(map.loads <= slices * windows.size() + 1);
                }
    }
}

TEST_CASE("as many windows are open at once as their lists of blocks fit in a quarter of the memory") {
    const test::temporary_directory directory;
    constexpr std::uint64_t nodes = 900, memory = 1 << 17; // 45 windows: 16 · 45² bytes are a quarter
    table_map map{.rows = std::vector<std::uint32_t>(nodes)};
    std::iota(map.rows.begin(), map.rows.end(), 0U);
    for (const std::uint64_t windows : {45U, 46U, 60U}) {
        std::uint64_t scans = 0, next = 0;
        arrange_rows(
            row_windows(windows * 15, 8, 120), map, true, memory, directory / "spill",
            [&](const auto& put) {
                ++scans;
                for (std::uint64_t i = 0; i < windows * 15; ++i) put(i, i, bytes_of(i));
            },
            [](row_window& window) { window.bytes.resize(8 * window.seen.size()); },
            [&](const row_window& window) {
                for (std::size_t i = 0; i < window.seen.size(); ++i, ++next)
                    CHECK(std::memcmp(window.bytes.data() + 8 * i, &next, 8) == 0);
            },
            [](std::uint64_t, std::uint64_t) { FAIL("no row comes twice"); });
        CHECK(next == windows * 15);
        CHECK(scans == (windows == 45 ? 1 : 2));
    }
}

TEST_CASE("an error of the source or of a window leaves no file") {
    const test::temporary_directory directory;
    table_map map{.rows = std::vector<std::uint32_t>(1000)};
    std::iota(map.rows.begin(), map.rows.end(), 0U);
    const row_windows windows(1000, 24, 3000);
    const std::array<std::byte, 24> record{};
    for (const bool of_source : {true, false}) {
        CHECK_THROWS_AS(arrange_rows(
                            windows, map, true, 3000, directory / "spill",
                            [&](const auto& put) {
                                for (std::size_t i = 0; i < 1000; ++i) {
                                    if (of_source && i == 500) throw error(errc::corrupt, "the source ends");
                                    put(i, i, std::span<const std::byte>(record));
                                }
                            },
                            [&](row_window& window) { window.bytes.assign(window.seen.size() * 24, std::byte{0}); },
                            [](const row_window&) { throw error(errc::no_space, "the disk is full"); },
                            [](std::uint64_t, std::uint64_t) {}),
            error);
        CHECK(std::filesystem::is_empty(directory.path()));
    }
}

TEST_CASE("a repeated row is reported with its position; a missing row is skipped") {
    const test::temporary_directory directory;
    table_map map{.rows = {2, 0, 1, 3}};
    std::uint64_t row = 99, place = 99;
    std::size_t unseen = 0;
    for (const std::uint64_t memory : {8U, 4096U}) {
        const std::uint64_t value = 5;
        arrange_rows(
            row_windows(4, 8, memory), map, false, 1 << 20, directory / "spill",
            [&](const auto& put) {
                for (const std::uint64_t key : {3U, 0U, 1U, 0U}) put(key, 10 + key, bytes_of(value));
            },
            [](row_window& window) { window.bytes.resize(8 * window.seen.size()); },
            [&](const row_window& window) {
                unseen += static_cast<std::size_t>(std::ranges::count(window.seen, false));
            },
            [&](std::uint64_t r, std::uint64_t at) {
                row = r;
                place = at;
            });
        CHECK(row == 2);
        CHECK(place == 10);
    }
    CHECK(unseen == 2);
}

TEST_CASE("a row that exceeds every window is refused with numbers") {
    CHECK_THROWS_AS(row_windows(10, 100, 99), over_budget);
    CHECK_THROWS_AS(row_windows(10, 99, [](std::uint64_t row) { return 100 * row; }), over_budget);
}

} // namespace test_io_import_row_windows
