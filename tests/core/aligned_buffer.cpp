#include <gneiss/core/aligned_buffer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

namespace test_core_aligned_buffer {

using namespace gneiss;

static_assert(!std::is_copy_constructible_v<aligned_buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<aligned_buffer<float>>);

TEST_CASE("data starts at the alignment and all padded bytes are writable") {
    for (const std::size_t size : {1UL, 2UL, 1023UL, 1024UL, 1025UL, 100000UL}) {
        aligned_buffer<float> buffer(size);
        CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % page_alignment == 0);
        CHECK(buffer.bytes().size() % page_alignment == 0);
        CHECK(buffer.bytes().size() >= buffer.size_bytes());
        CHECK(buffer.bytes().size() < buffer.size_bytes() + page_alignment);
        std::ranges::fill(buffer.bytes(), std::byte{0xff}); // a sanitizer would report an overflow
    }
    const aligned_buffer<double, 64> narrow(3);
    CHECK(reinterpret_cast<std::uintptr_t>(narrow.data()) % 64 == 0);
    CHECK(narrow.capacity_bytes() == 64);
}

TEST_CASE("zeroed clears the padding too") {
    auto buffer = aligned_buffer<std::uint32_t>::zeroed(5);
    CHECK(std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("an empty buffer owns nothing") {
    const aligned_buffer<int> buffer(0);
    CHECK(buffer.empty());
    CHECK(buffer.data() == nullptr);
    CHECK(buffer.capacity_bytes() == 0);
    CHECK(aligned_buffer<int>::zeroed(0).empty());
}

TEST_CASE("moving transfers the memory and empties the source") {
    aligned_buffer<int> first(10);
    std::iota(first.begin(), first.end(), 0);
    const int* const where = first.data();
    aligned_buffer<int> second(std::move(first));
    CHECK(second.data() == where);
    CHECK(first.empty()); // NOLINT(bugprone-use-after-move): the tested property
    first = std::move(second);
    CHECK(first.data() == where);
    CHECK(first[9] == 9);
    CHECK(std::as_const(first).span().size() == 10);
}

TEST_CASE("a size whose bytes overflow is refused before any allocation") {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK_THROWS_AS(aligned_buffer<double>{most}, std::bad_alloc);
    CHECK_THROWS_AS(aligned_buffer<double>{most / sizeof(double)}, std::bad_alloc);
    CHECK_THROWS_AS(aligned_buffer<char>{most - 1}, std::bad_alloc);
}

} // namespace test_core_aligned_buffer
