#include <gneiss/storage/embedding/history_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <support/temporary_directory.hpp>

namespace test_storage_history_file {

using namespace gneiss;

namespace {

const std::vector<std::uint64_t> sizes{3, 0, 5};
constexpr std::size_t record = 12;

/// Records of a partition: each has its place and `value` after the checksum.
std::vector<std::byte> records(partition_id p, int value) {
    std::vector<std::byte> result(sizes[p] * record);
    for (std::size_t i = 0; i < sizes[p]; ++i) {
        result[i * record + 4] = static_cast<std::byte>(i);
        result[i * record + 5] = static_cast<std::byte>(value);
    }
    return result;
}
int value_of(history_file& file, partition_id p) {
    std::vector<std::byte> all(sizes[p] * record);
    file.read(p, all);
    std::vector<std::byte> one(record);
    for (std::uint32_t i = 0; i < sizes[p]; ++i) {
        file.read(p, std::vector<std::uint32_t>{i}, one);
        CHECK(std::ranges::equal(one, std::span(all).subspan(i * record, record)));
        CHECK(all[i * record + 5] == all[5]);
    }
    return static_cast<int>(all[5]);
}

} // namespace

TEST_CASE("a checkpoint keeps its versions, whatever is written after it") {
    const test::temporary_directory directory;
    const auto path = directory / "histories";
    std::string versions;
    {
        history_file file(path, sizes, record);
        CHECK(value_of(file, 0) == 0);
        CHECK(value_of(file, 2) == 0);
        for (int value = 1; value < 4; ++value) {
            auto of = records(2, value);
            file.write(2, of);
            CHECK(value_of(file, 2) == value);
        }
        versions = file.flush();
        CHECK(versions[0] == '-');
        for (int value = 4; value < 8; ++value)
            for (const partition_id p : {0U, 2U}) {
                auto of = records(p, value);
                file.write(p, of);
                CHECK(value_of(file, p) == value);
            }
        std::vector<std::byte> none;
        file.write(1, none);
    }
    history_file again(path, sizes, record, versions);
    CHECK(value_of(again, 0) == 0);
    CHECK(value_of(again, 2) == 3);
    auto of = records(2, 9);
    again.write(2, of);
    CHECK(again.flush() != versions);
    CHECK(value_of(again, 2) == 9);
    CHECK(again.statistics().written_bytes == 5 * record);
    std::vector<std::byte> some(3 * record);
    again.read(2, std::vector<std::uint32_t>{0, 1, 4}, some);
    CHECK(some[4] == std::byte{0});
    CHECK(some[record + 4] == std::byte{1});
    CHECK(some[2 * record + 4] == std::byte{4});
}

TEST_CASE("records that are damaged, cut or of another place are an error that names file and offset") {
    const test::temporary_directory directory;
    const auto path = directory / "histories";
    const auto written = [&] {
        history_file file(path, sizes, record);
        auto a = records(0, 1), b = records(2, 2);
        file.write(0, a);
        file.write(2, b);
        return file.flush();
    };
    const auto refused = [&](auto&& change) {
        const std::string versions = written();
        change();
        history_file file(path, sizes, record, versions);
        std::vector<std::byte> all(5 * record), one(record);
        CHECK_THROWS_WITH_AS(file.read(2, all), doctest::Contains("histories"), error);
        CHECK_THROWS_WITH_AS(file.read(2, std::vector<std::uint32_t>{4}, one), doctest::Contains("histories"), error);
    };
    refused([&] {
        std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
        out.seekp(7 * record + 6);
        out.put('x');
    });
    refused([&] { std::filesystem::resize_file(path, 8 * record - 1); });
    refused([&] { // record 3 in the place of 4
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        std::vector<char> bytes(record);
        file.seekg(6 * record);
        file.read(bytes.data(), record);
        file.seekp(7 * record);
        file.write(bytes.data(), record);
    });
    CHECK_THROWS_AS(history_file(path, sizes, record, "ab"), error);
    CHECK_THROWS_AS(history_file(path, sizes, record, "abc"), error);
    CHECK_THROWS_AS(history_file(directory / "none", sizes, record, "ab-"), io_error);
    history_file file(path, sizes, record);
    std::vector<std::byte> few(record);
    CHECK_THROWS_AS(file.read(0, few), error);
    CHECK_THROWS_AS(file.write(3, few), error);
}

} // namespace test_storage_history_file
