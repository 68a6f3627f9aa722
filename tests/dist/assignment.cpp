#include <gneiss/dist/assignment.hpp>

#include <doctest/doctest.h>

#include "support/error_code.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace test_dist_assignment {

using namespace gneiss;

TEST_CASE("each partition is read once an epoch, by one worker, and its nodes train in the state that loads it") {
    for (const std::uint32_t partitions : {1U, 2U, 3U, 7U, 16U, 31U})
        for (std::uint32_t workers = 1; workers <= partitions; workers += workers < 4 ? 1 : 5)
            for (const std::uint32_t resident : {1U, 2U, 5U, 64U})
                for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
                    CAPTURE(partitions);
                    CAPTURE(workers);
                    CAPTURE(resident);
                    const auto plans = assign_partitions(partitions, workers, resident, 5, epoch);
                    REQUIRE(plans.size() == workers);
                    std::map<partition_id, std::uint32_t> reads, owner;
                    std::multiset<partition_id> trained;
                    std::size_t least = partitions, most = 0;
                    for (std::uint32_t w = 0; w < workers; ++w) {
                        const node_plan& plan = plans[w];
                        REQUIRE(plan.states.size() == plan.trained.size());
                        CHECK(plan.pinned == 0);
                        std::set<partition_id> mine, before;
                        for (std::size_t t = 0; t < plan.states.size(); ++t) {
                            const auto& held = plan.states[t].resident;
                            CHECK(std::ranges::is_sorted(held));
                            CHECK(plan.states[t].edge_buckets.empty());
                            const std::set<partition_id> now(held.begin(), held.end());
                            CHECK(now.size() == held.size());
                            CHECK(held.size() <= resident);
                            std::vector<partition_id> loaded;
                            for (const partition_id p : now)
                                if (!before.contains(p)) {
                                    ++reads[p];
                                    loaded.push_back(p);
                                }
                            CHECK(plan.trained[t] == loaded);
                            if (t > 0) CHECK(loaded.size() == 1); // one by one
                            if (t > 0) CHECK(now.size() == before.size());
                            for (const partition_id p : now) {
                                CHECK(owner.try_emplace(p, w).first->second == w);
                                mine.insert(p);
                            }
                            trained.insert(plan.trained[t].begin(), plan.trained[t].end());
                            before = now;
                        }
                        CHECK(plan.states.front().resident.size() == std::min<std::size_t>(resident, mine.size()));
                        least = std::min(least, mine.size());
                        most = std::max(most, mine.size());
                    }
                    CHECK(most - least <= 1);
                    CHECK(reads.size() == partitions);
                    for (const auto& [p, times] : reads) CHECK(times == 1);
                    CHECK(trained.size() == partitions);
                    CHECK(std::set<partition_id>(trained.begin(), trained.end()).size() == partitions);
                }
}

TEST_CASE("an assignment is a function of seed and epoch, and each of these changes it") {
    const auto one = assign_partitions(16, 3, 2, 1, 0);
    CHECK(assign_partitions(16, 3, 2, 1, 0) == one);
    CHECK(assign_partitions(16, 3, 2, 1, 1) != one);
    CHECK(assign_partitions(16, 3, 2, 2, 0) != one);
}

TEST_CASE("any two partitions share a worker as often as a random split lets them, and any resident one may leave") {
    constexpr std::uint32_t partitions = 8, epochs = 3000;
    double together = 0;
    std::map<std::size_t, int> left; // how long ago the one that leaves was loaded
    for (std::uint64_t e = 0; e < epochs; ++e) {
        const auto plans = assign_partitions(partitions, 2, 2, 9, e);
        for (const node_plan& plan : plans) {
            bool zero = false, one = false;
            for (const buffer_state& s : plan.states)
                for (const partition_id p : s.resident) {
                    zero = zero || p == 0;
                    one = one || p == 1;
                }
            together += zero && one ? 1 : 0;
            const auto& last = plan.states.at(2).resident;
            ++left[std::ranges::count(last, plan.trained.at(1).front())];
        }
    }
    CHECK(together / epochs == doctest::Approx(3.0 / 7).epsilon(0.1)); // 3 of the 7 others; 4.7 standard errors
    CHECK(left[0] > static_cast<int>(epochs) * 9 / 10);                // of 2 × epochs, half leave at once
    CHECK(left[1] > static_cast<int>(epochs) * 9 / 10);
}

TEST_CASE("rounds hold the partitions of the workers' states") {
    const auto plans = assign_partitions(7, 3, 1, 4, 2);
    const epoch_plan rounds = rounds_of(plans);
    REQUIRE(rounds.size() == 3); // 3, 2 and 2 partitions, one at a time
    CHECK(rounds[0].resident.size() == 3);
    CHECK(rounds[1].resident.size() == 3);
    CHECK(rounds[2].resident.size() == 1);
    for (const buffer_state& round : rounds) CHECK(std::ranges::is_sorted(round.resident));
    CHECK(rounds[2].resident == plans[0].states[2].resident);
    CHECK(rounds_of(std::vector<node_plan>{}).empty());
}

TEST_CASE(
    "pinned partitions are held by all workers in every state, and trained once an epoch, by one worker in turn") {
    for (const std::uint32_t pinned : {1U, 2U})
        for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
            const auto plans = assign_partitions(9 + pinned, 3, 2, 5, epoch, pinned),
                       without = assign_partitions(9, 3, 2, 5, epoch);
            for (std::uint32_t w = 0; w < 3; ++w) {
                REQUIRE(plans[w].states.size() == without[w].states.size());
                for (std::size_t t = 0; t < plans[w].states.size(); ++t) {
                    const auto shifted = [&](std::vector<partition_id> of, bool hubs) {
                        for (partition_id& p : of) p += pinned;
                        for (partition_id p = pinned; hubs && p-- != 0;) of.insert(of.begin(), p);
                        return of;
                    };
                    CHECK(plans[w].states[t].resident == shifted(without[w].states[t].resident, true));
                    CHECK(plans[w].trained[t] == shifted(without[w].trained[t], t == 0 && epoch % 3 == w));
                }
            }
            for (const buffer_state& round : rounds_of(plans)) {
                CHECK(std::ranges::adjacent_find(round.resident) == round.resident.end());
                CHECK(round.resident.front() == 0);
            }
        }
    CHECK(test::code_of([] { (void)assign_partitions(4, 3, 1, 0, 0, 2); }) == errc::invalid_argument);
}

TEST_CASE("an owner's rounds hold all partitions, and the buckets that begin in its own") {
    const auto plans = assign_partitions(7, 3, 2, 4, 2);
    const epoch_plan rounds = rounds_of(plans);
    for (std::uint32_t w = 0; w < 3; ++w) {
        const epoch_plan owned = owned_rounds(plans, w);
        REQUIRE(owned.size() == plans[w].states.size());
        for (std::size_t t = 0; t < owned.size(); ++t) {
            CHECK(owned[t].resident == rounds[t].resident);
            std::vector<edge_bucket> expected;
            for (partition_id i = 0; i < 7; ++i)
                for (partition_id j = 0; j < 7; ++j)
                    if (std::ranges::count(plans[w].states[t].resident, i) +
                            std::ranges::count(rounds[t].resident, j) ==
                        2)
                        expected.emplace_back(i, j);
            CHECK(owned[t].edge_buckets == expected);
        }
    }
}

TEST_CASE("batches of a round are numbered one of each worker in turn: brute force") {
    for (const std::vector<std::uint64_t>& counts : std::vector<std::vector<std::uint64_t>>{
             {}, {0}, {3}, {1, 1, 1}, {0, 4, 0, 1}, {5, 2, 7, 2}, {0, 0}, {1, 0, 9}}) {
        std::vector<worker_batch> expected;
        for (std::uint64_t turn = 0; turn < 10; ++turn)
            for (std::uint32_t w = 0; w < counts.size(); ++w)
                if (counts[w] > turn) expected.push_back({w, turn});
        const round_batches round(counts);
        REQUIRE(round.size() == expected.size());
        for (std::uint64_t k = 0; k < round.size(); ++k) CHECK(round[k] == expected[k]);
        CHECK(test::code_of([&] { (void)round[round.size()]; }) == errc::out_of_range);
    }
}

TEST_CASE("no worker, more workers than partitions, and a worker without room are refused") {
    CHECK(test::code_of([] { (void)assign_partitions(4, 0, 1, 0, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([] { (void)assign_partitions(4, 5, 1, 0, 0); }) == errc::invalid_argument);
    CHECK(test::code_of([] { (void)assign_partitions(4, 2, 0, 0, 0); }) == errc::invalid_argument);
}

} // namespace test_dist_assignment
