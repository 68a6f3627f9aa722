#include <gneiss/graph/generate/lfr.hpp>

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace test_graph_generate_lfr {

using namespace gneiss;

namespace {

std::vector<edge> all_edges(const lfr<>& g) {
    std::vector<edge> edges(g.edges());
    g.fill(0, edges);
    return edges;
}

std::vector<std::uint64_t> degrees_of(const std::vector<edge>& edges, std::uint64_t nodes) {
    std::vector<std::uint64_t> degrees(nodes);
    for (const edge& e : edges) ++degrees[e.source], ++degrees[e.destination];
    return degrees;
}

} // namespace

TEST_CASE("edges are pure functions of their number, on any threads; another seed gives another graph") {
    const lfr<> g({.nodes = 3000, .edges = 20000, .seed = 4});
    const auto edges = all_edges(g);
    for (edge_index i = 0; i < g.edges(); i += 37) CHECK(g(i) == edges[i]);
    std::vector<edge> parallel(g.edges());
    generate_edges(g, 0, std::span(parallel), tbb_executor());
    CHECK(parallel == edges);
    CHECK(all_edges(lfr<>({.nodes = 3000, .edges = 20000, .seed = 4})) == edges);
    CHECK(all_edges(lfr<>({.nodes = 3000, .edges = 20000, .seed = 5})) != edges);
}

TEST_CASE("nodes, edges and mixing are as requested, and no edge is a self loop") {
    for (const double mixing : {0., .1, .33, .7, 1.}) {
        const lfr<> g({.nodes = 20000, .edges = 200000, .mixing = mixing});
        const auto edges = all_edges(g);
        CHECK(std::abs(static_cast<double>(edges.size()) - 200000) < 6000);
        std::size_t leaving = 0;
        for (const edge& e : edges) {
            REQUIRE(e.source < 20000);
            REQUIRE(e.destination < 20000);
            CHECK(e.source != e.destination);
            leaving += g.label(e.source) != g.label(e.destination);
        }
        CHECK(static_cast<double>(leaving) / static_cast<double>(edges.size()) == doctest::Approx(mixing).epsilon(.05));
    }
}

TEST_CASE("degrees follow the power law up to the largest one") {
    const lfr<> g({.nodes = 50000, .edges = 500000, .degree_exponent = 2.5, .max_degree = 200, .max_community = 5000});
    const auto degrees = degrees_of(all_edges(g), 50000);
    CHECK(std::ranges::max(degrees) <= 205); // a self loop moves to the next node
    // The share above d is (d^-1.5 - 200^-1.5) / (low^-1.5 - 200^-1.5): its ratio at two degrees gives the exponent.
    const auto above = [&](std::uint64_t d) {
        return static_cast<double>(std::ranges::count_if(degrees, [&](std::uint64_t x) { return x > d; }));
    };
    const auto law = [](double d) { return std::pow(d, -1.5) - std::pow(200, -1.5); };
    CHECK(above(60) / above(20) == doctest::Approx(law(60.5) / law(20.5)).epsilon(.1));
}

TEST_CASE("communities have sizes within the requested range, and their nodes fit into them") {
    const lfr<> g({.nodes = 30000, .edges = 300000, .min_community = 50, .max_community = 800, .shuffle = false});
    std::vector<std::uint64_t> sizes(g.communities());
    for (std::uint64_t v = 0; v < g.nodes(); ++v) {
        if (v > 0) CHECK(g.label(v) >= g.label(v - 1)); // natural order
        ++sizes[g.label(v)];
    }
    CHECK(std::ranges::is_sorted(sizes, std::greater<>()));
    CHECK(sizes.back() >= 50);
    CHECK(sizes.front() <= 850); // the remainder joins one
    CHECK(sizes.front() > 8 * sizes.back());
    std::vector<std::uint64_t> inner(g.nodes());
    for (const edge& e : all_edges(g))
        if (g.label(e.source) == g.label(e.destination)) ++inner[e.source], ++inner[e.destination];
    std::size_t large = 0;
    for (std::uint64_t v = 0; v < g.nodes(); ++v) large += inner[v] > sizes[g.label(v)] + 5;
    CHECK(large == 0);
}

TEST_CASE("shuffled ids renumber the same graph") {
    lfr_options options{.nodes = 2000, .edges = 10000, .seed = 3};
    const auto shuffled = lfr<>(options);
    options.shuffle = false;
    const auto natural = lfr<>(options);
    CHECK(shuffled.edges() == natural.edges());
    auto a = degrees_of(all_edges(shuffled), 2000), b = degrees_of(all_edges(natural), 2000);
    CHECK(a != b);
    std::ranges::sort(a);
    std::ranges::sort(b);
    CHECK(a == b);
}

TEST_CASE("small graphs work, and impossible options are refused by field") {
    for (const std::uint64_t nodes : {2U, 3U, 10U, 100U})
        CHECK(all_edges(lfr<>({.nodes = nodes, .edges = (nodes + 1) / 2})).size() <= 2 * nodes);
    const auto field = [](const lfr_options& options) {
        try {
            (void)lfr<>(options);
        } catch (const error& e) {
            CHECK(e.code() == errc::invalid_argument);
            return e.place().field;
        }
        return std::string();
    };
    CHECK(field({.nodes = 1, .edges = 1}) == "nodes");
    CHECK(field({.nodes = 100, .edges = 1}) == "edges");
    CHECK(field({.nodes = 100, .edges = 5000}) == "edges");
    CHECK(field({.nodes = 100, .edges = 500, .mixing = 1.5}) == "mixing");
    CHECK(field({.nodes = 100, .edges = 500, .degree_exponent = 1}) == "degree_exponent");
    CHECK(field({.nodes = 100, .edges = 500, .max_degree = 5}) == "max_degree");
    CHECK(field({.nodes = 100, .edges = 500, .community_exponent = 0}) == "community_exponent");
    CHECK(field({.nodes = 100, .edges = 500, .min_community = 30, .max_community = 20}) == "min_community");
}

} // namespace test_graph_generate_lfr
