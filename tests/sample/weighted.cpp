#include <gneiss/sample/weighted.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <sample/graphs.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_sample_weighted {

using namespace gneiss;

namespace {

/// Returns edges from 1 … 5 to node 0; the weight of an edge is its id.
csr_graph<> star() {
    return test::whole_graph(6, std::vector<edge>{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {4, 0, 0}, {5, 0, 0}});
}

/// Counts how often each node is drawn as the one neighbor of node 0, in `batches` batches.
template <class Sampler>
std::vector<double> drawn(Sampler sampler, std::uint64_t batches) {
    const csr_graph<> graph = star();
    std::vector<double> seen(6);
    mini_batch_arena arena;
    const std::vector<node_id> seeds{0};
    for (std::uint64_t b = 0; b < batches; ++b) {
        const auto sample = sampler.sample({0, {0, 0, b}}, graph, std::span(seeds), serial_executor{}, arena);
        REQUIRE(sample.edges() == 1);
        layer_stack layers;
        layers.assign(sample, serial_executor{});
        const auto nodes = [&] {
            if constexpr (requires { sample.node_ids; })
                return sample.node_ids;
            else
                return sample.nodes;
        }();
        ++seen[nodes[layers[0].neighbors[0]]];
    }
    return seen;
}

} // namespace

TEST_CASE("edges are drawn in proportion to their weights, by chi-square, by either sampler") {
    const neighbor_options options{parse_fanout("1")};
    const auto weight = [](edge_index id) {
        return static_cast<float>(id);
    }; // 0 … 5, of edges that the graph numbers by source
    const auto check = [&](auto sampler) {
        constexpr double batches = 6000;
        const auto seen = drawn(weighted(std::move(sampler), weight), static_cast<std::uint64_t>(batches));
        CHECK(seen[0] == 0);
        double chi = 0;
        for (std::size_t v = 1; v < 6; ++v) {
            const double expected = batches * static_cast<double>(v) / 15;
            chi += (seen[v] - expected) * (seen[v] - expected) / expected;
        }
        CHECK(std::abs(chi - 4) < 5 * std::sqrt(8.0));
    };
    check(neighbor_sampler<>(options, 3));
    check(dense_sampler<>(options, 3));
}

TEST_CASE("a weight that dominates the others is always drawn, and an invalid weight is refused") {
    const neighbor_options options{parse_fanout("1")};
    const auto seen =
        drawn(weighted(neighbor_sampler<>(options, 3), [](edge_index id) { return id == 4 ? 1e30 : 1e-30; }), 300);
    CHECK(seen[4] == 300);
    for (const float wrong : {-1.F, INFINITY, NAN})
        CHECK_THROWS_AS(
            (void)drawn(weighted(neighbor_sampler<>(options, 3), [wrong](edge_index) { return wrong; }), 1), error);
}

} // namespace test_sample_weighted
