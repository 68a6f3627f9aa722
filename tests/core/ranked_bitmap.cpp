#include <gneiss/core/ranked_bitmap.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gneiss/core/random.hpp>

namespace test_core_ranked_bitmap {

using namespace gneiss;

TEST_CASE("members know how many are smaller, and others are not found") {
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

} // namespace test_core_ranked_bitmap
