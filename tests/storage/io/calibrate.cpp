#include <gneiss/storage/io/calibrate.hpp>

#include "storage/intercepted_engine.hpp"
#include "storage/rows.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

namespace test_storage_io_calibrate {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;
using storage_test::intercepted_engine;
using storage_test::interception;
using storage_test::rows_file;

TEST_CASE("every engine is measured on files of at least a block, and the gap follows from the rates") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines())
        for (const std::size_t bytes : {4096U, 5000U, 300'000U, 3U << 20}) {
            CAPTURE(name);
            CAPTURE(bytes);
            const rows_file file(engines, folder / "file", 1, bytes);
            const io_profile found = calibrate(engines, file.stored.path, {.time = std::chrono::milliseconds(10)});
            CHECK(std::isfinite(found.bandwidth));
            CHECK(found.bandwidth > 0);
            CHECK(std::isfinite(found.iops));
            CHECK(found.iops > 0);
            CHECK(found.coalesce_bytes % 512 == 0);
            const double bytes_of_a_request = std::min(found.bandwidth / found.iops, 1048576.);
            CHECK(found.coalesce_bytes + 1 > bytes_of_a_request);
            CHECK(found.coalesce_bytes < bytes_of_a_request + 512);
            CHECK(found.spread >= 1);
        }
}

TEST_CASE("the higher of two rates counts; very different ones are reported as unsteady, and the gap is bounded") {
    const io_profile quiet{.bandwidth = 1e9, .iops = 1e5}, busy{.bandwidth = 9e8, .iops = 2e4};
    for (const io_profile& found : {detail::together(quiet, busy), detail::together(busy, quiet)}) {
        CHECK(found.bandwidth == 1e9);
        CHECK(found.iops == 1e5);
        CHECK(found.coalesce_bytes == 10'240); // 10,000 in whole 512s
        CHECK(found.spread == 5);
        CHECK_FALSE(found.steady());
    }
    CHECK(detail::together(quiet, quiet).steady());
    CHECK(detail::together({.bandwidth = 1e10, .iops = 3}, {.bandwidth = 1e10, .iops = 3}).coalesce_bytes == 1 << 20);
}

TEST_CASE("load during the first measurement affects the spread, not the rates") {
    const memory_file_system disk;
    {
        memory_engine writer(disk);
        const int file = writer.open("file", {.write = true, .create = true});
        writer.resize(file, 1 << 20);
        writer.close(file);
    }
    interception stall{io_operation::read, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }};
    stall.armed = true;
    const engine_factory engines = [&] { return any_engine(intercepted_engine(disk, stall)); };
    const io_profile found = calibrate(engines, "file", {.time = std::chrono::milliseconds(8), .direct = false});
    CHECK(found.spread > 1.5);
    CHECK_FALSE(found.steady());
}

TEST_CASE("the memory rate is positive, even for few bytes in no time") {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, std::size_t{4} << 20}) {
        const double rate = copy_bandwidth(bytes, std::chrono::milliseconds(bytes == 1000 ? 0 : 2));
        CAPTURE(rate);
        CHECK(rate > 1e6);
        CHECK(rate < 1e13);
    }
}

TEST_CASE("an empty file or one smaller than a block is refused") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines()) {
        const rows_file file(engines, folder / "file", 1, 100);
        CHECK_THROWS_AS((void)calibrate(engines, folder / "file"), error);
        CHECK_THROWS_AS((void)calibrate(engines, folder / "none"), io_error);
    }
}

TEST_CASE("a profile survives the round trip, and any damage to its file is reported") {
    const temporary_directory folder;
    const auto path = folder / "profile";
    const io_profile profile{1.37e9, 125'000.5, 11'264};
    save_profile(path, profile);
    CHECK(load_profile(path) == profile);
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
    const auto put = [&](const std::vector<char>& what) {
        std::ofstream(path, std::ios::binary).write(what.data(), static_cast<std::streamsize>(what.size()));
    };
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        CAPTURE(at);
        std::vector<char> damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        put(damaged);
        CHECK_THROWS_AS((void)load_profile(path), error);
        put({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at)});
        CHECK_THROWS_AS((void)load_profile(path), error);
    }
    std::vector<char> longer = bytes;
    longer.push_back(0);
    put(longer);
    CHECK_THROWS_AS((void)load_profile(path), error);
    using limits = std::numeric_limits<double>;
    for (const double wrong : {0.0, -1.0, limits::infinity(), limits::quiet_NaN()}) {
        save_profile(path, {wrong, 1, 1});
        CHECK_THROWS_AS((void)load_profile(path), error);
        save_profile(path, {1, wrong, 1});
        CHECK_THROWS_AS((void)load_profile(path), error);
    }
    CHECK_THROWS_AS((void)load_profile(folder / "none"), io_error);
}

} // namespace test_storage_io_calibrate
