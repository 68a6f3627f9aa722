#include <gneiss/graph/generate/bipartite.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <support/generated_graph.hpp>

namespace test_graph_generate_bipartite {

using namespace gneiss;
using test::all_edges;

namespace {

/// Returns the share of rank r among `size` nodes: the integral of (x + 1)^−skew over [r, r + 1), normalized.
double share(std::uint64_t r, std::uint64_t size, double skew) {
    const auto integral = [&](double x) {
        return skew == 1 ? std::log(x + 1) : (std::pow(x + 1, 1 - skew) - 1) / (1 - skew);
    };
    const auto begin = static_cast<double>(r);
    return (integral(begin + 1) - integral(begin)) / integral(static_cast<double>(size));
}

/// Returns true if the statistic is within five deviations of its distribution's mean.
bool likely(double chi, double freedom) { return std::abs(chi - freedom) < 5 * std::sqrt(2 * freedom); }

} // namespace

TEST_CASE("every edge leads from a user to an item") {
    for (const std::uint64_t users : {1ULL, 3ULL, 100ULL}) {
        const bipartite<> g({.users = users, .items = 7, .edges = 5000, .clusters = 1, .seed = users});
        CHECK(g.nodes() == users + 7);
        for (const edge& e : all_edges(g)) {
            REQUIRE(g.is_user(e.source));
            REQUIRE(!g.is_user(e.destination));
            REQUIRE(e.destination < g.nodes());
            REQUIRE(e.relation == 0);
        }
    }
}

TEST_CASE("clusters differ in size by at most one, and ranks number their nodes") {
    const bipartite<> g({.users = 1003, .items = 57, .clusters = 10, .seed = 1});
    std::vector<std::vector<int>> ranks(20);
    for (std::uint64_t v = 0; v < g.nodes(); ++v) {
        std::vector<int>& of = ranks[g.cluster(v) + (g.is_user(v) ? 0U : 10U)];
        REQUIRE(g.cluster(v) < 10);
        of.resize(std::max<std::size_t>(of.size(), g.rank(v) + 1));
        ++of[g.rank(v)];
    }
    for (std::size_t c = 0; c < 20; ++c) {
        CHECK(ranks[c].size() == (c < 10 ? 100U : 5U) + ((c < 10 ? c < 3 : c - 10 < 7) ? 1U : 0U));
        for (const int n : ranks[c]) CHECK(n == 1);
    }
}

TEST_CASE("a fraction 1 - mixing of the edges stays in the user's cluster, the others reach every cluster alike, by "
          "chi-square") {
    for (const double mixing : {0.0, .3, 1.0}) {
        const bipartite<> g({.users = 3000, .items = 900, .edges = 100000, .clusters = 8, .mixing = mixing, .seed = 2});
        std::vector<double> between(64);
        for (const edge& e : all_edges(g)) ++between[g.cluster(e.source) * 8 + g.cluster(e.destination)];
        double chi = 0, freedom = -1;
        for (std::size_t a = 0; a < 8; ++a)
            for (std::size_t b = 0; b < 8; ++b) {
                const double expected = 100000 / 8. * (mixing / 8 + (a == b ? 1 - mixing : 0));
                if (expected == 0) {
                    CHECK(between[a * 8 + b] == 0);
                    continue;
                }
                chi += (between[a * 8 + b] - expected) * (between[a * 8 + b] - expected) / expected;
                ++freedom;
            }
        CHECK(likely(chi, freedom));
    }
}

TEST_CASE("popularity and activity follow their power laws by rank, by chi-square") {
    for (const auto& [popularity, activity] :
        {std::pair(1., .5), std::pair(0., 0.), std::pair(.7, 1.), std::pair(1.4, 0.)}) {
        CAPTURE(popularity);
        const bipartite<> g({.users = 400,
            .items = 240,
            .edges = 200000,
            .clusters = 4,
            .popularity_skew = popularity,
            .activity_skew = activity,
            .seed = 3});
        std::vector<double> user(100), item(60);
        for (const edge& e : all_edges(g)) ++user[g.rank(e.source)], ++item[g.rank(e.destination)];
        const auto fits = [](const std::vector<double>& counts, double skew) {
            double chi = 0;
            for (std::size_t r = 0; r < counts.size(); ++r) {
                const double expected = 200000 * share(r, counts.size(), skew);
                chi += (counts[r] - expected) * (counts[r] - expected) / expected;
            }
            return likely(chi, static_cast<double>(counts.size()) - 1);
        };
        CHECK(fits(user, activity));
        CHECK(fits(item, popularity));
    }
}

TEST_CASE("edges are functions of seed and number: chunks, threads and passes agree") {
    const bipartite<> g({.users = 70000, .items = 3000, .edges = 30000, .seed = 8});
    test::check_edges_are_functions_of_their_number(g, 999);
    CHECK(all_edges(bipartite<>({.users = 70000, .items = 3000, .edges = 30000, .seed = 9})) != all_edges(g));
}

TEST_CASE("invalid options are refused by name") {
    const auto refused = [](bipartite_options options) {
        try {
            (void)bipartite<>(options);
        } catch (const error& e) {
            return e.place().field;
        }
        return std::string();
    };
    CHECK(refused({.users = 99, .items = 99}).empty());
    CHECK(refused({.users = 1ULL << 31, .items = 1ULL << 31}).empty());
    CHECK(refused({.items = 99}) == "users");
    CHECK(refused({.users = 99}) == "items");
    CHECK(refused({.users = 1ULL << 31, .items = (1ULL << 31) + 1}) == "items");
    CHECK(refused({.users = 1ULL << 63, .items = 99}) == "items");
    CHECK(refused({.users = 99, .items = 99, .clusters = 0}) == "clusters");
    CHECK(refused({.users = 99, .items = 9, .clusters = 10}) == "clusters");
    CHECK(refused({.users = 99, .items = 99, .mixing = 1.5}) == "mixing");
    CHECK(refused({.users = 99, .items = 99, .popularity_skew = -1}) == "popularity_skew");
    CHECK(refused({.users = 99, .items = 99, .activity_skew = std::nan("")}) == "activity_skew");
}

} // namespace test_graph_generate_bipartite
