#include <gneiss/dist/grouped_rows.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>

namespace test_dist_grouped_rows {

using namespace gneiss;

TEST_CASE("a group is a run of a worker's batches for one compute worker, and every batch is in one group") {
    for (const std::vector<std::uint64_t>& batches :
        std::vector<std::vector<std::uint64_t>>{{}, {1}, {7}, {4, 4}, {5, 0, 3}, {9, 2, 2, 17}})
        for (const std::uint32_t size : {1U, 2U, 3U, 8U})
            for (const std::uint32_t replicas : {1U, 2U, 4U})
                for (std::uint32_t compute = 1; compute <= replicas; ++compute) {
                    const round_batches numbers(batches);
                    const batch_groups groups(numbers, size, replicas, compute);
                    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::uint64_t>> runs;
                    for (std::uint64_t n = 0; n < numbers.size(); ++n)
                        runs[{numbers[n].worker, n % replicas % compute}].push_back(n);
                    std::set<std::vector<std::uint64_t>> expected, found;
                    for (const auto& [of, run] : runs)
                        for (std::size_t i = 0; i < run.size(); i += size)
                            expected.insert({run.begin() + static_cast<std::ptrdiff_t>(i),
                                run.begin() +
                                    static_cast<std::ptrdiff_t>(std::min<std::size_t>(i + size, run.size()))});
                    std::uint64_t before = 0;
                    for (std::size_t g = 0; g < groups.size(); ++g) {
                        CHECK((g == 0 || before < groups[g].front())); // in the order of their first batches
                        before = groups[g].front();
                        found.insert({groups[g].begin(), groups[g].end()});
                        for (std::size_t m = 0; m < groups[g].size(); ++m)
                            CHECK(groups.of(groups[g][m]) == grouped_batch{g, m});
                    }
                    CHECK(found == expected);
                    CHECK(found.size() == groups.size());
                }
    CHECK(test::code_of([] { (void)batch_groups(round_batches({3}), 0); }) == errc::invalid_argument);
    CHECK(test::code_of([] { (void)batch_groups(round_batches({3}), 1, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([] { (void)batch_groups(round_batches({3}), 1, 1, 0); }) == errc::invalid_argument);
}

TEST_CASE("with one worker and as many replicas as batches in a group, a group is a step") {
    const batch_groups groups(round_batches({11}), 4, 4);
    CHECK(groups.size() == 3);
    for (std::uint64_t n = 0; n < 11; ++n) CHECK(groups.of(n) == grouped_batch{n / 4, n % 4});
}

TEST_CASE("distinct rows are numbered by first appearance, group after group") {
    grouped_rows rows;
    for (std::uint64_t group = 0; group < 40; ++group) {
        random_stream draws(random_key{group, random_domain::generate});
        rows.clear();
        std::vector<node_id> expected;
        for (std::uint64_t batch = draws.below(5); batch != 0; --batch) {
            std::vector<node_id> nodes(draws.below(3000));
            for (node_id& v : nodes) v = static_cast<node_id>(draws.below(1 + draws.below(4000)));
            std::vector<std::uint32_t> positions(nodes.size());
            rows.add(nodes, positions);
            for (std::size_t i = 0; i < nodes.size(); ++i) {
                const auto at = std::ranges::find(expected, nodes[i]);
                CHECK(positions[i] == static_cast<std::uint32_t>(at - expected.begin()));
                if (at == expected.end()) expected.push_back(nodes[i]);
            }
        }
        CHECK(std::ranges::equal(rows.ids(), expected));
    }
}

} // namespace test_dist_grouped_rows
