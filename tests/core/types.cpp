#include <gneiss/core/types.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>
#include <unordered_set>

namespace test_core_types {

using namespace gneiss;

static_assert(node_id_type<std::uint32_t> && node_id_type<std::uint64_t>);
static_assert(!node_id_type<int> && !node_id_type<std::uint16_t>);
static_assert(!std::is_convertible_v<std::uint32_t, buffer_slot>, "a number becomes an id only when asked");
static_assert(!std::is_convertible_v<buffer_slot, std::uint32_t>);
static_assert(!std::is_constructible_v<buffer_slot, disk_slot>, "two numberings are not mixed up");
static_assert(sizeof(buffer_slot) == sizeof(std::uint32_t) && std::is_trivially_copyable_v<buffer_slot>);

TEST_CASE("strong ids order and hash like their values") {
    CHECK(buffer_slot{1} < buffer_slot{2});
    CHECK(buffer_slot{} == buffer_slot{0});
    std::unordered_set<disk_slot> seen;
    for (std::uint32_t i = 0; i < 100; ++i) seen.insert(disk_slot{i % 10});
    CHECK(seen.size() == 10);
    CHECK(seen.contains(disk_slot{9}));
}

TEST_CASE("opposite swaps the two sides") {
    CHECK(opposite(side::head) == side::tail);
    CHECK(opposite(opposite(side::head)) == side::head);
}

TEST_CASE("round_up returns the smallest multiple that is not less") {
    for (std::uint32_t unit = 1; unit < 20; ++unit)
        for (std::uint32_t value = 0; value < 100; ++value) {
            std::uint32_t least = 0;
            while (least < value) least += unit;
            CHECK(round_up(value, unit) == least);
            CHECK(ceil_div(value, unit) == least / unit);
        }
}

TEST_CASE("ceil_div does not overflow") {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    CHECK(ceil_div(most, std::uint64_t{2}) == std::uint64_t{1} << 63);
    CHECK(ceil_div(most, most) == 1);
}

} // namespace test_core_types
