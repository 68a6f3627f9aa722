#include <gneiss/io/import/detail/bad_lines.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <support/temporary_directory.hpp>

namespace test_io_import_bad_lines {

using namespace gneiss;

TEST_CASE("skipped lines survive the round trip; a file without lines is refused, whatever its length") {
    const test::temporary_directory at;
    constexpr std::uint64_t count = 50000; // more than 1 MiB
    importing::bad_lines lines(count, {"a.tsv"});
    for (std::uint64_t i = 1; i <= count; ++i)
        lines.add(error(errc::invalid_format, "needs two fields", {.path = "a.tsv", .line = i}));
    lines.save(at / "skipped");
    REQUIRE(std::filesystem::file_size(at / "skipped") > 1 << 20);
    importing::bad_lines found(count, {"a.tsv"});
    found.load(at / "skipped");
    CHECK(found.count() == count);
    found.save(at / "again");
    const auto text = [&](const char* name) {
        const plain_file file = plain_file::open(at / name);
        std::string all(static_cast<std::size_t>(file.size()), '\0');
        file.read_at(0, std::as_writable_bytes(std::span(all)));
        return all;
    };
    CHECK(text("again") == text("skipped"));
    plain_file::create(at / "skipped").truncate(std::uint64_t{1} << 40);
    CHECK_THROWS_WITH_AS(found.load(at / "skipped"), doctest::Contains("is damaged"), error);
}

} // namespace test_io_import_bad_lines
