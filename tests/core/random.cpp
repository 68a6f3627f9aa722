#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

namespace test_core_random {

using namespace gneiss;

TEST_CASE("a stream is a pure function of its key and draw") {
    constexpr random_key key = random_key{7, random_domain::negative}.with(1).with(2);
    static_assert(key[3] == random_key{7, random_domain::negative}.with(1).with(2)[3]);
    CHECK(key[0] != key[1]);
    CHECK(key[0] != key.with(0)[0]);
}

TEST_CASE("keys that differ in one field, their order or the domain give different streams") {
    std::set<std::uint64_t> seen;
    std::size_t result = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        for (const auto domain : {random_domain::negative, random_domain::plan})
            for (std::uint64_t a = 0; a < 20; ++a)
                for (std::uint64_t b = 0; b < 20; ++b, ++result)
                    seen.insert(random_key{seed, domain}.with(a).with(b)[0]);
    CHECK(seen.size() == result);
}

TEST_CASE("draws below a bound are uniform by chi-square") {
    for (const std::uint64_t bound : {2ULL, 3ULL, 10ULL, 1000ULL}) {
        std::vector<double> count(bound);
        constexpr double draws = 200000;
        random_stream stream(random_key{1, random_domain::user}.with(bound));
        for (int i = 0; i < static_cast<int>(draws); ++i) ++count[stream.below(bound)];
        const double expected = draws / static_cast<double>(bound);
        double chi = 0;
        for (const double c : count) chi += (c - expected) * (c - expected) / expected;
        const double freedom = static_cast<double>(bound) - 1;
        CHECK(std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom) + 5); // five sigma
    }
}

TEST_CASE("successive keys are independent: first draws of consecutive nodes are uniform in pairs") {
    std::vector<double> count(64);
    constexpr double draws = 64000;
    for (std::uint64_t node = 0; node < static_cast<std::uint64_t>(draws); ++node) {
        const random_key key = random_key{1, random_domain::neighbor}.with(node);
        ++count[below(key[0], 8) * 8 + below(key[1], 8)];
    }
    double chi = 0;
    for (const double c : count) chi += (c - draws / 64) * (c - draws / 64) / (draws / 64);
    CHECK(std::abs(chi - 63) < 5 * std::sqrt(126.0));
}

TEST_CASE("a keyed permutation is a bijection and inverts") {
    for (std::uint64_t size : {1ULL, 2ULL, 3ULL, 5ULL, 16ULL, 17ULL, 1000ULL, 4097ULL}) {
        const keyed_permutation permute(size, random_key{size, random_domain::node_permutation});
        std::vector<bool> hit(size);
        for (std::uint64_t i = 0; i < size; ++i) {
            const std::uint64_t j = permute(i);
            REQUIRE(j < size);
            CHECK(!hit[j]);
            hit[j] = true;
            CHECK(permute.inverse(j) == i);
        }
    }
    const keyed_permutation large((1ULL << 40) + 12345, random_key{1, random_domain::node_permutation});
    for (std::uint64_t i = 0; i < 1000; ++i) CHECK(large.inverse(large(i * 1000003)) == i * 1000003);
}

TEST_CASE("a keyed permutation of many elements at once equals one call per element") {
    for (std::uint64_t size : {1ULL, 5ULL, 1000ULL, 1025ULL, 65536ULL, 100003ULL, (1ULL << 40) + 12345}) {
        const keyed_permutation permute(size, random_key{size, random_domain::edge_shuffle});
        std::vector<std::uint64_t> elements;
        for (std::uint64_t i = 0; i < 1500; ++i) elements.push_back(i * 1000003 % size);
        std::vector<std::uint64_t> expected = elements;
        for (std::uint64_t& e : expected) e = permute(e);
        permute.apply(elements);
        CHECK(elements == expected);
    }
    keyed_permutation(3, random_key{1, random_domain::edge_shuffle}).apply({});
}

TEST_CASE("a keyed permutation sends an element to every position equally often") {
    constexpr std::uint64_t size = 10;
    std::vector<double> count(size * size);
    constexpr int tries = 20000;
    for (std::uint64_t t = 0; t < tries; ++t) {
        const keyed_permutation permute(size, random_key{t, random_domain::edge_shuffle});
        for (std::uint64_t i = 0; i < size; ++i) ++count[i * size + permute(i)];
    }
    double chi = 0;
    for (const double c : count) chi += (c - tries / 10.0) * (c - tries / 10.0) / (tries / 10.0);
    CHECK(std::abs(chi - 81) < 5 * std::sqrt(162.0));
}

TEST_CASE("shuffle gives every order of three equally often") {
    std::vector<double> count(6);
    constexpr int tries = 60000;
    for (std::uint64_t t = 0; t < tries; ++t) {
        std::vector<int> order{0, 1, 2};
        shuffle(order, random_key{t, random_domain::plan});
        const int lehmer = order[0] * 2 + (order[1] > order[2]);
        ++count[static_cast<std::size_t>(lehmer)];
    }
    for (const double c : count) CHECK(std::abs(c - tries / 6.0) < 5 * std::sqrt(tries / 6.0));
}

} // namespace test_core_random
