#include <gneiss/partition/detail/load_table.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gneiss/core/random.hpp>

namespace test_partition_detail_load_table {

using namespace gneiss;

TEST_CASE("the first part of a group is the least by (load, part), after any changes") {
    for (const std::uint32_t parts : {1U, 2U, 3U, 7U, 8U, 33U}) {
        constexpr std::size_t groups = 3;
        detail::load_table table(groups, parts);
        std::vector<double> loads(groups * parts);
        random_stream draw(random_key(parts, random_domain::user));
        for (int change = 0; change < 2000; ++change) {
            const auto group = static_cast<std::size_t>(draw.below(groups));
            const auto p = static_cast<partition_id16>(draw.below(parts));
            const std::uint64_t drawn = draw.below(6); // ties are frequent
            loads[group * parts + p] = drawn == 5 ? detail::load_table::infinite : static_cast<double>(drawn);
            table.set(group, p, loads[group * parts + p]);
            for (std::size_t g = 0; g < groups; ++g) {
                std::uint32_t least = 0;
                for (std::uint32_t q = 1; q < parts; ++q)
                    if (loads[g * parts + q] < loads[g * parts + least]) least = q;
                REQUIRE(table.first(g) == least);
                REQUIRE(table(g, p) == loads[g * parts + p]);
            }
        }
    }
}

} // namespace test_partition_detail_load_table
