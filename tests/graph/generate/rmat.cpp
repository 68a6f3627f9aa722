#include <gneiss/graph/generate/rmat.hpp>

#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <support/generated_graph.hpp>

namespace test_graph_generate_rmat {

using namespace gneiss;

namespace {

std::vector<edge> all_edges(const rmat_options& options) { return test::all_edges(rmat<>(options)); }

double chi_square(const std::vector<double>& count, const std::vector<double>& probability) {
    double total = 0, chi = 0;
    for (const double c : count) total += c;
    for (std::size_t i = 0; i < count.size(); ++i)
        chi += (count[i] - total * probability[i]) * (count[i] - total * probability[i]) / (total * probability[i]);
    return chi;
}

} // namespace

TEST_CASE("every level picks its quadrant with the given probabilities, independently of the level above") {
    const rmat_options options{.nodes = 1 << 10, .edges = 200000, .a = .5, .b = .2, .c = .25, .seed = 3};
    const std::vector<double> quadrant{.5, .2, .25, .05};
    std::vector<double> pairs;
    for (const double above : quadrant)
        for (const double p : quadrant) pairs.push_back(above * p);
    const std::vector<edge> edges = all_edges(options);
    for (int bit = 9; bit > 0; --bit) {
        std::vector<double> count(16);
        for (const edge& e : edges) {
            const auto at = [&](int b) { return (e.source >> b & 1) * 2 + (e.destination >> b & 1); };
            ++count[at(bit) * 4 + at(bit - 1)];
        }
        CHECK(chi_square(count, pairs) < 15 + 5 * std::sqrt(30.0));
    }
}

TEST_CASE("node counts that are not a power of two split in halves, reach every node and stay in range") {
    for (const std::uint64_t nodes : {1ULL, 2ULL, 3ULL, 5ULL, 7ULL, 13ULL, 100ULL, 129ULL, 1000ULL}) {
        const rmat_options options{.nodes = nodes, .edges = 100000, .a = .4, .b = .25, .c = .2, .seed = nodes};
        std::vector<double> quadrant(4);
        std::set<node_id> sources, destinations;
        for (const edge& e : all_edges(options)) {
            REQUIRE(e.source < nodes);
            REQUIRE(e.destination < nodes);
            sources.insert(e.source);
            destinations.insert(e.destination);
            ++quadrant[(e.source >= nodes / 2 ? 2U : 0U) + (e.destination >= nodes / 2 ? 1U : 0U)];
        }
        if (nodes > 1) CHECK(chi_square(quadrant, {.4, .25, .2, .15}) < 3 + 5 * std::sqrt(6.0) + 3);
        if (nodes < 200) CHECK(sources.size() == nodes);
        if (nodes < 200) CHECK(destinations.size() == nodes);
    }
}

TEST_CASE("degrees are skewed: the top hundredth of the nodes has a large share of the edges") {
    const auto top_share = [](rmat_options options) {
        std::vector<std::size_t> degree(options.nodes);
        for (const edge& e : all_edges(options)) ++degree[e.source];
        std::ranges::sort(degree, std::greater{});
        double top = 0;
        for (std::size_t i = 0; i < options.nodes / 100; ++i) top += static_cast<double>(degree[i]);
        return top / static_cast<double>(options.edges);
    };
    const rmat_options graph500{.nodes = 10000, .edges = 160000, .seed = 1};
    CHECK(top_share(graph500) > .15);
    rmat_options uniform = graph500;
    uniform.a = uniform.b = uniform.c = .25;
    CHECK(top_share(uniform) < .03);
}

TEST_CASE("noise changes the levels but neither their mean nor the range") {
    const rmat_options plain{.nodes = 1 << 12, .edges = 50000, .seed = 5};
    rmat_options noisy = plain;
    noisy.noise = .1;
    CHECK(all_edges(plain) != all_edges(noisy));
    double low = 0;
    constexpr int graphs = 200, edges = 500;
    for (std::uint64_t seed = 0; seed < graphs; ++seed) {
        noisy.seed = seed;
        noisy.edges = edges;
        for (const edge& e : all_edges(noisy)) low += e.source < 1 << 11 && e.destination < 1 << 11;
    }
    // One shift per graph, of standard deviation 0.1/√3 · 2a/(a+d): five sigma of the mean of the graphs.
    const double sigma = std::sqrt((.106 * .106 + .25 / edges) / graphs);
    CHECK(std::abs(low / (graphs * edges) - .57) < 5 * sigma);
}

TEST_CASE("relations are uniform, or skewed towards the first") {
    rmat_options options{.nodes = 64, .edges = 50000, .relations = 7, .seed = 2};
    std::vector<double> count(7);
    for (const edge& e : all_edges(options)) ++count[e.relation];
    CHECK(chi_square(count, std::vector<double>(7, 1.0 / 7)) < 6 + 5 * std::sqrt(12.0));
    options.relation_skew = 1; // P(r) = √((r+1)/7) − √(r/7)
    std::ranges::fill(count, 0);
    std::vector<double> expected;
    for (int r = 0; r < 7; ++r) expected.push_back(std::sqrt((r + 1) / 7.0) - std::sqrt(r / 7.0));
    for (const edge& e : all_edges(options)) ++count[e.relation];
    CHECK(chi_square(count, expected) < 6 + 5 * std::sqrt(12.0));
}

TEST_CASE("an edge is a function of seed and number: chunks, threads and passes agree") {
    const rmat<> g({.nodes = 777, .edges = 30000, .relations = 3, .scramble = true, .seed = 8});
    CHECK(g.nodes() == 777);
    test::check_edges_are_functions_of_their_number(g, 1000);
    CHECK(rmat<>({.nodes = 777, .edges = 1, .relations = 3, .scramble = true, .seed = 9})(0) != g(0));
}

TEST_CASE("scrambling renames the nodes by a bijection") {
    rmat_options options{.nodes = 500, .edges = 20000, .seed = 4};
    const std::vector<edge> plain = all_edges(options);
    options.scramble = true;
    const std::vector<edge> scrambled = all_edges(options);
    std::vector<node_id> name(500, ~node_id{0});
    std::set<node_id> used;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        if (name[plain[i].source] == ~node_id{0}) {
            name[plain[i].source] = scrambled[i].source;
            CHECK(used.insert(scrambled[i].source).second);
        }
        CHECK(name[plain[i].source] == scrambled[i].source);
    }
}

TEST_CASE("64-bit ids reach beyond 32 bits") {
    const rmat<std::uint64_t> g({.nodes = (1ULL << 40) + 3, .edges = 1000, .a = .1, .b = .1, .c = .1, .seed = 1});
    std::uint64_t largest = 0;
    for (edge_index i = 0; i < 1000; ++i) {
        REQUIRE(g(i).source < g.nodes());
        largest = std::max(largest, g(i).source);
    }
    CHECK(largest > 1ULL << 39);
}

TEST_CASE("invalid options are refused by name") {
    const auto refused = [](rmat_options options) {
        try {
            (void)rmat<>(options);
        } catch (const error& e) {
            return e.place().field;
        }
        return std::string();
    };
    CHECK(refused({.nodes = 0}) == "nodes");
    CHECK(refused({.nodes = (1ULL << 32) + 1}) == "nodes");
    CHECK(refused({.nodes = 1ULL << 32}).empty());
    CHECK(refused({.nodes = 9, .relations = 0}) == "relations");
    CHECK(refused({.nodes = 9, .a = .6, .b = .3, .c = .2}) == "a, b, c");
    CHECK(refused({.nodes = 9, .a = -.1}) == "a, b, c");
    CHECK(refused({.nodes = 9, .a = std::nan("")}) == "a, b, c");
    CHECK(refused({.nodes = 9, .noise = .2}) == "noise");
}

} // namespace test_graph_generate_rmat
