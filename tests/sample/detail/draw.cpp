#include <gneiss/sample/detail/draw.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <sample/statistics.hpp>

namespace test_sample_detail_draw {

using namespace gneiss;

namespace {

random_key key_of(std::uint64_t trial) { return random_key(11, random_domain::user).with(trial); }

/// Returns a binomial coefficient, for small arguments.
std::size_t choose(std::size_t n, std::size_t k) {
    double value = 1;
    for (std::size_t i = 0; i < k; ++i) value = value * static_cast<double>(n - i) / static_cast<double>(i + 1);
    return static_cast<std::size_t>(std::llround(value));
}

} // namespace

TEST_CASE("products of 32-bit halves equal a 128-bit product") {
    random_stream draw(random_key(1, random_domain::user));
    for (int i = 0; i < 100000; ++i) {
        const std::uint64_t word = i % 7 == 0 ? ~draw() >> draw.below(64) : draw();
        const auto bound = static_cast<std::uint32_t>(draw() >> (32 + draw.below(32)));
        CHECK(detail::below_32(word, bound) == below(word, bound));
    }
    CHECK(detail::below_32(~0ULL, ~0U) == below(~0ULL, ~0ULL >> 32));
}

TEST_CASE("every set of positions is equally likely") {
    std::vector<std::uint32_t> scratch;
    for (std::size_t degree = 2; degree <= 12; ++degree)
        for (std::size_t fanout = 1; fanout < degree; ++fanout) {
            CAPTURE(degree);
            CAPTURE(fanout);
            const std::size_t sets = choose(degree, fanout), trials = 40 * sets + 2000;
            std::map<std::uint32_t, std::size_t> seen;
            std::vector<std::uint32_t> drawn(fanout);
            for (std::size_t t = 0; t < trials; ++t) {
                detail::draw_distinct(key_of(t), 0, static_cast<std::uint32_t>(degree), drawn, scratch);
                std::uint32_t set = 0;
                for (const std::uint32_t p : drawn) set |= 1U << p;
                ++seen[set];
            }
            const double expected = static_cast<double>(trials) / static_cast<double>(sets);
            double statistic = static_cast<double>(sets - seen.size()) * expected;
            for (const auto& [set, count] : seen) {
                REQUIRE(static_cast<std::size_t>(std::popcount(set)) == fanout);
                statistic += std::pow(static_cast<double>(count) - expected, 2) / expected;
            }
            if (sets > 1) CHECK(statistic < test::chi_square_bound(sets - 1));
        }
}

TEST_CASE("at degrees up to 1000 each position, and each pair of positions, is equally likely") {
    std::vector<std::uint32_t> scratch;
    for (const std::uint32_t degree : {2U, 11U, 15U, 30U, 33U, 34U, 65U, 100U, 300U, 1000U})
        for (const std::uint32_t fanout : {1U, 2U, 5U, 10U, 32U, 33U, 64U, 299U, 999U}) {
            if (fanout >= degree) continue;
            CAPTURE(degree);
            CAPTURE(fanout);
            const std::size_t trials = degree > 100 || fanout > 32 ? 3000 : 20000;
            std::vector<double> single(degree, 0), pairs(std::size_t{degree} * degree, 0);
            std::vector<std::uint32_t> drawn(fanout);
            bool valid = true;
            for (std::size_t t = 0; t < trials; ++t) {
                detail::draw_distinct(key_of(t), t % 3, degree, drawn, scratch);
                valid &= std::set<std::uint32_t>(drawn.begin(), drawn.end()).size() == fanout;
                for (const std::uint32_t a : drawn) {
                    ++single.at(a);
                    if (degree <= 300)
                        for (const std::uint32_t b : drawn) ++pairs[std::size_t{a} * degree + b];
                }
            }
            CHECK(valid);
            // Inclusions of one draw are negatively correlated: the sum is chi-square once scaled.
            const double n = static_cast<double>(trials), k = fanout, d = degree, expected = n * k / d;
            double statistic = 0;
            for (const double count : single) statistic += (count - expected) * (count - expected) / expected;
            CHECK(statistic * (d - 1) / (d - k) < test::chi_square_bound(degree - 1));
            if (degree > 300 || fanout < 2) continue;
            const double p = k * (k - 1) / (d * (d - 1)), deviation = std::sqrt(n * p * (1 - p)) + 0.5;
            double worst = 0;
            for (std::uint32_t a = 0; a < degree; ++a)
                for (std::uint32_t b = a + 1; b < degree; ++b)
                    worst = std::max(worst, std::abs(pairs[std::size_t{a} * degree + b] - n * p) / deviation);
            CHECK(worst < 7); // up to 45,000 pairs, some of them rare
        }
}

TEST_CASE("draws with replacement are uniform and may repeat") {
    std::vector<std::uint32_t> drawn(20);
    std::vector<double> counts(7, 0);
    for (std::size_t t = 0; t < 2000; ++t) {
        detail::draw_repeating(key_of(t), 5, 7, drawn);
        for (const std::uint32_t p : drawn) ++counts.at(p);
    }
    double statistic = 0;
    for (const double count : counts) statistic += std::pow(count - 40000.0 / 7, 2) / (40000.0 / 7);
    CHECK(statistic < test::chi_square_bound(6));
}

TEST_CASE("weighted draws follow the weights, with replacement and sequentially without") {
    const std::vector<float> weights{1, 0, 2, 5, 0, 2};
    const double total = 10;
    std::vector<double> with(6, 0);
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> without;
    constexpr std::size_t trials = 60000;
    std::vector<std::uint32_t> drawn(2);
    for (std::size_t t = 0; t < trials; ++t) {
        REQUIRE(detail::draw_weighted(key_of(t), 0, weights, true, drawn) == 2);
        for (const std::uint32_t p : drawn) ++with[p];
        REQUIRE(detail::draw_weighted(key_of(t), 9, weights, false, drawn) == 2);
        ++without[{drawn[0], drawn[1]}];
    }
    double statistic = 0;
    for (std::size_t p = 0; p < 6; ++p) {
        const double expected = 2 * trials * weights[p] / total;
        if (expected == 0)
            CHECK(with[p] == 0);
        else
            statistic += std::pow(with[p] - expected, 2) / expected;
    }
    CHECK(statistic < test::chi_square_bound(3));
    statistic = 0;
    std::size_t kinds = 0;
    for (std::uint32_t a = 0; a < 6; ++a)
        for (std::uint32_t b = a + 1; b < 6; ++b) {
            const double u = weights[a], v = weights[b];
            const double expected = trials * (u / total * v / (total - u) + v / total * u / (total - v));
            if (expected == 0) {
                CHECK(without.count({a, b}) == 0);
                continue;
            }
            ++kinds;
            statistic += std::pow(without[{a, b}] - expected, 2) / expected;
        }
    CHECK(statistic < test::chi_square_bound(kinds - 1));
}

TEST_CASE("too few positive weights are all taken, none gives no draws, and invalid weights are refused") {
    std::vector<std::uint32_t> drawn(4);
    CHECK(detail::draw_weighted(key_of(0), 0, std::vector<float>{0, 1, 0, 3}, false, drawn) == 2);
    CHECK(drawn[0] == 1);
    CHECK(drawn[1] == 3);
    for (const bool replace : {false, true}) {
        CHECK(detail::draw_weighted(key_of(0), 0, std::vector<float>{0, 0}, replace, drawn) == 0);
        CHECK(detail::draw_weighted(key_of(0), 0, std::vector<float>{}, replace, drawn) == 0);
        for (const float bad : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
            CHECK_THROWS_AS(detail::draw_weighted(key_of(0), 0, std::vector<float>{1, bad}, replace, drawn), error);
    }
}

} // namespace test_sample_detail_draw
