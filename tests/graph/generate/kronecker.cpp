#include <gneiss/graph/generate/kronecker.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace test_graph_generate_kronecker {

using namespace gneiss;

namespace {

/// A graph A as a list of edges.
struct listed {
    using edge_type = edge;
    std::uint64_t count;
    std::vector<edge> list;

    [[nodiscard]] std::uint64_t nodes() const { return count; }
    [[nodiscard]] edge_index edges() const { return list.size(); }
    edge operator()(edge_index i) const { return list[i]; }
    void fill(edge_index first, std::span<edge> out) const {
        std::copy_n(list.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
    }
};

listed random_graph(std::uint64_t nodes, std::size_t edges, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user});
    listed graph{nodes, {}};
    for (std::size_t i = 0; i < edges; ++i)
        graph.list.push_back({static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(3)),
            static_cast<node_id>(draw.below(nodes))});
    return graph;
}

} // namespace

TEST_CASE("a Kronecker product equals the product of the adjacency matrices") {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
        const listed a = random_graph(7 + seed, 30, seed);
        const seed_graph b = random_seed_graph(2 + seed, default_seed_edges(2 + seed), seed);
        const kronecker_product product(a, b);
        std::vector<edge> expected;
        for (const edge& e : a.list)
            for (const edge& f : b.edges)
                expected.push_back(
                    {e.source * b.nodes + f.source, e.relation, e.destination * b.nodes + f.destination});
        REQUIRE(product.edges() == expected.size());
        CHECK(product.nodes() == a.count * b.nodes);
        std::vector<edge> got(product.edges());
        product.fill(0, got);
        CHECK(got == expected);
        for (edge_index first = 0; first < product.edges();
            first += 7) { // any range of edges equals that range of the product
            std::vector<edge> some(std::min<std::size_t>(1 + first % 50, product.edges() - first));
            product.fill(first, some);
            CHECK(std::equal(some.begin(), some.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)));
            CHECK(product(first) == expected[first]);
        }
    }
}

TEST_CASE("long ranges equal single edges, and degrees multiply") {
    const rmat<> a({.nodes = 300, .edges = 2000, .seed = 3});
    const seed_graph b = random_seed_graph(5, 13, 1);
    const kronecker_product product(a, b);
    std::vector<std::uint64_t> of_a(300), of_b(5), of_product(1500);
    for (edge_index i = 0; i < a.edges(); ++i) ++of_a[a(i).source];
    for (const edge& e : b.edges) ++of_b[e.source];
    generated_edges<kronecker_product<rmat<>>> stream(product, 10007);
    edge_index at = 0;
    bool equal = true;
    for (auto edges = stream.next(); !edges.empty(); edges = stream.next())
        for (const edge& e : edges) {
            equal = equal && e == product(at++);
            ++of_product[e.source];
        }
    CHECK(equal);
    CHECK(at == 26000);
    for (std::size_t v = 0; v < 300; ++v)
        for (std::size_t w = 0; w < 5; ++w) REQUIRE(of_product[v * 5 + w] == of_a[v] * of_b[w]);
}

TEST_CASE(
    "a seed graph has exactly the requested edges, distinct and in both directions, is connected and has a loop") {
    const auto check = [](std::uint64_t nodes, std::uint64_t edges, std::uint64_t seed) {
        CAPTURE(nodes);
        CAPTURE(edges);
        const seed_graph g = random_seed_graph(nodes, edges, seed);
        REQUIRE(g.nodes == nodes);
        REQUIRE(g.edges.size() == edges);
        CHECK(std::ranges::is_sorted(g.edges));
        std::set<std::pair<node_id, node_id>> pairs;
        for (const edge& e : g.edges) {
            REQUIRE(std::max(e.source, e.destination) < nodes);
            CHECK(e.relation == 0);
            pairs.emplace(e.source, e.destination);
        }
        CHECK(pairs.size() == edges);
        std::vector<node_id> reached{0};
        std::set<node_id> seen{0};
        bool symmetric = true, loop = false;
        for (const auto& [u, v] : pairs) {
            symmetric = symmetric && pairs.contains({v, u});
            loop = loop || u == v;
        }
        for (std::size_t i = 0; i < reached.size(); ++i)
            for (const auto& [u, v] : pairs)
                if (u == reached[i] && seen.insert(v).second) reached.push_back(v);
        CHECK(symmetric);
        CHECK(loop);
        CHECK(reached.size() == nodes);
    };
    for (std::uint64_t nodes = 2; nodes <= 6; ++nodes)
        for (std::uint64_t edges = 2 * nodes - 1; edges <= nodes * nodes; ++edges) check(nodes, edges, edges);
    check(90, 327, 1);
    check(90, default_seed_edges(90), 2);
    CHECK(default_seed_edges(4) == 9); // 8.8 in the paper
    CHECK(default_seed_edges(2) == 4);
    CHECK(random_seed_graph(30, 80, 5).edges == random_seed_graph(30, 80, 5).edges);
    CHECK(random_seed_graph(30, 80, 5).edges != random_seed_graph(30, 80, 6).edges);
}

TEST_CASE("an impossible product is refused") {
    CHECK_THROWS_WITH_AS((void)random_seed_graph(1, 1, 0), doctest::Contains("factor"), error);
    CHECK_THROWS_WITH_AS((void)random_seed_graph(5000, 20000, 0), doctest::Contains("4096"), error);
    CHECK_THROWS_WITH_AS((void)random_seed_graph(4, 6, 0), doctest::Contains("from 7 to 16"), error);
    CHECK_THROWS_WITH_AS((void)random_seed_graph(4, 17, 0), doctest::Contains("from 7 to 16"), error);
    const seed_graph b = random_seed_graph(16, 40, 0);
    CHECK_THROWS_WITH_AS(kronecker_product(listed{1U << 29, {}}, b), doctest::Contains("32 bits"), error);
    CHECK_THROWS_AS(kronecker_product(listed{3, {}}, seed_graph{}), error);
    CHECK_THROWS_WITH_AS(
        kronecker_product(rmat<>({.nodes = 9, .edges = ~edge_index{0}}), b), doctest::Contains("64 bits"), error);
    CHECK(kronecker_product(listed{3, {}}, b).edges() == 0);
}

} // namespace test_graph_generate_kronecker
