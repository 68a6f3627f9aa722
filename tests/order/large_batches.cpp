#include <gneiss/order/large_batches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace test_order_large_batches {

using namespace gneiss;

namespace {

std::vector<node_id> every_third(std::size_t count) {
    std::vector<node_id> nodes(count);
    for (std::size_t i = 0; i < count; ++i) nodes[i] = static_cast<node_id>(3 * i);
    return nodes;
}
std::vector<std::vector<node_id>> all_of(const large_batches& cut) {
    std::vector<std::vector<node_id>> result(static_cast<std::size_t>(cut.size()));
    for (std::size_t m = 0; m < result.size(); ++m) cut.choose(m, result[m]);
    return result;
}

} // namespace

TEST_CASE("large batches: every training node is in one, sizes differ by at most one") {
    const auto training = every_third(101);
    for (const std::uint64_t most : {1U, 7U, 50U, 100U, 101U, 1000U}) {
        const large_batches cut(training, most, 5, 2);
        CHECK(cut.size() == (101 + most - 1) / most);
        CHECK(cut.states().size() == cut.size());
        std::vector<node_id> seen;
        std::size_t least = 101, largest = 0;
        for (const auto& nodes : all_of(cut)) {
            CHECK(std::ranges::is_sorted(nodes));
            least = std::min(least, nodes.size());
            largest = std::max(largest, nodes.size());
            seen.insert(seen.end(), nodes.begin(), nodes.end());
        }
        CHECK(largest <= most);
        CHECK(largest - least <= 1);
        std::ranges::sort(seen);
        CHECK(seen == training);
    }
}

TEST_CASE("large batches: a function of seed and epoch, another one in each") {
    const auto training = every_third(200);
    const auto of = [&](std::uint64_t seed, std::uint64_t epoch) {
        return all_of(large_batches(training, 40, seed, epoch));
    };
    CHECK(of(1, 0) == of(1, 0));
    CHECK(of(1, 0) != of(1, 1));
    CHECK(of(1, 0) != of(2, 0));
}

TEST_CASE("large batches: two nodes share one as often as random ones do") {
    const auto training = every_third(100);
    int together = 0;
    constexpr int epochs = 4000;
    for (int e = 0; e < epochs; ++e) {
        for (const auto& nodes : all_of(large_batches(training, 25, 3, static_cast<std::uint64_t>(e))))
            together +=
                std::ranges::binary_search(nodes, training[0]) && std::ranges::binary_search(nodes, training[1]);
    }
    CHECK(std::abs(together - epochs * 24 / 99) < 140); // five standard deviations
}

TEST_CASE("large batches: bad input") {
    const auto training = every_third(10);
    CHECK_THROWS_AS(large_batches(training, 0, 1, 0), error);
    std::vector<node_id> nodes;
    CHECK_THROWS_WITH_AS(
        large_batches(training, 5, 1, 0).choose(2, nodes), doctest::Contains("large batch 2 of an epoch of 2"), error);
    CHECK(large_batches({}, 5, 1, 0).size() == 0);
}

} // namespace test_order_large_batches
