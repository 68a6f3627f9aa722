#include <gneiss/storage/io/run_file.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>

#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

namespace test_storage_io_run_file {

using namespace gneiss;
using test::code_of;
using test::temporary_directory;

namespace {

using records = std::vector<std::vector<std::byte>>;

records some_records(std::uint64_t seed) {
    records result;
    random_stream random(random_key(seed, random_domain::user));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{0}, std::size_t{64}}) {
        result.emplace_back(size);
        for (std::byte& b : result.back()) b = static_cast<std::byte>(random() & 0xff);
    }
    return result;
}
void write(const std::filesystem::path& path, const records& all, std::uint64_t identity = 0) {
    run_file_writer file(path, identity);
    for (const auto& record : all) file.append(record, record.size() * 3);
    file.finish();
}
std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
    const plain_file file = plain_file::open(path);
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
    file.read_at(0, bytes);
    return bytes;
}
void replace(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    plain_file file = plain_file::create(path);
    file.write_at(0, bytes);
}
records read_all(const std::filesystem::path& path) {
    run_file_reader file(path);
    records all;
    std::vector<std::byte> record;
    while (file.next(record)) all.push_back(record);
    return all;
}

} // namespace

TEST_CASE("records read back as written, from any position and in any order") {
    const temporary_directory folder;
    const auto path = folder / "records";
    for (const records& all : {some_records(1), records(), records{std::vector<std::byte>(3 << 20, std::byte{7})}}) {
        write(path, all);
        CHECK(read_all(path) == all);
        run_file_reader file(path);
        REQUIRE(file.records() == all.size());
        std::vector<std::byte> room(4 << 20);
        for (std::size_t i = all.size(); i-- > 0;) {
            CHECK(file.size(i) == all[i].size());
            CHECK(file.items(i) == 3 * all[i].size());
            CHECK(std::ranges::equal(file.read(i, room), all[i]));
        }
        if (all.size() < 3) continue;
        std::vector<std::byte> record;
        file.rewind(2);
        CHECK(file.next(record));
        CHECK(record == all[2]);
        file.rewind(99);
        CHECK(!file.next(record));
    }
}

TEST_CASE("a file truncated at any length, or longer than written, is refused") {
    const temporary_directory folder;
    const auto path = folder / "records";
    write(path, some_records(2));
    std::vector<std::byte> whole = bytes_of(path);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        CAPTURE(length);
        replace(path, std::span(whole).first(length));
        CHECK(code_of([&] { run_file_reader file(path); }) == errc::corrupt);
    }
    for (const std::size_t more : {std::size_t{1}, std::size_t{8}, std::size_t{40}}) {
        std::vector<std::byte> longer = whole;
        longer.resize(whole.size() + more);
        replace(path, longer);
        CHECK(code_of([&] { run_file_reader file(path); }) == errc::corrupt);
    }
    std::vector<std::byte> torn = whole; // a hole instead of records
    std::fill(torn.begin() + 8, torn.begin() + 40, std::byte{0});
    replace(path, torn);
    CHECK(code_of([&] { (void)read_all(path); }) == errc::corrupt);
}

TEST_CASE("a flipped bit is found and affects only its record") {
    const temporary_directory folder;
    const auto path = folder / "records";
    const records all = some_records(3);
    write(path, all);
    std::vector<std::byte> whole = bytes_of(path);
    const std::size_t data = 8 + 1 + 13 + 64;
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        CAPTURE(bit);
        std::vector<std::byte> damaged = whole;
        damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        replace(path, damaged);
        if (bit / 8 < 8 || bit / 8 >= data) {
            CHECK(code_of([&] { run_file_reader file(path); }) == errc::corrupt);
            continue;
        }
        run_file_reader file(path);
        std::vector<std::byte> room(64);
        std::size_t lost = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            bool equal = false;
            const auto code = code_of([&] { equal = std::ranges::equal(file.read(i, room), all[i]); });
            lost += code == errc::corrupt;
            CHECK(equal == !code);
        }
        CHECK(lost == 1);
    }
}

TEST_CASE("a record moved within the file or from another file is refused") {
    const temporary_directory folder;
    const auto path = folder / "records";
    const records twins(2, std::vector<std::byte>(16, std::byte{1}));
    records different = twins;
    different[1][0] = std::byte{2};
    write(path, different);
    std::vector<std::byte> swapped = bytes_of(path);
    std::swap_ranges(swapped.begin() + 8, swapped.begin() + 24, swapped.begin() + 24);
    replace(path, swapped);
    CHECK(code_of([&] { (void)read_all(path); }) == errc::corrupt);
    write(path, twins, 5);
    CHECK(code_of([&] { run_file_reader file(path, 6); }) == errc::config_mismatch);
    CHECK(!code_of([&] { run_file_reader file(path, 5); }));
}

TEST_CASE("an unfinished file is not a run file, and is removed") {
    const temporary_directory folder;
    const auto path = folder / "records";
    {
        run_file_writer file(path);
        file.append(std::vector<std::byte>(100));
        CHECK(code_of([&] { run_file_reader reader(path); }) == errc::corrupt);
    }
    CHECK(!std::filesystem::exists(path));
    run_file_writer file(path);
    file.finish();
    CHECK(code_of([&] { file.append({}); }) == errc::closed);
    CHECK(code_of([&] { file.finish(); }) == errc::closed);
    CHECK(read_all(path).empty());
    CHECK_THROWS_AS(run_file_reader(folder / "absent"), io_error);
    CHECK_THROWS_AS(run_file_writer(folder / "absent" / "records"), io_error);
}

TEST_CASE("records are not written through a link") {
    const temporary_directory folder;
    std::ofstream(folder / "other") << "mine";
    std::filesystem::create_symlink(folder / "other", folder / "records");
    CHECK_THROWS_AS(run_file_writer(folder / "records"), error);
    CHECK(std::filesystem::file_size(folder / "other") == 4);
}

TEST_CASE("after a failed write nothing is added, and no file remains") {
    const temporary_directory folder;
    const auto path = folder / "records";
    struct ::rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const unsigned most : {100U, 1000U, 1060U}) { // in a record, at its end, in the index
        struct ::rlimit limit = before;
        limit.rlim_cur = most;
        std::optional<run_file_writer> file(path);
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
        bool failed = false;
        try {
            file->append(std::vector<std::byte>(992));
            file->append(std::vector<std::byte>(8));
            file->finish();
        } catch (const io_error&) {
            failed = true;
        }
        CHECK(failed);
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(code_of([&] { file->append({}); }) == errc::closed);
        CHECK(code_of([&] { file->finish(); }) == errc::closed);
        CHECK(code_of([&] { run_file_reader reader(path); }) == errc::corrupt);
        file.reset();
        CHECK(!std::filesystem::exists(path));
    }
    (void)std::signal(SIGXFSZ, handler);
}

} // namespace test_storage_io_run_file
