#include <gneiss/partition/multilevel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include "graphs.hpp"

namespace test_partition_multilevel {

using namespace gneiss;

namespace {

const serial_executor executor;

std::vector<partition_id16> cut(const weighted_graph& graph, const multilevel_options& options) {
    std::vector<partition_id16> parts = multilevel_partition(graph, options, executor);
    check_assignment(parts, options.parts, graph.nodes());
    return parts;
}

bool keeps_caps(const weighted_graph& graph, std::span<const partition_id16> parts, const multilevel_options& options) {
    const std::vector<std::uint64_t> weights = part_weights(graph, parts, options.parts);
    const std::uint64_t cap = max_weight(graph.total_node_weight(), options.parts, options.imbalance);
    for (std::uint32_t p = 0; p < options.parts; ++p)
        if (weights[p] > (options.max_weights.empty() ? cap : options.max_weights[p])) return false;
    return true;
}

/// Returns the least cut over all bisections. Precondition: fewer than 20 nodes.
std::uint64_t least_cut(const weighted_graph& graph, std::uint64_t cap) {
    const std::uint64_t total = graph.total_node_weight();
    std::uint64_t least = ~std::uint64_t{0};
    std::vector<partition_id16> parts(graph.nodes());
    for (std::uint32_t set = 0; set < std::uint32_t{1} << (graph.nodes() - 1); ++set) {
        std::uint64_t weight = 0;
        for (node_id v = 0; v < graph.nodes(); ++v) {
            parts[v] = (set >> v) & 1;
            weight += parts[v] != 0 ? graph.weight(v) : 0;
        }
        if (weight <= cap && total - weight <= cap) least = std::min(least, edge_cut(graph, parts));
    }
    return least;
}

/// Returns nodes of weight 1 in rings of `size`, with some edges between rings.
weighted_graph communities(node_id rings, node_id size, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user}.with(3));
    test::edge_map edges;
    const auto join = [&](node_id a, node_id b) {
        if (a != b) edges[{std::min(a, b), std::max(a, b)}] = 1;
    };
    for (node_id r = 0; r < rings; ++r)
        for (node_id i = 0; i < size; ++i)
            for (int times = 0; times < 4; ++times)
                join(r * size + i, r * size + static_cast<node_id>(draw.below(size)));
    for (node_id i = 0; i < rings * size / 2; ++i)
        join(static_cast<node_id>(draw.below(rings * size)), static_cast<node_id>(draw.below(rings * size)));
    return test::weighted(rings * size, edges);
}

TEST_CASE("no part exceeds its cap, for random node weights, numbers of parts, slack and effort") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        random_stream draw(random_key{seed, random_domain::user}.with(4));
        const auto nodes = static_cast<node_id>(2 + draw.below(seed % 10 == 0 ? 5000 : 300));
        const std::uint64_t heaviest = seed % 3 == 0 ? 1 : 4;
        const weighted_graph graph =
            test::weighted(nodes, test::random_edges(nodes, 4 * nodes, 20, seed), heaviest, seed);
        multilevel_options options{.parts = static_cast<std::uint32_t>(1 + draw.below(40)), .seed = seed};
        options.imbalance = heaviest == 1 ? std::array{0., .03, .5}[seed / 3 % 3] : .05;
        options.effort = static_cast<multilevel_effort>(draw.below(3));
        if (heaviest > 1) // space for one node above the mean: packing cannot fail
            options.max_weights.assign(
                options.parts, max_weight(graph.total_node_weight(), options.parts, .03) + heaviest);
        CAPTURE(seed);
        CHECK(keeps_caps(graph, cut(graph, options), options));
    }
}

TEST_CASE("a stop ends the run at the next level") {
    const weighted_graph graph = test::weighted(5000, test::random_edges(5000, 20000, 3, 1));
    std::stop_source stop;
    stop.request_stop();
    try {
        (void)cut(graph, {.parts = 4, .stop = stop.get_token()});
        FAIL("not stopped");
    } catch (const error& e) {
        CHECK(e.code() == errc::canceled);
    }
}

TEST_CASE("parts may have different caps") {
    const weighted_graph graph = test::weighted(900, test::random_edges(900, 5000, 3, 1));
    const multilevel_options options{.parts = 4, .max_weights = {500, 10, 200, 190}};
    CHECK(keeps_caps(graph, cut(graph, options), options));
}

TEST_CASE("two cliques joined by one edge are separated at that edge") {
    for (const node_id size : {3U, 10U, 60U})
        CHECK(edge_cut(test::weighted(2 * size, test::two_cliques(size)),
                  cut(test::weighted(2 * size, test::two_cliques(size)), {.parts = 2})) == 1);
}

TEST_CASE("a path is cut into k pieces by k − 1 edges") {
    const weighted_graph path = test::weighted(240, test::grid(240, 1));
    for (const std::uint32_t k : {2U, 3U, 5U, 8U}) {
        CAPTURE(k);
        CHECK(edge_cut(path, cut(path, {.parts = k, .imbalance = .1})) == k - 1);
    }
}

TEST_CASE("a strip of a grid is cut across its width") {
    const weighted_graph strip = test::weighted(800, test::grid(100, 8));
    CHECK(edge_cut(strip, cut(strip, {.parts = 2})) == 8);
    CHECK(edge_cut(strip, cut(strip, {.parts = 4})) <= 26);
}

TEST_CASE("cuts of small graphs are optimal, or nearly") {
    double sum = 0, least = 0;
    std::size_t equal = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        const weighted_graph graph = test::weighted(14, test::random_edges(14, 34, 5, seed), 1 + seed % 3, seed);
        const std::uint64_t cap = max_weight(graph.total_node_weight(), 2, .2);
        const std::uint64_t result = edge_cut(graph, cut(graph, {.parts = 2, .imbalance = .2, .seed = seed}));
        const std::uint64_t best = least_cut(graph, cap);
        CHECK(result >= best);
        sum += static_cast<double>(result);
        least += static_cast<double>(best);
        equal += result == best;
    }
    CHECK(sum <= 1.05 * least);
    CHECK(equal >= 30);
}

TEST_CASE("communities are found: only edges between them are cut") {
    const weighted_graph graph = communities(16, 400, 5);
    std::vector<partition_id16> planted(graph.nodes());
    for (std::size_t v = 0; v < planted.size(); ++v) planted[v] = static_cast<partition_id16>(v / 1600);
    const std::vector<partition_id16> found = cut(graph, {.parts = 4});
    CHECK(static_cast<double>(edge_cut(graph, found)) <= 1.03 * static_cast<double>(edge_cut(graph, planted)));
}

TEST_CASE("the result is the same at any number of threads, and different for another seed") {
    const weighted_graph graph = communities(20, 300, 6);
    for (const multilevel_effort effort : {multilevel_effort::fast, multilevel_effort::high}) {
        const multilevel_options options{.parts = 9, .effort = effort};
        const std::vector<partition_id16> parts = cut(graph, options);
        CHECK(multilevel_partition(graph, options, tbb_executor(1)) == parts);
        CHECK(multilevel_partition(graph, options, tbb_executor(4)) == parts);
    }
    CHECK(cut(graph, {.parts = 9}) != cut(graph, {.parts = 9, .seed = 1}));
}

TEST_CASE("degenerate graphs are partitioned") {
    CHECK(cut({}, {.parts = 3}).empty());
    const auto balanced = [](const weighted_graph& graph, std::uint32_t k) {
        const multilevel_options options{.parts = k, .imbalance = 0};
        CHECK(keeps_caps(graph, cut(graph, options), options));
    };
    balanced(test::weighted(1, {}), 5);
    balanced(test::weighted(5000, {}), 7);                // no edge
    balanced(test::weighted(3, test::two_cliques(1)), 8); // more parts than nodes
    test::edge_map star, clique;
    for (node_id v = 1; v < 5000; ++v) star[{0, v}] = 1;
    for (node_id a = 0; a < 60; ++a)
        for (node_id b = a + 1; b < 60; ++b) clique[{a, b}] = 1;
    balanced(test::weighted(5000, star), 16);
    balanced(test::weighted(60, clique), 7);
    CHECK(edge_cut(test::weighted(60, clique), cut(test::weighted(60, clique), {.parts = 2, .imbalance = 0})) == 900);
    CHECK_THROWS_AS(cut({}, {.parts = 0}), error);
    CHECK_THROWS_AS(cut({}, {.parts = max_partition_count + 1}), error);
    CHECK_THROWS_AS(cut({}, {.parts = 2, .max_weights = {1}}), error);
    CHECK_THROWS_AS(cut({}, {.parts = 2, .imbalance = -1}), error);
}

TEST_CASE("a node heavier than every cap is refused") {
    weighted_graph graph = test::weighted(100, test::random_edges(100, 400, 1, 3));
    graph.node_weights[17] = 1000;
    const multilevel_options options{.parts = 4}; // a cap of 283
    const std::vector<partition_id16> parts = cut(graph, options);
    const std::vector<std::uint64_t> weights = part_weights(graph, parts, 4);
    CHECK(weights[parts[17]] == 1000);
    CHECK(std::ranges::count_if(weights, [](std::uint64_t w) { return w > 283; }) == 1);
}

TEST_CASE("the maximum number of parts works on a graph of that many nodes") {
    const weighted_graph graph = test::weighted(4096, test::grid(64, 64));
    const multilevel_options options{.parts = 1024, .imbalance = 0};
    const std::vector<partition_id16> parts = cut(graph, options);
    CHECK(keeps_caps(graph, parts, options));
    CHECK(edge_cut(graph, parts) <= 5200); // squares of 4 nodes leave 3968 of 8064
}

TEST_CASE("refinement repairs parts that are too heavy, and otherwise never increases the cut") {
    const weighted_graph graph = communities(12, 200, 7);
    for (const multilevel_effort effort :
        {multilevel_effort::fast, multilevel_effort::normal, multilevel_effort::high}) {
        const multilevel_options options{.parts = 6, .effort = effort};
        std::vector<partition_id16> parts(graph.nodes(), 2); // all in one
        multilevel_refine(graph, parts, options, executor);
        CHECK(keeps_caps(graph, parts, options));
        const std::uint64_t before = edge_cut(graph, parts);
        multilevel_refine(graph, parts, options, executor);
        CHECK(keeps_caps(graph, parts, options));
        CHECK(edge_cut(graph, parts) <= before);
    }
    std::vector<partition_id16> wrong(graph.nodes(), 6);
    CHECK_THROWS_AS(multilevel_refine(graph, wrong, {.parts = 6}, executor), error);
}

} // namespace

} // namespace test_partition_multilevel
