#include <gneiss/graph/generate/geometric.hpp>

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace test_graph_generate_geometric {

using namespace gneiss;

namespace {

std::vector<edge> all_edges(const geometric_options& options) {
    const geometric<> g(options);
    std::vector<edge> edges(g.edges());
    g.fill(0, edges);
    return edges;
}

std::pair<node_id, node_id> ends(const edge& e) { return std::minmax(e.source, e.destination); }

} // namespace

TEST_CASE("edges are pure functions of their number, in any chunks and on any threads") {
    const geometric_options options{.nodes = 3000, .edges = 20000, .seed = 4};
    const geometric<> g(options);
    const auto edges = all_edges(options);
    for (edge_index i = 0; i < g.edges(); i += 37) CHECK(g(i) == edges[i]);
    std::vector<edge> parallel(g.edges());
    generate_edges(g, 0, std::span(parallel), tbb_executor());
    CHECK(parallel == edges);
    CHECK(all_edges({.nodes = 3000, .edges = 20000, .seed = 5}) != edges);
}

TEST_CASE("the graph has the requested number of distinct edges and no self loop") {
    for (const std::uint32_t wanted : {1000U, 20000U, 400000U}) {
        const auto edges = all_edges({.nodes = 4000, .edges = wanted});
        CHECK(static_cast<double>(edges.size()) == doctest::Approx(wanted).epsilon(.12));
        std::set<std::pair<node_id, node_id>> distinct;
        for (const edge& e : edges) {
            REQUIRE(e.source < 4000);
            REQUIRE(e.destination < 4000);
            CHECK(e.source != e.destination);
            distinct.insert(ends(e));
        }
        CHECK(distinct.size() == edges.size());
    }
}

TEST_CASE("edges join exactly the points that are near: checked for all pairs, with the points' own key") {
    constexpr std::uint64_t nodes = 500;
    const geometric_options options{.nodes = nodes, .edges = 5000, .shuffle = false, .seed = 8};
    const auto edges = all_edges(options);
    const random_key key = random_key{options.seed, random_domain::generate}.with(6).with(1);
    std::vector<double> distances;
    for (std::uint64_t i = 0; i < nodes; ++i)
        for (std::uint64_t j = 0; j < i; ++j)
            distances.push_back(
                std::hypot(static_cast<double>(key[i] >> 33) - static_cast<double>(key[j] >> 33),
                    static_cast<double>((key[i] & 0xffffffff) >> 1) - static_cast<double>((key[j] & 0xffffffff) >> 1)) /
                0x1p31);
    // The radius is the root of n(n - 1)/2 (pi r^2 - 8 r^3/3 + r^4/2) = 5000.
    double low = 0, high = 1;
    for (int step = 0; step < 60; ++step) {
        const double m = (low + high) / 2;
        (nodes * (nodes - 1) / 2. * (3.141592653589793 * m * m - 8 * m * m * m / 3 + m * m * m * m / 2) > 5000 ? high
                                                                                                               : low) =
            m;
    }
    CHECK(
        edges.size() == static_cast<std::size_t>(std::ranges::count_if(distances, [&](double d) { return d < high; })));
}

TEST_CASE("neighbors have near numbers in natural order but not when shuffled; the graph is the same") {
    const auto natural = all_edges({.nodes = 10000, .edges = 80000, .shuffle = false, .seed = 2});
    const auto shuffled = all_edges({.nodes = 10000, .edges = 80000, .shuffle = true, .seed = 2});
    REQUIRE(natural.size() == shuffled.size());
    const auto mean_gap = [](const std::vector<edge>& edges) {
        double sum = 0;
        for (const edge& e : edges) sum += std::abs(static_cast<double>(e.source) - e.destination);
        return sum / static_cast<double>(edges.size());
    };
    CHECK(mean_gap(natural) < 400);
    CHECK(mean_gap(shuffled) > 3000);
    std::vector<int> a(10000), b(10000);
    for (std::size_t i = 0; i < natural.size(); ++i)
        ++a[natural[i].source], ++a[natural[i].destination], ++b[shuffled[i].source], ++b[shuffled[i].destination];
    std::ranges::sort(a);
    std::ranges::sort(b);
    CHECK(a == b);
}

TEST_CASE("an impossible option is refused by its field") {
    const auto field = [](const geometric_options& options) {
        try {
            (void)geometric<>(options);
        } catch (const error& e) {
            CHECK(e.code() == errc::invalid_argument);
            return e.place().field;
        }
        return std::string();
    };
    CHECK(field({.nodes = 1, .edges = 1}) == "nodes");
    CHECK(field({.nodes = 100, .edges = 0}) == "edges");
    CHECK(field({.nodes = 100, .edges = 5000}) == "edges");
    CHECK(field({.nodes = 2, .edges = 1}) == "edges");
    CHECK(field({.nodes = 100, .edges = 4000}).empty());
}

} // namespace test_graph_generate_geometric
