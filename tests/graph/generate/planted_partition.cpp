#include <gneiss/graph/generate/planted_partition.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <support/generated_graph.hpp>

namespace test_graph_generate_planted_partition {

using namespace gneiss;
using test::all_edges;

namespace {

std::vector<std::uint32_t> all_labels(const planted_partition<>& g) {
    std::vector<std::uint32_t> labels(g.nodes());
    for (std::uint64_t v = 0; v < g.nodes(); ++v) labels[v] = g.label(v);
    return labels;
}

/// Returns the fraction of nodes whose nearest centroid is their own: an upper bound for any linear model.
double nearest_centroid_accuracy(const planted_partition<>& g, const std::vector<std::uint32_t>& labels,
    const std::vector<float>& rows, std::size_t dim) {
    std::vector<float> centroids(g.classes() * dim);
    for (std::uint32_t c = 0; c < g.classes(); ++c) g.centroid(c, std::span(centroids).subspan(c * dim, dim));
    std::size_t right = 0;
    for (std::size_t v = 0; v < labels.size(); ++v) {
        const auto distance = [&](std::uint32_t c) {
            float sum = 0;
            for (std::size_t d = 0; d < dim; ++d) {
                const float gap = rows[v * dim + d] - centroids[c * dim + d];
                sum += gap * gap;
            }
            return sum;
        };
        std::uint32_t best = 0;
        for (std::uint32_t c = 1; c < g.classes(); ++c)
            if (distance(c) < distance(best)) best = c;
        right += best == labels[v];
    }
    return static_cast<double>(right) / static_cast<double>(labels.size());
}

} // namespace

TEST_CASE(
    "the fraction of edges between communities equals the mixing, and they reach the others in proportion to size") {
    for (const double mixing : {0.0, .1, .5, 1.0}) {
        const planted_partition<> g(
            {.nodes = 5000, .edges = 100000, .communities = 10, .mixing = mixing, .size_skew = .5, .seed = 2});
        const std::vector<std::uint32_t> labels = all_labels(g);
        std::vector<double> size(10), between(100);
        for (const std::uint32_t l : labels) ++size[l];
        double outside = 0;
        for (const edge& e : all_edges(g)) {
            outside += labels[e.source] != labels[e.destination];
            ++between[labels[e.source] * 10 + labels[e.destination]];
        }
        CHECK(std::abs(outside / 100000 - mixing) <= 5 * std::sqrt(mixing * (1 - mixing) / 100000));
        double chi = 0, freedom = -1;
        for (std::size_t a = 0; a < 10; ++a)
            for (std::size_t b = 0; b < 10; ++b) {
                const double there = a == b ? 1 - mixing : mixing * size[b] / (5000 - size[a]);
                const double expected = 100000 * size[a] / 5000 * there;
                if (expected == 0) continue;
                chi += (between[a * 10 + b] - expected) * (between[a * 10 + b] - expected) / expected;
                ++freedom;
            }
        CHECK(chi < freedom + 5 * std::sqrt(2 * freedom));
    }
}

TEST_CASE("communities have equal sizes without skew, and follow their power law with it") {
    const planted_partition<> even({.nodes = 1003, .communities = 10, .seed = 1});
    std::vector<int> size(10);
    for (const std::uint32_t l : all_labels(even)) ++size[l];
    CHECK(*std::ranges::max_element(size) - *std::ranges::min_element(size) <= 2);

    const planted_partition<> skewed({.nodes = 100000, .communities = 4, .size_skew = 1, .seed = 1});
    std::vector<double> share(4);
    for (const std::uint32_t l : all_labels(skewed)) share[l] += 1e-5;
    for (std::uint32_t c = 0; c < 4; ++c) CHECK(share[c] * (c + 1.0) == doctest::Approx(12.0 / 25).epsilon(1e-3));
}

TEST_CASE("degrees follow the power law: hubs have the given multiple of the mean, the tail the given exponent") {
    const planted_partition<> g(
        {.nodes = 20000, .edges = 1000000, .communities = 5, .degree_exponent = 2.5, .hub_factor = 40, .seed = 3});
    std::vector<double> degree(g.nodes());
    for (const edge& e : all_edges(g)) ++degree[e.source], ++degree[e.destination];
    std::ranges::sort(degree, std::greater{});
    CHECK(degree[0] / 100 > 30);
    CHECK(degree[0] / 100 < 45);
    // Complementary distribution ~ degree^−(exponent − 1): between the nodes of rank 200 and 4000.
    const double slope = std::log(4000.0 / 200) / std::log(degree[200] / degree[4000]);
    CHECK(slope > 1.3);
    CHECK(slope < 1.8);
}

TEST_CASE("with exponent 0 all nodes of a community are equally likely, by chi-square") {
    const planted_partition<> g({.nodes = 1000, .edges = 100000, .communities = 4, .degree_exponent = 0, .seed = 4});
    std::vector<double> degree(1000);
    for (const edge& e : all_edges(g)) ++degree[e.source];
    double chi = 0;
    for (const double d : degree) chi += (d - 100) * (d - 100) / 100;
    CHECK(std::abs(chi - 999) < 5 * std::sqrt(2 * 999.0));
}

TEST_CASE("a self loop occurs only in a community of a single node") {
    for (const std::uint64_t nodes : {20ULL, 21ULL, 50ULL}) {
        const planted_partition<> g({.nodes = nodes, .edges = 20000, .communities = 10, .seed = nodes});
        for (const edge& e : all_edges(g)) {
            REQUIRE(e.source < nodes);
            REQUIRE(e.destination < nodes);
            CHECK(e.source != e.destination);
        }
    }
    const planted_partition<> alone({.nodes = 1, .edges = 5, .communities = 1, .mixing = 0});
    CHECK(alone(3) == edge{0, 0, 0});
}

TEST_CASE("several communities share a class, and edges stay in the community") {
    const planted_partition<> g(
        {.nodes = 2000, .edges = 40000, .communities = 40, .classes = 5, .mixing = .1, .seed = 8});
    CHECK(g.classes() == 5);
    for (std::uint64_t v = 0; v < g.nodes(); ++v) REQUIRE(g.label(v) == g.community(v) % 5);
    std::uint64_t inside = 0;
    for (edge_index i = 0; i < g.edges(); ++i)
        inside += g.community(g(i).source) == g.community(g(i).destination) ? 1 : 0;
    CHECK(static_cast<double>(inside) / 40000 == doctest::Approx(.9).epsilon(.02));
}

TEST_CASE("the relation of an edge is a function of the communities it joins") {
    const planted_partition<> g({.nodes = 3000, .edges = 50000, .communities = 8, .relations = 12, .seed = 6});
    const std::vector<std::uint32_t> labels = all_labels(g);
    std::vector<relation_id> relation(64, ~relation_id{0});
    std::vector<bool> used(12);
    for (const edge& e : all_edges(g)) {
        relation_id& known = relation[labels[e.source] * 8 + labels[e.destination]];
        if (known == ~relation_id{0}) known = e.relation;
        REQUIRE(known == e.relation);
        used[e.relation] = true;
    }
    CHECK(std::ranges::count(used, true) > 9);
}

TEST_CASE("edges are functions of seed and number: chunks, threads and passes agree") {
    const planted_partition<> g({.nodes = 70000, .edges = 30000, .relations = 3, .seed = 8});
    test::check_edges_are_functions_of_their_number(g, 999);
    const planted_partition<> other({.nodes = 70000, .edges = 30000, .relations = 3, .seed = 9});
    CHECK(all_edges(other) != all_edges(g));
    CHECK(all_labels(other) != all_labels(g));
}

TEST_CASE("features have unit noise around the centroid, and centroids have the length of the signal") {
    constexpr std::size_t dim = 64;
    const planted_partition<> g({.nodes = 2000, .communities = 5, .feature_signal = 3, .seed = 5});
    double sum = 0, squares = 0, fourth = 0, length = 0;
    std::vector<float> row(dim), center(dim), again(dim);
    for (std::uint64_t v = 0; v < g.nodes(); ++v) {
        g.features(v, row);
        g.features(v, again);
        REQUIRE(row == again);
        g.centroid(g.label(v), center);
        for (std::size_t d = 0; d < dim; ++d) {
            const double noise = row[d] - center[d];
            sum += noise;
            squares += noise * noise;
            fourth += noise * noise * noise * noise;
        }
    }
    constexpr double count = 2000.0 * dim;
    CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
    CHECK(squares / count == doctest::Approx(1).epsilon(.02));
    CHECK(fourth / count == doctest::Approx(2.7).epsilon(.03)); // kurtosis of the sum of four uniforms; 3 for a normal
    for (std::uint32_t c = 0; c < 5; ++c) {
        g.centroid(c, center);
        length += std::inner_product(center.begin(), center.end(), center.begin(), 0.0) / 5;
    }
    CHECK(std::sqrt(length) == doctest::Approx(3).epsilon(.25));
}

TEST_CASE("the neighborhood predicts the class far better than the node alone") {
    constexpr std::size_t dim = 32;
    const planted_partition<> g({.nodes = 4000, .edges = 40000, .communities = 8, .mixing = .2, .seed = 7});
    const std::vector<std::uint32_t> labels = all_labels(g);
    std::vector<float> own(g.nodes() * dim), mean;
    for (std::uint64_t v = 0; v < g.nodes(); ++v) g.features(v, std::span(own).subspan(v * dim, dim));
    mean = own;
    std::vector<float> count(g.nodes(), 1);
    for (const edge& e : all_edges(g))
        for (const auto& [to, from] : {std::pair(e.source, e.destination), std::pair(e.destination, e.source)}) {
            for (std::size_t d = 0; d < dim; ++d) mean[to * dim + d] += own[from * dim + d];
            ++count[to];
        }
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] /= count[i / dim];
    const double linear = nearest_centroid_accuracy(g, labels, own, dim);
    const double graph = nearest_centroid_accuracy(g, labels, mean, dim);
    CHECK(linear > .25); // chance is 0.125
    CHECK(linear < .6);
    CHECK(graph > linear + .2);
}

TEST_CASE("invalid options are refused by name") {
    const auto refused = [](planted_partition_options options) {
        try {
            (void)planted_partition<>(options);
        } catch (const error& e) {
            return e.place().field;
        }
        return std::string();
    };
    CHECK(refused({.nodes = 100}).empty());
    CHECK(refused({.nodes = 0}) == "nodes");
    CHECK(refused({.nodes = 1ULL << 33}) == "nodes");
    CHECK(refused({.nodes = 9, .communities = 10}) == "communities");
    CHECK(refused({.nodes = 9, .communities = 0}) == "communities");
    CHECK(refused({.nodes = 9, .communities = 3, .classes = 4}) == "classes");
    CHECK(refused({.nodes = 99, .mixing = 1.5}) == "mixing");
    CHECK(refused({.nodes = 99, .communities = 1}) == "mixing");
    CHECK(refused({.nodes = 99, .degree_exponent = 2}) == "degree_exponent");
    CHECK(refused({.nodes = 99, .hub_factor = 1}) == "hub_factor");
    CHECK(refused({.nodes = 99, .relations = 0}) == "relations");
    CHECK(refused({.nodes = 99, .feature_signal = std::nan("")}) == "feature_signal");
}

} // namespace test_graph_generate_planted_partition
