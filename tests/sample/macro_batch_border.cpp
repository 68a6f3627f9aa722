// Covers gneiss/sample/macro_batch_border.hpp.
#include <gneiss/sample/macro_batch_border.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_sample_macro_batch_border {

using namespace gneiss;

namespace {

csr_graph<> graph() {
    random_stream draw(random_key{3, random_domain::user});
    std::vector<edge> edges(900);
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(120)), 0, static_cast<node_id>(draw.below(120))};
    return {
        csr<>::from_edges(120, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{}};
}

} // namespace

TEST_CASE("nodes inside keep their whole lists, the halo is reached and never expanded") {
    const csr_graph<> of = graph();
    std::vector<bool> inside(120);
    std::vector<node_id> seeds;
    for (node_id v = 0; v < 120; ++v) inside[v] = v % 3 == 0;
    for (node_id v = 0; v < 120; v += 15) seeds.push_back(v);
    const bordered_graph macro(of, inside);
    mini_batch_arena arena, whole_arena;
    neighbor_sampler<> sampler({.fanout = parse_fanout("4,all,3")}, 5), whole({.fanout = parse_fanout("all")}, 5);
    const neighbor_sample<> drawn = sampler.sample({}, macro, seeds, serial_executor{}, arena);
    REQUIRE(drawn.hops() == 3);
    bool reached_halo = false;
    std::size_t first = 0;
    for (std::size_t h = 0; h < 3; ++h) {
        for (std::size_t v = 0; v < drawn.node_counts[h]; ++v) {
            const std::size_t begin = drawn.edge_counts[h] + drawn.offsets[first + v],
                              end = drawn.edge_counts[h] + drawn.offsets[first + v + 1];
            const std::vector<node_id> one{drawn.nodes[v]};
            const neighbor_sample<> list = whole.sample({}, of, one, serial_executor{}, whole_arena);
            std::multiset<node_id> all;
            for (const std::uint32_t u : list.neighbors) all.insert(list.nodes[u]);
            const std::size_t most = h == 0 ? 4 : h == 1 ? all.size() : 3;
            CHECK(end - begin == (inside[one[0]] ? std::min(all.size(), most) : 0));
            for (std::size_t e = begin; e < end; ++e) {
                CHECK(all.contains(drawn.nodes[drawn.neighbors[e]]));
                reached_halo = reached_halo || macro.outside(drawn.nodes[drawn.neighbors[e]]);
            }
        }
        first += drawn.node_counts[h] + 1;
    }
    CHECK(reached_halo);
}

TEST_CASE("a macro-batch of all partitions has no border: samples are those of the graph") {
    const csr_graph<> of = graph();
    const std::vector<bool> inside(120, true);
    const bordered_graph macro(of, inside);
    const std::vector<node_id> seeds{3, 14, 15, 92};
    mini_batch_arena a, b;
    neighbor_sampler<> sampler({.fanout = parse_fanout("5,4")}, 9);
    const neighbor_sample<> drawn = sampler.sample({}, macro, seeds, serial_executor{}, a),
                            expected = sampler.sample({}, of, seeds, serial_executor{}, b);
    CHECK(std::ranges::equal(drawn.nodes, expected.nodes));
    CHECK(std::ranges::equal(drawn.neighbors, expected.neighbors));
    CHECK(std::ranges::equal(drawn.offsets, expected.offsets));
}

} // namespace test_sample_macro_batch_border
