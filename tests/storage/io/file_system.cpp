#include <gneiss/storage/io/file_system.hpp>

#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace test_storage_io_file_system {

using namespace gneiss;
using gneiss::test::temporary_directory;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A file of the user, and links to it and to its directory.
struct victim {
    temporary_directory folder{};
    fs::path home = folder / "home", file = home / "thesis";

    victim() {
        fs::create_directory(home);
        write(file, "years");
        fs::create_symlink(file, folder / "link");
        fs::create_symlink(home, folder / "linked");
    }
    ~victim() { CHECK(read(file) == "years"); }
};

} // namespace

TEST_CASE("nothing is created, truncated or written through a link") {
    const victim user;
    const fs::path link = user.folder / "link";
    CHECK(test::code_of([&] { (void)plain_file::create(link); }) == errc::already_exists);
    CHECK(test::code_of([&] { preallocate(link, 100); }) == errc::unsupported);
    CHECK(test::code_of([&] { (void)make_directory(user.folder / "linked"); }) == errc::already_exists);
    CHECK(test::code_of([&] { (void)make_directory(user.folder / "linked/"); }) == errc::already_exists);
    fs::create_symlink(user.file, user.folder / ".data.tmp");
    CHECK_THROWS_AS(atomic_write_file(user.folder / "data", {}), error);
    atomic_write_file(link, {}); // replaces the link itself
    CHECK(fs::is_regular_file(fs::symlink_status(link)));
}

TEST_CASE("a FIFO or a device is refused at once") {
    const temporary_directory folder;
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    for (const fs::path& path : {folder / "fifo", fs::path("/dev/zero")}) {
        CHECK(test::code_of([&] { (void)plain_file::open(path); }) == errc::unsupported);
        CHECK(test::code_of([&] { (void)plain_file::create(path); }) == errc::already_exists);
    }
    CHECK_THROWS_AS((void)plain_file::open(folder.path()), io_error);
}

TEST_CASE("a new file takes the place of a regular one, whose other names keep their bytes") {
    const temporary_directory folder;
    write(folder / "a", "old");
    fs::create_hard_link(folder / "a", folder / "b");
    plain_file::create(folder / "a").close();
    CHECK(fs::file_size(folder / "a") == 0);
    CHECK(read(folder / "b") == "old");
}

TEST_CASE("only directories with the mark, and empty ones, are written and emptied") {
    const victim user;
    for (const char* name : {"home", "linked", "link"})
        CHECK(test::code_of([&] { unfinished_directory made(user.folder / name); }) == errc::already_exists);
    write(user.home / "lock", "");
    CHECK(test::code_of([&] { unfinished_directory made(user.home); }) == errc::already_exists);
    CHECK_FALSE(fs::exists(user.home / directory_mark));

    const fs::path marked = user.folder / "marked", empty = user.folder / "empty";
    for (const fs::path& path : {marked, empty}) fs::create_directory(path);
    write(marked / directory_mark, "");
    fs::create_symlink(user.home, marked / "linked");
    for (const fs::path& path : {marked, empty}) {
        unfinished_directory made(path);
        CHECK_FALSE(fs::exists(fs::symlink_status(path / "linked")));
    }
    CHECK_FALSE(fs::exists(marked));
}

TEST_CASE("a mark that is a link does not count, and is not written") {
    const victim user;
    fs::create_directory(user.folder / "trap");
    fs::create_symlink(user.file, user.folder / "trap" / directory_mark);
    CHECK_FALSE(is_marked(user.folder / "trap"));
    CHECK(test::code_of([&] { directory_lock lock(user.folder / "trap"); }) == errc::already_exists);
}

TEST_CASE("scratch directories have different names and go with their contents") {
    const temporary_directory folder;
    fs::path path;
    {
        const scratch_directory one(folder.path()), two(folder.path());
        CHECK(one.path() != two.path());
        path = one.path();
        write(path / "file", "x");
    }
    CHECK_FALSE(fs::exists(path));
}

} // namespace test_storage_io_file_system
