#include <gneiss/io/partition_journal_file.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <support/temporary_directory.hpp>

namespace test_io_partition_journal_file {

using namespace gneiss;

TEST_CASE(
    "a journal survives the round trip; one beyond the memory, and a hole of a TiB, are refused before they are read") {
    const test::temporary_directory at;
    const std::vector<std::byte> state(100, std::byte{7});
    partition_journal_file(at / "journal", 5).save(2, state);
    const partition_journal_file found(at / "journal", 5, state.size());
    CHECK(found.step() == 2);
    CHECK(std::vector(found.state().begin(), found.state().end()) == state);
    CHECK_THROWS_WITH_AS(
        partition_journal_file(at / "journal", 5, 99), doctest::Contains("of memory, the budget is 99 B"), over_budget);
    std::filesystem::resize_file(at / "journal", std::uintmax_t{1} << 40);
    CHECK_THROWS_WITH_AS(partition_journal_file(at / "journal", 5), doctest::Contains("was cut"), error);
}

} // namespace test_io_partition_journal_file
