#include <gneiss/core/row_layout.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_core_row_layout {

using namespace gneiss;

TEST_CASE("a row is its value followed by its state") {
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

TEST_CASE("partitions of given sizes are found from every row; those of equal sizes equal the computed ranges") {
    random_stream draw(random_key{1, random_domain::user});
    for (int round = 0; round < 400; ++round) {
        std::vector<std::uint64_t> sizes(1 + draw.below(40));
        for (std::uint64_t& size : sizes) size = draw.below(3) == 0 ? 0 : draw.below(draw.below(8) == 0 ? 5000 : 30);
        const auto cut = row_partitioning::of_sizes(sizes);
        const row_finder finder(cut);
        std::uint64_t row = 0;
        for (partition_id p = 0; p < sizes.size(); ++p) {
            REQUIRE(cut.begin(p) == row);
            REQUIRE(cut.size(p) == sizes[p]);
            for (std::uint64_t i = 0; i < sizes[p]; ++i, ++row) {
                REQUIRE(cut.of(row) == p);
                REQUIRE(finder.of(static_cast<node_id>(row)) == p);
                REQUIRE(finder.begin(p) == cut.begin(p));
            }
        }
        CHECK(cut.nodes == row);
        CHECK(cut.begin(cut.partitions) == row);
        CHECK(cut.capacity() == std::ranges::max(sizes));
        CHECK(cut.largest(1) == cut.capacity());
        CHECK(cut.largest(100) == row);
        CHECK(cut == row_partitioning::of_sizes(sizes));
        std::vector<std::uint64_t> other = sizes;
        other.push_back(other.back() + 1);
        other[0] += 1;
        CHECK_FALSE(cut == row_partitioning::of_sizes(other));
    }
    for (std::uint64_t nodes = 0; nodes < 40; ++nodes)
        for (std::uint32_t p = 1; p < 12; ++p) {
            const row_partitioning equal{nodes, p};
            std::vector<std::uint64_t> sizes;
            for (partition_id i = 0; i < p; ++i) sizes.push_back(equal.size(i));
            const auto result = row_partitioning::of_sizes(sizes);
            CHECK(result == equal);
            CHECK(!result.borders);
            for (std::uint64_t count = 0; count <= p; ++count)
                CHECK(equal.largest(count) == std::min(nodes, count * equal.capacity()));
        }
}

TEST_CASE("partition boundaries are 64-bit") {
    const row_partitioning cut{std::uint64_t{1} << 40, 1000};
    CHECK(cut.begin(999) > std::uint64_t{1} << 39);
    CHECK(cut.of(cut.begin(999)) == 999);
    CHECK(cut.of(cut.begin(999) - 1) == 998);
}

} // namespace test_core_row_layout
