#include <gneiss/order/sequence.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gneiss/order/beta.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

namespace test_order_sequence {

using namespace gneiss;

TEST_CASE("a bucket is trained in the first state that holds both its partitions, by brute force") {
    constexpr std::uint32_t p = 7, c = 3;
    for (std::uint64_t trial = 0; trial < 50; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        buffer_sequence sequence;
        for (int s = 0; s < 20; ++s) {
            std::set<partition_id> some;
            while (some.size() < c) some.insert(static_cast<partition_id>(draw.below(p)));
            std::vector<partition_id> buffer(some.begin(), some.end());
            shuffle(buffer, random_key{trial, random_domain::user}.with(1));
            sequence.push_back(buffer);
        }
        // The listing, literally: (bucket, set) pairs.
        std::set<std::pair<edge_bucket, std::set<partition_id>>> expected;
        std::set<edge_bucket> seen;
        for (const auto& buffer : sequence)
            for (const partition_id i : buffer)
                for (const partition_id j : buffer)
                    if (seen.insert({i, j}).second) expected.insert({{i, j}, {buffer.begin(), buffer.end()}});

        std::set<std::pair<edge_bucket, std::set<partition_id>>> found;
        std::size_t buckets = 0;
        for (const buffer_state& s : train_when_first_resident(sequence, p)) {
            CHECK(!s.edge_buckets.empty());
            CHECK(std::ranges::is_sorted(s.resident));
            for (const edge_bucket& b : s.edge_buckets)
                found.insert({b, {s.resident.begin(), s.resident.end()}}), ++buckets;
        }
        CHECK(found == expected);
        CHECK(buckets == expected.size());
    }
}

TEST_CASE("a set without new buckets is left out") {
    const epoch_plan states = train_when_first_resident({{1, 0}, {0, 1}, {2, 0}, {0, 1}, {1, 2}}, 3);
    CHECK(states.size() == 3);
    CHECK_NOTHROW(validate(states, 3, 2));
}

TEST_CASE("shuffling keeps the buckets of each state and depends on the key only") {
    epoch_plan original = train_when_first_resident({{0, 1, 2, 3}, {2, 3, 4, 5}}, 6);
    epoch_plan one = original, same = original, other = original;
    shuffle_edge_buckets(one, random_key{1, random_domain::plan});
    shuffle_edge_buckets(same, random_key{1, random_domain::plan});
    shuffle_edge_buckets(other, random_key{2, random_domain::plan});
    CHECK(one == same);
    CHECK(one != other);
    CHECK(one != original);
    for (buffer_state& s : one) std::ranges::sort(s.edge_buckets);
    CHECK(one == original);
}

TEST_CASE("spreading keeps the plan valid and its traffic unchanged") {
    for (std::uint32_t p = 2; p <= 20; ++p)
        for (std::uint32_t c = 2; c <= p; ++c) {
            const epoch_plan first = beta_order(p, c, 5)(3);
            const epoch_plan spread = beta_order(p, c, 5, {.randomize_bucket_states = true})(3);
            CHECK_NOTHROW(validate(spread, p, c));
            CHECK(cost_of(spread, 1) == cost_of(first, 1));
        }
}

TEST_CASE("every state that holds a bucket trains it equally often, by chi-square") {
    const epoch_plan base = beta_order(8, 4, 1, beta_options::fixed())(0);
    std::vector<std::uint32_t> holders;
    for (std::uint32_t s = 0; s < base.size(); ++s)
        if (std::ranges::count(base[s].resident, 0U) && std::ranges::count(base[s].resident, 1U)) holders.push_back(s);
    REQUIRE(holders.size() > 2);
    std::map<std::uint32_t, double> count;
    constexpr int tries = 6000;
    for (std::uint64_t t = 0; t < tries; ++t) {
        epoch_plan states = base;
        randomize_bucket_states(states, 8, random_key{t, random_domain::plan});
        for (std::uint32_t s = 0; s < states.size(); ++s)
            count[s] += static_cast<double>(std::ranges::count(states[s].edge_buckets, edge_bucket{0, 1}));
    }
    const double expected = tries / static_cast<double>(holders.size());
    double chi = 0, total = 0;
    for (const std::uint32_t s : holders) {
        chi += (count[s] - expected) * (count[s] - expected) / expected;
        total += count[s];
    }
    CHECK(total == tries);
    const double freedom = static_cast<double>(holders.size()) - 1;
    CHECK(std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom));
}

} // namespace test_order_sequence
