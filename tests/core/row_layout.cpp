#include <gneiss/core/row_layout.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

using namespace gneiss;

TEST_CASE("a row is its value and its state side by side") {
    constexpr row_layout adagrad{.dim = 100, .state = 100};
    static_assert(adagrad.floats() == 200 && adagrad.bytes() == 800);
    // The sum of two 32-bit counts does not wrap.
    CHECK(row_layout{.dim = 0xffffffff, .state = 0xffffffff}.floats() == 0x1fffffffe);
}

TEST_CASE("partitions are consecutive ranges that cover every node once, none above capacity") {
    for (std::uint64_t nodes = 0; nodes < 60; ++nodes)
        for (std::uint32_t p = 1; p < 20; ++p) {
            const row_partitioning cut{nodes, p};
            std::uint64_t covered = 0;
            for (partition_id i = 0; i < p; ++i) {
                CHECK(cut.begin(i) == covered);
                CHECK(cut.size(i) <= cut.capacity());
                for (std::uint64_t node = cut.begin(i); node < cut.begin(i + 1); ++node) CHECK(cut.of(node) == i);
                covered += cut.size(i);
            }
            CHECK(covered == nodes);
            CHECK(cut.begin(p) == nodes);
        }
}

TEST_CASE("partition borders are 64-bit") {
    constexpr row_partitioning cut{std::uint64_t{1} << 40, 1000};
    CHECK(cut.begin(999) > std::uint64_t{1} << 39);
    CHECK(cut.of(cut.begin(999)) == 999);
    CHECK(cut.of(cut.begin(999) - 1) == 998);
}
