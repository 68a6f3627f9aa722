#include <gneiss/core/bitmap.hpp>

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_core_bitmap {

using namespace gneiss;

TEST_CASE("a bitmap is a set of small numbers: equal to std::set under random operations") {
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

TEST_CASE("a bitmap takes one bit per number, in whole words") {
    CHECK(bitmap(0).bytes() == 0);
    CHECK(bitmap(1).bytes() == 8);
    CHECK(bitmap(64).bytes() == 8);
    CHECK(bitmap(65).bytes() == 16);
}

TEST_CASE("each member has its rank; other numbers are not found") {
    for (const std::uint64_t size : {1U, 63U, 64U, 65U, 1000U})
        for (const std::uint64_t every : {1U, 3U, 50U}) {
            random_stream draw(random_key(size, random_domain::user));
            std::vector<std::uint32_t> members;
            for (std::uint32_t i = 0; i < size; ++i)
                if (draw.below(every) == 0) members.push_back(i);
            const ranked_bitmap ranks(size, members);
            std::uint32_t smaller = 0;
            for (std::uint32_t i = 0; i < size; ++i) {
                const bool member = smaller < members.size() && members[smaller] == i;
                REQUIRE(ranks.rank(i).has_value() == member);
                if (member) CHECK(*ranks.rank(i) == smaller++);
            }
        }
}

TEST_CASE("set bits are visited in ascending order") {
    for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 1000U})
        for (const std::uint64_t every : {1U, 3U, 200U}) {
            random_stream draw(random_key(size, random_domain::user));
            bitmap bits(size);
            std::vector<std::size_t> set, visited;
            for (std::size_t i = 0; i < size; ++i)
                if (draw.below(every) == 0) {
                    bits.set(i);
                    set.push_back(i);
                }
            bits.for_each([&](std::size_t i) { visited.push_back(i); });
            CHECK(visited == set);
        }
}

} // namespace test_core_bitmap
