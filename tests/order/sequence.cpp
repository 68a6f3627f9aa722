#include <gneiss/order/sequence.hpp>

#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

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
        for (const state& s : train_at_first_meeting(sequence, p)) {
            CHECK(!s.edge_buckets.empty());
            CHECK(std::ranges::is_sorted(s.resident));
            for (const edge_bucket& b : s.edge_buckets)
                found.insert({b, {s.resident.begin(), s.resident.end()}}), ++buckets;
        }
        CHECK(found == expected);
        CHECK(buckets == expected.size());
    }
}

TEST_CASE("a set that brings nothing new is left out") {
    const plan states = train_at_first_meeting({{1, 0}, {0, 1}, {2, 0}, {0, 1}, {1, 2}}, 3);
    CHECK(states.size() == 3);
    CHECK_NOTHROW(validate(states, 3, 2));
}

TEST_CASE("shuffling keeps the buckets of each state and depends on the key only") {
    plan original = train_at_first_meeting({{0, 1, 2, 3}, {2, 3, 4, 5}}, 6);
    plan one = original, same = original, other = original;
    shuffle_edge_buckets(one, random_key{1, random_domain::plan});
    shuffle_edge_buckets(same, random_key{1, random_domain::plan});
    shuffle_edge_buckets(other, random_key{2, random_domain::plan});
    CHECK(one == same);
    CHECK(one != other);
    CHECK(one != original);
    for (state& s : one) std::ranges::sort(s.edge_buckets);
    CHECK(one == original);
}

} // namespace test_order_sequence
