#include <gneiss/storage/io/durable.hpp>

#include "storage/support.hpp"
#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/error.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <csignal>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test_storage_io_durable {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
    const plain_file file = plain_file::open(path);
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
    file.read_at(0, bytes);
    return bytes;
}

std::function<void()> at_sync; // called by each fsync of this binary before it takes place

} // namespace

TEST_CASE("a replaced directory remains until the new one's name is on the device") {
    const temporary_directory folder;
    const auto fill = [&](const char* name, std::size_t size) {
        std::filesystem::create_directory(folder / name);
        atomic_write_file(folder / name / "f", std::vector<std::byte>(size));
    };
    fill(".d.old", 9);
    plain_file::create(folder / ".d.old" / directory_mark).close(); // left by a crash
    for (std::size_t size = 1; size < 4; ++size) {
        fill("new", size);
        int syncs = 0;
        at_sync = [&] {
            ++syncs;
            CHECK(std::filesystem::file_size(folder / "d" / "f") == size);
            if (size > 1) CHECK(std::filesystem::file_size(folder / ".d.old" / "f") == size - 1);
        };
        replace_directory(folder / "new", folder / "d");
        at_sync = {};
        CHECK(syncs == 1);
        CHECK(std::filesystem::file_size(folder / "d" / "f") == size);
        CHECK_FALSE(std::filesystem::exists(folder / ".d.old"));
        CHECK_FALSE(std::filesystem::exists(folder / "new"));
    }
    CHECK_THROWS_AS(replace_directory(folder / "absent", folder / "d"), io_error);
    CHECK(std::filesystem::file_size(folder / ".d.old" / "f") == 3);
}

TEST_CASE("a directory of the user that has the name of a replaced one is not removed") {
    const temporary_directory folder;
    for (const char* name : {".d.old", "d", "new"}) std::filesystem::create_directory(folder / name);
    atomic_write_file(folder / ".d.old" / "thesis", std::vector<std::byte>(7));
    CHECK(test::code_of([&] { replace_directory(folder / "new", folder / "d"); }) == errc::already_exists);
    CHECK(std::filesystem::file_size(folder / ".d.old" / "thesis") == 7);
}

TEST_CASE("an atomic write replaces the file and leaves no other") {
    const temporary_directory folder;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
        const std::vector<std::byte> bytes(size, std::byte{9});
        atomic_write_file(folder / "f", bytes);
        CHECK(bytes_of(folder / "f") == bytes);
    }
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++entries;
    CHECK(entries == 1);
}

TEST_CASE("a failed atomic write leaves the old file") {
    const temporary_directory folder;
    const std::vector<std::byte> old(10, std::byte{1}), next(20, std::byte{2});
    atomic_write_file(folder / "f", old);
    std::filesystem::create_directories(folder / ".f.tmp" / "in-the-way");
    CHECK_THROWS_AS(atomic_write_file(folder / "f", next), io_error);
    CHECK(bytes_of(folder / "f") == old);
    CHECK_THROWS_AS(atomic_write_file(folder.path() / "absent" / "f", next), io_error);
}

TEST_CASE("a process killed while it rewrites a file leaves one intact version, none older than acknowledged") {
    const temporary_directory folder;
    constexpr std::size_t size = 200'000;
    atomic_write_file(folder / "f", std::vector<std::byte>(size));
    for (int round = 0; round < 8; ++round) {
        int acknowledged[2];
        REQUIRE(::pipe(acknowledged) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (unsigned char version = 1;; ++version) {
                atomic_write_file(folder / "f", std::vector<std::byte>(size, std::byte{version}));
                if (::write(acknowledged[1], &version, 1) != 1) ::_exit(1);
            }
        }
        ::close(acknowledged[1]);
        unsigned char version = 0, last = 0;
        for (int i = 0; i <= round; ++i) REQUIRE(::read(acknowledged[0], &last, 1) == 1);
        ::kill(child, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        while (::read(acknowledged[0], &version, 1) == 1) last = version;
        ::close(acknowledged[0]);
        const std::vector<std::byte> bytes = bytes_of(folder / "f");
        REQUIRE(bytes.size() == size);
        CHECK(bytes == std::vector<std::byte>(size, bytes[0]));
        const auto found = static_cast<unsigned char>(bytes[0]);
        CHECK((found == last || found == static_cast<unsigned char>(last + 1)));
    }
}

TEST_CASE("free space is reported, and a need beyond it is refused with both figures") {
    const temporary_directory folder;
    CHECK(free_disk_bytes(folder.path()) > 0);
    CHECK_THROWS_AS((void)free_disk_bytes(folder / "absent"), io_error);
    CHECK_NOTHROW(require_disk_space(folder.path(), 0));
    try {
        require_disk_space(folder.path(), std::numeric_limits<std::uint64_t>::max());
        FAIL("no error");
    } catch (const error& e) {
        CHECK(e.code() == errc::no_space);
        CHECK(std::string(e.what()).find("iB are needed on this disk, ") != std::string::npos);
    }
}

TEST_CASE("preallocation keeps contents, and an impossible size is an io_error") {
    const temporary_directory folder;
    const std::vector<std::byte> bytes(100, std::byte{5});
    atomic_write_file(folder / "f", bytes);
    preallocate(folder / "f", 10'000);
    std::vector<std::byte> extended = bytes;
    extended.resize(10'000);
    CHECK(bytes_of(folder / "f") == extended);
    preallocate(folder / "f", 10);
    CHECK(bytes_of(folder / "f") == extended);
    CHECK_THROWS_AS(preallocate(folder / "g", std::numeric_limits<std::uint64_t>::max()), io_error);
    CHECK_THROWS_AS(preallocate(folder / "g", std::uint64_t{1} << 62), io_error); // beyond any file system
}

} // namespace test_storage_io_durable

// NOLINTNEXTLINE(misc-definitions-in-headers,readability-inconsistent-declaration-parameter-name)
extern "C" int fsync(int fd) {
    if (test_storage_io_durable::at_sync) test_storage_io_durable::at_sync();
    return static_cast<int>(::syscall(SYS_fsync, fd));
}
