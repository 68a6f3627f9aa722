#include <gneiss/order/batches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

namespace test_order_batches {

using namespace gneiss;

namespace {

std::vector<edge_position> batch_of(const state_batches& batches, std::uint64_t batch) {
    std::vector<edge_position> edges(batches.batch_edges(batch));
    batches.fill(batch, edges);
    return edges;
}

std::vector<edge_index> random_buckets(random_stream& draw) {
    std::vector<edge_index> buckets(draw.below(40));
    for (edge_index& b : buckets) b = draw.below(4) == 0 ? 0 : draw.below(draw.below(8) == 0 ? 3000 : 40);
    return buckets;
}

} // namespace

TEST_CASE("the batches of a state hold every edge of every bucket once, whatever the sizes") {
    for (const batch_scope from : {batch_scope::state, batch_scope::bucket})
        for (std::uint64_t trial = 0; trial < 200; ++trial) {
            random_stream draw(random_key{trial, random_domain::user});
            const std::vector<edge_index> buckets = random_buckets(draw);
            const state_batches batches(buckets, 1 + draw.below(500), edge_shuffle_key(trial, 1, 2), from);
            std::vector<edge_position> all;
            for (std::uint64_t b = 0; b < batches.size(); ++b) {
                const auto batch = batch_of(batches, b);
                all.insert(all.end(), batch.begin(), batch.end());
            }
            std::vector<edge_position> expected;
            for (std::uint32_t b = 0; b < buckets.size(); ++b)
                for (std::uint32_t e = 0; e < buckets[b]; ++e) expected.push_back({b, e});
            std::ranges::sort(all);
            REQUIRE(all == expected);
            CHECK(batches.edges() == expected.size());
        }
}

TEST_CASE("filling a batch equals looking up position by position") {
    for (const batch_scope from : {batch_scope::state, batch_scope::bucket})
        for (std::uint64_t trial = 0; trial < 30; ++trial) {
            random_stream draw(random_key{trial, random_domain::user});
            const state_batches batches(random_buckets(draw), 700, edge_shuffle_key(trial, 0, 0), from);
            for (std::uint64_t b = 0; b < batches.size(); ++b) {
                const auto batch = batch_of(batches, b);
                for (std::size_t i = 0; i < batch.size(); ++i) REQUIRE(batches.at(b, i) == batch[i]);
            }
        }
}

TEST_CASE("the shuffled union is the keyed permutation of the concatenated buckets") {
    const std::vector<edge_index> buckets{3, 0, 5, 2};
    const random_key key = edge_shuffle_key(9, 4, 7);
    CHECK(key.value() == random_key{9, random_domain::edge_shuffle}.with(4).with(7).value());
    const state_batches batches(buckets, 4, key);
    const std::vector<edge_position> joined{
        {0, 0}, {0, 1}, {0, 2}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 0}, {3, 1}};
    const keyed_permutation permute(10, key);
    REQUIRE(batches.size() == 3);
    for (std::uint64_t batch = 0, k = 0; batch < 3; ++batch)
        for (std::uint64_t i = 0; i < batches.batch_edges(batch); ++i, ++k)
            CHECK(batches.at(batch, i) == joined[permute(k)]);
}

TEST_CASE("by bucket, batches stay within one bucket and follow the state's order") {
    const std::vector<edge_index> buckets{10, 0, 4, 5};
    const state_batches batches(buckets, 4, edge_shuffle_key(1, 0, 0), batch_scope::bucket);
    const std::vector<std::uint64_t> sizes{4, 3, 3, 4, 3, 2};
    const std::vector<std::uint32_t> bucket{0, 0, 0, 2, 3, 3};
    REQUIRE(batches.size() == sizes.size());
    for (std::uint64_t b = 0; b < batches.size(); ++b) {
        CHECK(batches.batch_edges(b) == sizes[b]);
        for (const edge_position& p : batch_of(batches, b)) CHECK(p.bucket == bucket[b]);
    }
}

TEST_CASE("batches are as few as the largest size allows, and of equal sizes but for one edge") {
    for (const batch_scope from : {batch_scope::state, batch_scope::bucket})
        for (std::uint64_t edges = 1; edges < 60; ++edges)
            for (std::uint64_t most = 1; most < 62; ++most) {
                const state_batches batches(std::span(&edges, 1), most, edge_shuffle_key(1, 0, 0), from);
                REQUIRE(batches.size() == (edges + most - 1) / most);
                for (std::uint64_t b = 0; b < batches.size(); ++b) {
                    REQUIRE(batches.batch_edges(b) <= most);
                    REQUIRE(batches.batch_edges(0) - batches.batch_edges(b) <= 1);
                }
            }
}

TEST_CASE("another epoch, state or seed shuffles differently; the same one shuffles equally") {
    const std::vector<edge_index> buckets{500, 300};
    for (const batch_scope from : {batch_scope::state, batch_scope::bucket}) {
        std::set<std::vector<edge_position>> first;
        for (const random_key key : {edge_shuffle_key(1, 0, 0), edge_shuffle_key(2, 0, 0), edge_shuffle_key(1, 1, 0),
                 edge_shuffle_key(1, 0, 1)}) {
            first.insert(batch_of(state_batches(buckets, 100, key, from), 0));
            first.insert(batch_of(state_batches(buckets, 100, key, from), 0));
        }
        CHECK(first.size() == 4);
    }
}

TEST_CASE("a batch draws from the buckets in proportion to their edges, by chi-square") {
    const std::vector<edge_index> buckets{1000, 3000, 500, 5500};
    double chi = 0;
    constexpr int tries = 400, size = 100;
    std::vector<double> count(4);
    for (std::uint64_t epoch = 0; epoch < tries; ++epoch)
        for (const edge_position& p : batch_of(state_batches(buckets, size, edge_shuffle_key(3, epoch, 0)), 5))
            ++count[p.bucket];
    for (std::size_t b = 0; b < 4; ++b) {
        const double expected = tries * size * static_cast<double>(buckets[b]) / 10000;
        chi += (count[b] - expected) * (count[b] - expected) / expected;
    }
    CHECK(chi < 3 + 5 * std::sqrt(6.0) + 5);
}

TEST_CASE("a position in a state of thousands of buckets, one of them huge, is found") {
    std::vector<edge_index> buckets(5000, 1);
    buckets[2500] = 4000000000; // all others share a cell or two
    const state_batches batches(buckets, 1000, edge_shuffle_key(1, 0, 0));
    for (std::uint64_t b = 0; b < batches.size(); b += batches.size() / 50)
        for (const edge_position& p : batch_of(batches, b)) CHECK(p.edge < buckets[p.bucket]);
}

TEST_CASE("a state without edges has no batch; impossible sizes are refused") {
    const std::vector<edge_index> none{0, 0}, large{edge_index{1} << 32};
    CHECK(state_batches(none, 10, edge_shuffle_key(1, 0, 0)).size() == 0);
    CHECK(state_batches({}, 10, edge_shuffle_key(1, 0, 0)).size() == 0);
    CHECK(state_batches(none, 10, edge_shuffle_key(1, 0, 0), batch_scope::bucket).size() == 0);
    CHECK_THROWS_AS(state_batches(none, 0, edge_shuffle_key(1, 0, 0)), error);
    CHECK_THROWS_AS(state_batches(large, 10, edge_shuffle_key(1, 0, 0)), error);
}

} // namespace test_order_batches
