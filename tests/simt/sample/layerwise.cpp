#include <gneiss/cuda/sample/layerwise.cuh>

#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/sample/layerwise.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <simt/sample/support.hpp>
#include <simt/support.hpp>
#include <support/error_code.hpp>

namespace test_simt_sample_layerwise {

using namespace simt_sample;

namespace {

template <node_id_type NodeId>
using pair_of_samplers = compared_samplers<cuda::layerwise_sampler<NodeId>, gneiss::layerwise_sampler<NodeId>, NodeId>;

} // namespace

TEST_CASE_TEMPLATE("simt.sample.layerwise: samples equal the CPU's for any fan-outs and directions", NodeId,
    std::uint32_t, std::uint64_t) {
    constexpr std::uint64_t nodes = 120;
    const auto host = test::whole_graph<NodeId>(nodes, edges_with_star<NodeId>(nodes, 400, 100, 3));
    std::uint64_t index = 0;
    for (const char* fanout : {"1", "3", "7,20", "20,1", "all,2", "5,all", "100,119", "120", "4000000000", "2,3,4"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            if (sizeof(NodeId) == 8 && d != neighbor_direction::both) continue;
            CAPTURE(fanout);
            pair_of_samplers<NodeId> both(host, {parse_fanout(fanout, d), false, true, true}, {.seeds = 20});
            simt::for_each_seed(2, [&] {
                ++index;
                both.compare(index, test::some_nodes<NodeId>(nodes, index % 5 == 0 ? 0 : index % 21, index));
            });
        }
}

TEST_CASE("simt.sample.layerwise: long lists, repeated edges and directions that change from hop to hop") {
    const auto host = test::whole_graph<node_id>(300, edges_with_star(300, 500, 10'000, 5));
    for (const char* fanout : {"10", "32,200", "1,1", "0+7,9+0"}) {
        CAPTURE(fanout);
        pair_of_samplers<node_id> both(host, {parse_fanout(fanout), false, true, true}, {.seeds = 3});
        both.compare(1, std::vector<node_id>{7, 1, 299});
    }
}

TEST_CASE("simt.sample.layerwise: excluded edges are neither drawn nor make a node a candidate") {
    const auto edges = edges_with_star(60, 400, 40, 9);
    const auto host = test::whole_graph<node_id>(60, edges);
    std::vector<excluded_edge<>> excluded;
    for (std::size_t e = 0; e < edges.size(); e += 3) excluded.push_back({edges[e].source, edges[e].destination, e});
    const auto seeds = test::some_nodes(60, 9, 1);
    for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        const auto room = static_cast<std::uint32_t>(excluded.size());
        pair_of_samplers<node_id> both(
            host, {parse_fanout("6,12", d), false, false, true}, {.seeds = 60, .excluded = room});
        both.compare(1, seeds, excluded);
        both.compare(2, seeds, std::span(excluded).first(9));
        both.compare(3, seeds);
    }
}

TEST_CASE("simt.sample.layerwise: one recorded graph samples any batch, and one that does not fit is reported") {
    const auto host = test::whole_graph<node_id>(150, edges_with_star(150, 600, 50, 6));
    pair_of_samplers<node_id> both(host, {parse_fanout("8,20"), false, true, true}, {.seeds = 12});
    const cuda::graph step = cuda::graph::record(both.in, [&] { both.sampler.run(both.in); });
    CHECK(step.nodes() == 5 + 2 * (31 + 4) + 1 + 2 * 6); // documented for `neighbor_sampler` and `node_selection`
    both.compare_replays(step);
    pair_of_samplers<node_id> narrow(host, {parse_fanout("8"), false, true, true}, {.seeds = 12, .edges = {40}});
    narrow.sampler.sample(narrow.in, {0, {0, 0, 1}}, std::vector<node_id>{1, 2, 3}); // the first has more neighbors
    CHECK_THROWS_AS((void)narrow.sampler.synchronize(narrow.in), cuda::sample_error);
    narrow.compare(2, std::vector<node_id>{149}); // the next batch is whole
}

TEST_CASE("simt.sample.layerwise: options that the CPU refuses are refused") {
    const auto host = test::whole_graph<node_id>(9, test::hub_edges(9, 30, 1));
    const auto refused = [&](const neighbor_options& options) {
        return test::code_of([&] { (void)pair_of_samplers<node_id>(host, options, {.seeds = 3}); });
    };
    CHECK(refused({parse_fanout("2+3")}) == errc::invalid_argument);
    CHECK(refused({parse_fanout("3"), true}) == errc::invalid_argument);
}

} // namespace test_simt_sample_layerwise
