#include <gneiss/core/error.hpp>

#include <doctest/doctest.h>

#include <cerrno>

namespace test_core_error {

using namespace gneiss;

TEST_CASE("an error names its place in one line and keeps the fields") {
    const error e(errc::invalid_format, "expected a number", {.path = "edges.tsv", .line = 3, .column = 7});
    CHECK(std::string(e.what()) == "edges.tsv: line 3, column 7: expected a number");
    CHECK(e.code() == errc::invalid_format);
    CHECK(e.place().line == 3);
    CHECK(e.place().column == 7);
}

TEST_CASE("an error names the field, and the byte offset if known") {
    const error e(
        errc::corrupt, "checksum differs", {.path = "a.npy", .offset = 4096, .length = 512, .field = "edges"});
    CHECK(std::string(e.what()) == "a.npy: edges: checksum differs (512 bytes at offset 4096)");
}

TEST_CASE("an error without a place is its text alone") {
    CHECK(std::string(error(errc::closed, "the queue is closed").what()) == "the queue is closed");
}

TEST_CASE("an io_error carries errno and distinguishes a full disk from other failures") {
    const io_error full(ENOSPC, "write", {.path = "rows", .offset = 8, .length = 16});
    CHECK(full.code() == std::errc::no_space_on_device);
    CHECK(full.out_of_space());
    CHECK(io_error(EDQUOT, "write", {}).out_of_space());
    CHECK_FALSE(io_error(EIO, "write", {}).out_of_space());
    CHECK(std::string(full.what()).starts_with("rows: write (16 bytes at offset 8)"));
    CHECK(full.place().path == "rows");
}

TEST_CASE("errors can be caught as their base classes") {
    CHECK_THROWS_AS(throw error(errc::closed, "x"), std::runtime_error);
    CHECK_THROWS_AS(throw io_error(EIO, "x", {}), std::system_error);
}

TEST_CASE("a message stays one line, whatever text of a file it contains") {
    const error odd(errc::invalid_format, "'a\nb\x1b[31m\x7f' is no é", {.path = "x\ty", .field = "f\r"});
    CHECK(std::string(odd.what()) == "x?y: f?: 'a?b?[31m?' is no é");
    CHECK(odd.place().path == "x\ty");
}

} // namespace test_core_error
