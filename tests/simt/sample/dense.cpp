#include <gneiss/cuda/sample/dense.cuh>

#include <gneiss/cuda/core/graph.cuh>

#include <simt/sample/support.hpp>
#include <simt/support.hpp>

namespace test_simt_sample_dense {

using namespace simt_sample;

TEST_CASE_TEMPLATE("simt.sample.dense: samples equal the CPU's for any fan-outs and directions", NodeId, std::uint32_t,
    std::uint64_t) {
    constexpr std::uint64_t nodes = 200;
    const auto host = test::whole_graph<NodeId>(nodes, edges_with_star<NodeId>(nodes, 500, 60, 4));
    mini_batch_arena arena;
    std::uint64_t index = 0;
    for (const char* fanout : {"3", "2,4", "12,1,2", "all,2", "2+3,0+1", "34,3", "3,2,2,3"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            if (sizeof(NodeId) == 8 && d != neighbor_direction::both) continue;
            CAPTURE(fanout);
            const bool replace = d == neighbor_direction::out;
            memory_budget budget;
            cuda::stream in;
            const cuda::device_graph<NodeId> graph(budget, host, in);
            const neighbor_options options{parse_fanout(fanout, d), replace, replace, !replace};
            const auto wanted = replace ? cuda::source_lists::none
                : index / 2 % 2 == 0    ? cuda::source_lists::between
                                        : cuda::source_lists::all;
            cuda::node_numbers numbers(budget, nodes);
            cuda::dense_sampler<NodeId> sampler(budget, numbers, graph.view(), options, 5, {.seeds = 20}, wanted);
            gneiss::dense_sampler<NodeId> oracle(options, 5);
            simt::for_each_seed(2, [&] {
                const batch_key key{1, {2, 3, ++index}};
                const auto seeds = test::some_nodes<NodeId>(nodes, index % 5 == 0 ? 0 : index % 21, index);
                sampler.sample(in, key, seeds);
                check(in, sampler, oracle.sample(key, host, std::span<const NodeId>(seeds), serial, arena));
            });
        }
}

TEST_CASE("simt.sample.dense: one recorded graph samples any batch, with excluded edges, and after a failed one") {
    const auto edges = edges_with_star(120, 500, 40, 6);
    const auto host = test::whole_graph<node_id>(120, edges);
    memory_budget budget;
    cuda::stream in;
    const cuda::device_graph<> graph(budget, host, in);
    const neighbor_options options{parse_fanout("4,3+2,2"), false, false, true};
    cuda::node_numbers numbers(budget, host.nodes(), 3);
    cuda::dense_sampler<> sampler(budget, numbers, graph.view(), options, 5, {.seeds = 12, .excluded = 9});
    gneiss::dense_sampler<> oracle(options, 5);
    mini_batch_arena arena;
    const cuda::graph step = cuda::graph::record(in, [&] { sampler.run(in); });
    for (std::uint64_t index = 0; index < 6; ++index) {
        const batch_key key{index % 2, {1, 0, index}};
        auto seeds = test::some_nodes(120, 2 + 5 * index % 11, index);
        std::vector<excluded_edge<>> excluded;
        for (std::size_t e = 0; e < index; ++e)
            excluded.push_back({edges[90 * e].source, edges[90 * e].destination, 90 * e});
        if (index % 3 == 1) {
            sampler.set(in, key, std::vector<node_id>{5, 6, 5}, excluded);
            step.launch(in);
            CHECK_THROWS_WITH_AS(static_cast<void>(sampler.synchronize(in)),
                ("seed node 5 is given twice (" + to_string(key) + ")").c_str(), cuda::sample_error);
            CHECK(fetched(in, sampler.node_count(), 1)[0] == 0);
            CHECK((fetched(in, sampler.view().node_id_offsets, 5) == std::vector<std::uint32_t>(5)));
        }
        sampler.set(in, key, seeds, excluded);
        step.launch(in);
        check(in, sampler, oracle.sample(key, host, seeds, serial, arena, excluded));
    }
}

} // namespace test_simt_sample_dense
