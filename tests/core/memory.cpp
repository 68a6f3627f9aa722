#include <gneiss/core/memory.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_core_memory {

using namespace gneiss;

TEST_CASE("freed memory is not kept as capacity") {
    std::vector<int> values(1000, 7);
    free_memory(values);
    CHECK(values.capacity() == 0);
}

TEST_CASE(
    "a vector that grows without its contents takes an eighth more than requested, and keeps its memory otherwise") {
    std::vector<int> values(1000, 7);
    resize_discard(values, 2000);
    CHECK(values.size() == 2000);
    CHECK(values.capacity() == 2250);
    CHECK(values[0] == 0); // of new memory
    resize_discard(values, 10);
    CHECK(values.capacity() == 2250);
}

} // namespace test_core_memory
