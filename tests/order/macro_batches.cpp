#include <gneiss/order/macro_batches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace test_order_macro_batches {

using namespace gneiss;

TEST_CASE(
    "each partition appears once per epoch in groups of the requested size, with the pinned ones in every state") {
    for (std::uint32_t partitions = 1; partitions < 14; ++partitions)
        for (std::uint32_t pinned = 0; pinned <= std::min(partitions, 2U); ++pinned)
            for (const std::uint32_t macro : {1U, 2U, 5U, 20U}) {
                const node_plan result = macro_batches(partitions, pinned, macro, 7, 3);
                CHECK(result == macro_batches(partitions, pinned, macro, 7, 3));
                const std::uint32_t others = partitions - pinned;
                REQUIRE(result.states.size() == std::max(1U, ceil_div(others, macro)));
                std::set<partition_id> seen;
                for (std::size_t s = 0; s < result.states.size(); ++s) {
                    const auto& resident = result.states[s].resident;
                    CHECK(std::ranges::is_sorted(resident));
                    CHECK(result.states[s].edge_buckets.empty());
                    for (partition_id p = 0; p < pinned; ++p) REQUIRE(resident[p] == p);
                    CHECK(std::vector(resident.begin() + pinned, resident.end()) == result.trained[s]);
                    if (s + 1 < result.states.size()) CHECK(result.trained[s].size() == macro);
                    for (const partition_id p : result.trained[s]) CHECK(seen.insert(p).second);
                }
                CHECK(seen.size() == others);
            }
    CHECK_THROWS_AS((void)macro_batches(0, 0, 1, 1, 0), error);
    CHECK_THROWS_AS((void)macro_batches(3, 4, 1, 1, 0), error);
    CHECK_THROWS_AS((void)macro_batches(3, 0, 0, 1, 0), error);
}

TEST_CASE("every training node is a seed once per epoch, in a state that holds it, whatever its partition") {
    const auto rows = row_partitioning::of_sizes(std::vector<std::uint64_t>{40, 0, 70, 1, 90, 33, 66});
    for (const std::uint32_t pinned : {0U, 1U})
        for (const std::uint64_t every : {1U, 3U, 50U}) {
            std::vector<node_id> training;
            for (node_id v = 0; v < rows.nodes; v += static_cast<node_id>(every)) training.push_back(v);
            std::map<node_id, std::set<std::uint32_t>> states_of;
            for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
                const node_plan result = macro_batches(rows.partitions, pinned, 2, 1, epoch);
                std::vector<node_id> all;
                for (std::uint32_t s = 0; s < result.states.size(); ++s) {
                    const std::size_t before = all.size();
                    append_training_nodes(result, s, rows, training, all);
                    for (std::size_t i = before; i < all.size(); ++i) {
                        REQUIRE(std::ranges::binary_search(result.states[s].resident, rows.of(all[i])));
                        states_of[all[i]].insert(s);
                    }
                }
                std::ranges::sort(all);
                CHECK(all == training);
            }
            for (const auto& [node, states] : states_of) CHECK(states.size() == (pinned == 1 ? 3 : 4)); // all, in turn
        }
}

TEST_CASE("a pinned training node trains in the state of its home, without one in all in turn") {
    const auto rows = row_partitioning::of_sizes(std::vector<std::uint64_t>{40, 0, 70, 1, 90, 33, 66});
    std::vector<node_id> training;
    for (node_id v = 0; v < rows.nodes; v += 3) training.push_back(v);
    std::vector<partition_id> homes;
    for (partition_id hub = 0; hub < 40; ++hub) homes.push_back(hub % 7); // 0: none
    std::map<node_id, std::set<std::uint32_t>> states_of;
    for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
        const node_plan result = macro_batches(rows.partitions, 1, 2, 1, epoch);
        std::vector<node_id> all;
        for (std::uint32_t s = 0; s < result.states.size(); ++s) {
            const std::size_t before = all.size();
            append_training_nodes(result, s, rows, training, all, homes);
            for (std::size_t i = before; i < all.size(); ++i) {
                const partition_id p = rows.of(all[i]);
                REQUIRE(std::ranges::binary_search(result.states[s].resident, p));
                if (p != 0) continue;
                states_of[all[i]].insert(s);
                if (homes[all[i]] != 0) CHECK(std::ranges::binary_search(result.trained[s], homes[all[i]]));
            }
        }
        std::ranges::sort(all);
        CHECK(all == training);
    }
    for (const auto& [hub, states] : states_of) CHECK(states.size() == 3);
}

TEST_CASE(
    "groups are uniform: each pair of partitions meets with the expected frequency, and epochs and seeds differ") {
    constexpr std::uint32_t p = 9, macro = 3, epochs = 3000;
    std::vector<double> together(p * p, 0);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
        for (const auto& group : macro_batches(p, 0, macro, 5, epoch).trained)
            for (const partition_id i : group)
                for (const partition_id j : group) together[i * p + j] += 1;
    // A pair meets with probability (macro − 1)/(p − 1) = 1/4; five standard deviations.
    for (partition_id i = 0; i < p; ++i)
        for (partition_id j = 0; j < i; ++j)
            CHECK(std::abs(together[i * p + j] - epochs / 4.) < 5 * std::sqrt(epochs * 3. / 16));
    CHECK(macro_batches(p, 1, macro, 5, 0) != macro_batches(p, 1, macro, 5, 1));
    CHECK(macro_batches(p, 1, macro, 5, 0) != macro_batches(p, 1, macro, 6, 0));
}

} // namespace test_order_macro_batches
