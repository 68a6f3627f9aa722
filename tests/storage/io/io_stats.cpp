#include <gneiss/storage/io/io_stats.hpp>

#include <doctest/doctest.h>

namespace test_storage_io_io_stats {

using namespace gneiss;

TEST_CASE("statistics merge in any order and grouping") {
    const io_stats a{.reads = 1, .read_bytes = 10, .waited = std::chrono::nanoseconds(1)};
    const io_stats b{.writes = 2, .syncs = 4, .written_bytes = 20, .retries = 3};
    const io_stats c{.reads = 5, .waited = std::chrono::nanoseconds(7)};
    CHECK((a + b) + c == a + (b + c));
    CHECK(a + b == b + a);
    CHECK(a + io_stats{} == a);
    CHECK((a + b + c).requests() == 12);
    CHECK((a + c).wait_seconds() == doctest::Approx(8e-9));
}

} // namespace test_storage_io_io_stats
