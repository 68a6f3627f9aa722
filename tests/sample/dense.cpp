#include <gneiss/sample/dense.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sample/graphs.hpp>
#include <sample/statistics.hpp>
#include <support/error_code.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace test_sample_dense {

using namespace gneiss;

namespace {

const serial_executor serial;

/// The arrays as in the paper's listings, with copies.
struct plain_dense {
    std::vector<std::uint32_t> node_id_offsets, nbr_offsets, repr_map;
    std::vector<std::uint64_t> node_ids, nbrs;

    /// Algorithm 2.
    void advance() {
        const std::uint32_t gone_nodes = node_id_offsets[1], next = node_id_offsets[2] - node_id_offsets[1];
        const std::uint32_t gone_edges = nbr_offsets[next];
        nbrs.erase(nbrs.begin(), nbrs.begin() + gone_edges);
        repr_map.erase(repr_map.begin(), repr_map.begin() + gone_edges);
        for (std::uint32_t& row : repr_map) row -= gone_nodes;
        nbr_offsets.erase(nbr_offsets.begin(), nbr_offsets.begin() + next);
        for (std::uint32_t& offset : nbr_offsets) offset -= gone_edges;
        node_ids.erase(node_ids.begin(), node_ids.begin() + gone_nodes);
        node_id_offsets.erase(node_id_offsets.begin());
        for (std::uint32_t& offset : node_id_offsets) offset -= gone_nodes;
    }
};

/// Algorithm 1 given the neighbors that the sample drew: the expected arrays.
template <node_id_type NodeId>
plain_dense algorithm_1(const dense_sample<NodeId>& drawn, const std::vector<NodeId>& seeds) {
    std::map<NodeId, std::vector<NodeId>> sampled; // one-hop sample of each node that has one
    for (std::size_t v = drawn.node_id_offsets[1]; v < drawn.node_ids.size(); ++v) {
        const std::size_t i = v - drawn.node_id_offsets[1];
        sampled[drawn.node_ids[v]] = {
            drawn.nbrs.begin() + drawn.nbr_offsets[i], drawn.nbrs.begin() + drawn.nbr_offsets[i + 1]};
    }
    plain_dense result;
    result.node_ids.assign(seeds.begin(), seeds.end());
    result.node_id_offsets = {0, static_cast<std::uint32_t>(seeds.size())};
    result.nbr_offsets = {0};
    std::vector<std::uint64_t> delta = result.node_ids;
    for (std::size_t hop = 0; hop < drawn.hops(); ++hop) {
        std::vector<std::uint64_t> nbrs, next;
        std::vector<std::uint32_t> offsets;
        for (const std::uint64_t v : delta) {
            offsets.push_back(static_cast<std::uint32_t>(nbrs.size()));
            for (const NodeId u : sampled.at(static_cast<NodeId>(v))) nbrs.push_back(u);
        }
        for (std::uint32_t& offset : result.nbr_offsets) offset += static_cast<std::uint32_t>(nbrs.size());
        result.nbr_offsets.insert(result.nbr_offsets.begin(), offsets.begin(), offsets.end());
        result.nbrs.insert(result.nbrs.begin(), nbrs.begin(), nbrs.end());
        for (const std::uint64_t u : nbrs)
            if (std::ranges::find(result.node_ids, u) == result.node_ids.end() &&
                std::ranges::find(next, u) == next.end())
                next.push_back(u);
        for (std::uint32_t& offset : result.node_id_offsets) offset += static_cast<std::uint32_t>(next.size());
        result.node_id_offsets.insert(result.node_id_offsets.begin(), 0);
        result.node_ids.insert(result.node_ids.begin(), next.begin(), next.end());
        delta = next;
    }
    for (const std::uint64_t u : result.nbrs)
        result.repr_map.push_back(
            static_cast<std::uint32_t>(std::ranges::find(result.node_ids, u) - result.node_ids.begin()));
    return result;
}

} // namespace

TEST_CASE_TEMPLATE("the arrays equal those of Algorithm 1, and the layers those of Algorithm 2", NodeId, std::uint32_t,
    std::uint64_t) {
    mini_batch_arena arena;
    layer_stack layers;
    for (const std::uint64_t nodes : {1U, 10U, 150U}) {
        const auto edges = test::hub_edges<NodeId>(nodes, nodes * 5, nodes);
        const auto graph = test::whole_graph(nodes, edges);
        for (const char* fanout : {"3", "4,2,1", "all,2", "2+3,0+1,5"})
            for (const std::size_t count : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(nodes) / 3}) {
                CAPTURE(fanout);
                const auto hops = parse_fanout(fanout);
                dense_sampler<NodeId> sampler({hops, false, true, true}, 3);
                const auto seeds = test::some_nodes<NodeId>(nodes, count, count);
                const auto sample = sampler.sample({}, graph, std::span<const NodeId>(seeds), serial, arena);
                REQUIRE(sample.hops() == hops.size());
                CHECK(sample.seeds() == seeds.size());
                // Drawn edges belong to the graph, with the fan-out of the first hop that needs a node.
                for (std::size_t delta = 1; delta <= hops.size(); ++delta)
                    for (std::size_t v = sample.node_id_offsets[delta]; v < sample.node_id_offsets[delta + 1]; ++v) {
                        const hop_fanout& f = hops[hops.size() - delta];
                        const std::size_t i = v - sample.node_id_offsets[1];
                        const NodeId id = sample.node_ids[v];
                        std::uint32_t ins = graph.in().degree(id);
                        if (f.in != 0 && f.out != 0) // self loops are outgoing
                            ins -= static_cast<std::uint32_t>(std::ranges::count(graph.in().neighbors(id), id));
                        CHECK(sample.nbr_offsets[i + 1] - sample.nbr_offsets[i] ==
                            std::min(f.in, ins) + std::min(f.out, graph.out().degree(id)));
                        std::set<edge_index> distinct;
                        for (std::size_t e = sample.nbr_offsets[i]; e < sample.nbr_offsets[i + 1]; ++e) {
                            const auto& of = edges[static_cast<std::size_t>(sample.edge_ids[e])];
                            CHECK(test::joins(of, id, sample.nbrs[e], f.in != 0, f.out != 0));
                            CHECK(sample.relations[e] == of.relation);
                            if (f.in == 0 || f.out == 0) CHECK(distinct.insert(sample.edge_ids[e]).second);
                        }
                    }
                plain_dense expected = algorithm_1(sample, seeds);
                CHECK(std::ranges::equal(sample.node_id_offsets, expected.node_id_offsets));
                CHECK(std::ranges::equal(sample.node_ids, expected.node_ids));
                CHECK(std::ranges::equal(sample.nbr_offsets, expected.nbr_offsets));
                CHECK(std::ranges::equal(sample.nbrs, expected.nbrs));
                CHECK(std::ranges::equal(sample.repr_map, expected.repr_map));
                layers.assign(sample, serial);
                REQUIRE(layers.size() == hops.size());
                for (const layer_view& layer : layers) {
                    CHECK(layer.sources == expected.node_ids.size());
                    CHECK(layer.first_target == expected.node_id_offsets[1]);
                    CHECK(layer.targets == expected.node_ids.size() - expected.node_id_offsets[1]);
                    CHECK(std::ranges::equal(layer.offsets, expected.nbr_offsets));
                    CHECK(std::ranges::equal(layer.neighbors, expected.repr_map));
                    CHECK(layer.relations.size() == layer.edges());
                    expected.advance();
                }
                CHECK(expected.node_ids == std::vector<std::uint64_t>(seeds.begin(), seeds.end()));
            }
    }
}

TEST_CASE("hops below, at and above one request of the graph give the same arrays on 1, 2, 3 and 8 threads") {
    test::check_threads_around_a_request<dense_sampler<>>();
}

TEST_CASE("one and several threads give the same arrays") {
    const auto edges = test::hub_edges(30000, 200000, 1);
    const auto graph = test::whole_graph(30000, edges);
    const tbb_executor four(4);
    const auto seeds = test::some_nodes(30000, 800, 2);
    for (const char* fanout : {"10,10,10", "3+4,all"}) {
        dense_sampler<> first({parse_fanout(fanout), false, true, true}, 1), second(first.options(), 1);
        mini_batch_arena one, other;
        CHECK(first.sample({}, graph, seeds, serial, one).edges() > 10000);
        second.sample({0, {0, 0, 1}}, graph, seeds, four, other);
        CHECK((test::contents(one) != test::contents(other)));
        second.sample({}, graph, seeds, four, other);
        CHECK((test::contents(one) == test::contents(other)));
    }
}

TEST_CASE("neighbors are uniform over batches but reused within one: the documented bias") {
    // A hub 0 with in-neighbors 1 … 30, each of which has the hub as its only in-neighbor: with three hops the hub is
    // needed at the first and the third.
    constexpr std::uint32_t degree = 30, fanout = 5, batches = 3000;
    std::vector<edge> edges;
    for (std::uint32_t u = 1; u <= degree; ++u) {
        edges.push_back({u, 0, 0});
        edges.push_back({0, 0, u});
    }
    const auto graph = test::whole_graph(degree + 1, edges);
    const neighbor_options options{{{.in = fanout}, {.in = fanout}, {.in = fanout}}};
    dense_sampler<> dense(options, 2);
    neighbor_sampler<> layered(options, 2);
    mini_batch_arena arena;
    const std::vector<node_id> seeds{0};
    std::vector<double> counts(degree, 0);
    double layered_nodes = 0;
    for (std::uint32_t b = 0; b < batches; ++b) {
        const auto sample = dense.sample({0, {0, 0, b}}, graph, seeds, serial, arena);
        CHECK(sample.node_ids.size() == 1 + fanout); // the hub shows the same neighbors to every layer
        for (const node_id u : sample.node_ids)
            if (u != 0) ++counts[u - 1];
        layered_nodes += static_cast<double>(layered.sample({0, {0, 0, b}}, graph, seeds, serial, arena).nodes.size());
    }
    const double expected = double{batches} * fanout / degree;
    double statistic = 0;
    for (const double count : counts) statistic += (count - expected) * (count - expected) / expected;
    CHECK(statistic * (degree - 1) / (degree - fanout) < test::chi_square_bound(degree - 1));
    // Three independent draws of 5 of 30 see 30 · (1 − (5/6)³) = 12.6 of them.
    const double seen = degree * (1 - std::pow(1 - double{fanout} / degree, 3));
    CHECK(std::abs(layered_nodes / batches - 1 - seen) < 0.2);
}

TEST_CASE("the first hop of DENSE and of the layered sampler draws the same neighbors") {
    const auto edges = test::hub_edges(300, 3000, 5);
    const auto graph = test::whole_graph(300, edges);
    const neighbor_options options{parse_fanout("7"), false, true, true};
    dense_sampler<> dense(options, 2);
    neighbor_sampler<> layered(options, 2);
    mini_batch_arena one, other;
    const auto seeds = test::some_nodes(300, 40, 4);
    CHECK(std::ranges::equal(dense.sample({}, graph, seeds, serial, one).edge_ids,
        layered.sample({}, graph, seeds, serial, other).edge_ids));
}

TEST_CASE("an array of a batch may hold a sample next to others") {
    const auto graph = test::whole_graph(50, test::hub_edges(50, 200, 1));
    dense_sampler<> sampler({parse_fanout("3,3")}, 1);
    sampler.draw({}, graph, std::span<const node_id>(test::some_nodes(50, 5, 1)), serial);
    mini_batch_arena arena;
    const std::size_t own = mini_batch::array_bytes(5, 4);
    auto batch = mini_batch::format(arena.reserve(mini_batch::header_bytes() + own + sampler.bytes_needed()), {});
    batch.add<std::uint32_t>("labels", 5)[4] = 17;
    const auto sample = sampler.write(batch, serial);
    CHECK(sample.seeds() == 5);
    CHECK(batch.get<std::uint32_t>("labels")[4] == 17);
    CHECK(dense_sample<>::of(batch).node_ids.data() == sample.node_ids.data());
}

TEST_CASE("a sample written by another sampler is checked before layers are made of it") {
    // two hops of one seed: 7 → 8, 9 → 6; stacked 6 | 8 9 | 7
    const std::vector<node_id> nodes{6, 8, 9, 7}, ids{6, 8, 9};
    const std::vector<std::uint32_t> starts{0, 1, 3, 4}, offsets{0, 1, 1, 3}, rows{0, 1, 2};
    const auto code = [&](std::vector<std::uint32_t> s, std::vector<std::uint32_t> o, std::vector<std::uint32_t> r) {
        mini_batch_arena arena;
        mini_batch batch = mini_batch::format(arena.reserve(mini_batch::header_bytes() + 7 * 64), {});
        std::ranges::copy(s, batch.add<std::uint32_t>("node_id_offsets", s.size()).begin());
        std::ranges::copy(nodes, batch.add<node_id>("node_ids", nodes.size()).begin());
        std::ranges::copy(o, batch.add<std::uint32_t>("nbr_offsets", o.size()).begin());
        std::ranges::copy(ids, batch.add<node_id>("nbrs", ids.size()).begin());
        std::ranges::copy(r, batch.add<std::uint32_t>("repr_map", r.size()).begin());
        (void)batch.add<relation_id>("edge_relations", 0);
        (void)batch.add<edge_index>("edge_ids", 0);
        layer_stack layers;
        const auto by_batch = test::code_of([&] { layers.assign(dense_sample<>::of(batch), serial); });
        const dense_sample<> in_hand{{}, s, nodes, o, ids, r, {}, {}};
        CHECK(test::code_of([&] { layers.assign(in_hand, serial, layer_stack::lists::forward); }) == by_batch);
        return by_batch;
    };
    CHECK(code(starts, offsets, rows) == std::nullopt);
    for (const std::vector<std::uint32_t>& wrong :
        {std::vector{0U, 1U, 3U, 5U}, {1U, 1U, 3U, 4U}, {0U, 3U, 1U, 4U}, {0U, 2U, 3U, 4U}, {4U}, {}})
        CHECK(code(wrong, offsets, rows) == errc::invalid_argument);
    for (const std::vector<std::uint32_t>& wrong :
        {std::vector{0U, 1U, 1U}, {0U, 4U, 1U, 3U}, {0U, 1U, 9U, 3U}, {1U, 1U, 1U, 3U}, {0U, 1U, 1U, 2U}, {}})
        CHECK(code(starts, wrong, rows) == errc::invalid_argument);
    for (const std::vector<std::uint32_t>& wrong :
        {std::vector{4U, 1U, 2U}, {0U, 1U, 0U}, {0U, 1U, 3000U}, {0U, 1U}, {}})
        CHECK(code(starts, offsets, wrong) == errc::invalid_argument);
}

} // namespace test_sample_dense
