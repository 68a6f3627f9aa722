#include <gneiss/storage/io/external_sort.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

namespace test_storage_io_external_sort {

namespace {

using gneiss::external_sorter;

/// 12 bytes with a 64-bit leading key, like edges of buckets.
struct keyed_record {
    std::uint32_t high = 0, low = 0, rest = 0;
    friend auto operator<=>(const keyed_record&, const keyed_record&) = default;
};
struct keyed_less {
    static std::uint64_t key(const keyed_record& r) { return (std::uint64_t{r.high} << 32) | r.low; }
    bool operator()(const keyed_record& a, const keyed_record& b) const { return a < b; }
};
static_assert(gneiss::keyed_order<keyed_less, keyed_record>);
static_assert(!gneiss::keyed_order<std::less<>, keyed_record>);

/// Returns records whose keys range from "all equal" to "all 64 bits", or are skewed.
std::vector<keyed_record> random_records(std::size_t size, std::uint64_t shape, std::uint64_t seed) {
    gneiss::random_stream draw(gneiss::random_key{seed, gneiss::random_domain::user}.with(shape));
    std::vector<keyed_record> records(size);
    for (keyed_record& r : records) {
        std::uint64_t key = draw();
        if (shape == 0) key = 7;
        if (shape == 1) key %= 5;
        if (shape == 2) key = (key % 1000) << 40;
        if (shape == 3) key = draw.below(100) == 0 ? key : (key & 0xfff);
        r = {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key),
            static_cast<std::uint32_t>(draw.below(50))};
    }
    return records;
}

template <class Less, class E>
std::vector<keyed_record> sorted_by(
    external_sorter<keyed_record, Less, E>& sorter, const std::vector<keyed_record>& records) {
    for (std::size_t i = 0; i < records.size();) { // single records and spans alternate
        const std::size_t n = std::min<std::size_t>(records.size() - i, i % 7 * 13);
        if (n == 0)
            sorter.push(records[i]);
        else
            sorter.push(std::span(records).subspan(i, n));
        i += std::max<std::size_t>(n, 1);
    }
    std::vector<keyed_record> out;
    sorter.for_each_block([&](std::span<const keyed_record> block) {
        CHECK(!block.empty());
        out.insert(out.end(), block.begin(), block.end());
    });
    return out;
}

} // namespace

TEST_CASE("an external sort equals std::sort for every size, memory, order and executor") {
    const gneiss::test::temporary_directory directory;
    const gneiss::tbb_executor threads(2);
    for (const std::size_t size : std::vector<std::size_t>{0, 1, 2, 47, 48, 49, 1000, 5000, 20000})
        for (std::uint64_t shape = 0; shape < 5; ++shape) {
            const auto records = random_records(size, shape, size);
            auto expected = records;
            std::sort(expected.begin(), expected.end());
            for (const std::uint64_t memory :
                {std::uint64_t{1024}, std::uint64_t{5000}, std::uint64_t{200000}, std::uint64_t{1} << 24}) {
                if (size > 5000 && memory == 1024) continue; // thousands of tiny runs: slow, without a new path
                CAPTURE(size);
                CAPTURE(shape);
                CAPTURE(memory);
                external_sorter<keyed_record, keyed_less> keyed(directory.path(), memory);
                CHECK(sorted_by(keyed, records) == expected);
                CHECK(keyed.report().records == size);
                CHECK((keyed.report().runs == 0) == (size <= keyed.capacity()));
                external_sorter<keyed_record> compared(directory.path(), memory);
                CHECK(sorted_by(compared, records) == expected);
                external_sorter<keyed_record, keyed_less, gneiss::tbb_executor> parallel(
                    directory.path(), memory, {}, threads);
                CHECK(sorted_by(parallel, records) == expected);
                external_sorter<keyed_record, std::less<>, gneiss::tbb_executor> both(
                    directory.path(), memory, {}, threads);
                CHECK(sorted_by(both, records) == expected);
            }
        }
    CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("the parallel radix sort equals std::sort, also for skewed keys") {
    const gneiss::tbb_executor threads(2);
    for (std::uint64_t shape = 0; shape < 5; ++shape) {
        auto records = random_records(600000, shape, 3);
        auto expected = records;
        std::sort(expected.begin(), expected.end());
        std::vector<keyed_record> other(records.size());
        gneiss::detail::sort_records(threads, records.data(), other.data(), records.size(), keyed_less{});
        CHECK(records == expected);
    }
}

TEST_CASE("runs beyond the fan-in are merged in passes, with progress reports") {
    const gneiss::test::temporary_directory directory;
    const auto records = random_records(20000, 4, 1);
    external_sorter<keyed_record, keyed_less> sorter(directory.path(), 4096);
    auto expected = records;
    std::sort(expected.begin(), expected.end());
    CHECK(sorted_by(sorter, records) == expected);
    const auto& report = sorter.report();
    CHECK(report.runs == (20000 + sorter.capacity() - 1) / sorter.capacity());
    CHECK(report.merge_passes > 1);
    CHECK(report.spilled_bytes == (report.merge_passes + 1) * 20000 * sizeof(keyed_record));
}

TEST_CASE("too little memory, a missing scratch directory and a late push are errors") {
    const gneiss::test::temporary_directory directory;
    CHECK_THROWS_AS(external_sorter<keyed_record>(directory.path(), 1023), gneiss::error);
    external_sorter<keyed_record> sorter(directory.path() / "absent", 1024);
    const auto records = random_records(10000, 4, 1);
    CHECK_THROWS_AS(sorter.push(records), gneiss::io_error);
    external_sorter<keyed_record> finished(directory.path(), 1024);
    finished.finish();
    CHECK_THROWS_AS(finished.push(records[0]), gneiss::error);
}

namespace {

/// Opens the scratch file of a process once more for writing.
int open_scratch(const std::filesystem::path& directory) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code closed;
        const auto target = std::filesystem::read_symlink(entry.path(), closed);
        if (!closed && target != directory && target.string().starts_with(directory.string() + "/"))
            return ::open(entry.path().c_str(), O_RDWR);
    }
    return -1;
}

} // namespace

TEST_CASE("a corrupted spill is an error before any of its records are used") {
    const gneiss::test::temporary_directory directory;
    const auto records = random_records(6000, 4, 2);
    auto expected = records;
    std::sort(expected.begin(), expected.end());
    gneiss::random_stream draw(gneiss::random_key{3, gneiss::random_domain::user});
    for (const std::uint64_t memory : {std::uint64_t{2048}, std::uint64_t{40000}}) // merged in passes, and at once
        for (int i = 0; i < 60; ++i) {
            CAPTURE(memory);
            CAPTURE(i);
            external_sorter<keyed_record, keyed_less> sorter(directory.path(), memory);
            sorter.push(records);
            if (i % 2 == 1) sorter.finish();
            const int scratch = open_scratch(std::filesystem::canonical(directory.path()));
            REQUIRE(scratch >= 0);
            const off_t at = static_cast<off_t>(draw.below(static_cast<std::uint64_t>(::lseek(scratch, 0, SEEK_END))));
            char byte = 0;
            REQUIRE(::pread(scratch, &byte, 1, at) == 1);
            byte = static_cast<char>(byte ^ (1 << draw.below(8)));
            REQUIRE(::pwrite(scratch, &byte, 1, at) == 1);
            ::close(scratch);
            std::size_t seen = 0;
            try {
                sorter.for_each_block([&](std::span<const keyed_record> block) {
                    for (const keyed_record& r : block) CHECK(std::binary_search(expected.begin(), expected.end(), r));
                    seen += block.size();
                });
                FAIL("no error");
            } catch (const gneiss::error& e) {
                CHECK(e.code() == gneiss::errc::corrupt);
            }
            CHECK(seen < records.size());
        }
}

TEST_CASE("an exception of the consumer propagates and leaves no file") {
    const gneiss::test::temporary_directory directory;
    {
        external_sorter<keyed_record> sorter(directory.path(), 2048);
        sorter.push(random_records(1000, 4, 1));
        CHECK_THROWS_AS(sorter.for_each_block([](auto) { throw 1; }), int);
    }
    CHECK(std::filesystem::is_empty(directory.path()));
}

} // namespace test_storage_io_external_sort
