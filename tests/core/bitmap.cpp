#include <gneiss/core/bitmap.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <set>

namespace test_core_bitmap {

using namespace gneiss;

TEST_CASE("a bitmap is a set of small numbers: the same as std::set under random operations") {
    for (const std::size_t size : {1UL, 63UL, 64UL, 65UL, 1000UL}) {
        bitmap bits(size);
        std::set<std::size_t> oracle;
        random_stream random(random_key{size, random_domain::user});
        for (int step = 0; step < 2000; ++step) {
            const std::size_t i = random.below(size);
            switch (random.below(4)) {
            case 0:
                bits.set(i);
                oracle.insert(i);
                break;
            case 1:
                bits.reset(i);
                oracle.erase(i);
                break;
            case 2: CHECK(bits.insert(i) == oracle.insert(i).second); break;
            default: CHECK(bits[i] == oracle.contains(i));
            }
        }
        CHECK(bits.count() == oracle.size());
        for (std::size_t i = 0; i < size; ++i) CHECK(bits[i] == oracle.contains(i));
        bits.clear();
        CHECK(bits.count() == 0);
        CHECK(bits.size() == size);
    }
}

TEST_CASE("a bitmap takes one bit a number, in whole words") {
    CHECK(bitmap(0).bytes() == 0);
    CHECK(bitmap(1).bytes() == 8);
    CHECK(bitmap(64).bytes() == 8);
    CHECK(bitmap(65).bytes() == 16);
}

} // namespace test_core_bitmap
