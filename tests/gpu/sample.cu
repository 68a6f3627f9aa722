// Compares samplers of <gneiss/cuda/sample> on a GPU with the CPU's; tests/simt/sample has smaller graphs and all
// options.
#include <simt/sample/support.hpp>

#include <gneiss/cuda/core/graph.cuh>

using namespace simt_sample;

namespace {

/// Checks that batches of a sampler, run directly and from a recorded graph, equal the oracle's.
template <class Sampler, class Oracle>
void compare(const csr_graph<>& host, const std::vector<edge>& edges, const neighbor_options& options) {
    memory_budget budget;
    cuda::stream in;
    const cuda::device_graph<> graph(budget, host, in);
    cuda::node_numbers numbers(budget, host.nodes());
    Sampler sampler(budget, numbers, graph.view(), options, 5,
        {.seeds = static_cast<std::uint32_t>(std::min<std::uint64_t>(host.nodes(), 1000)), .excluded = 300});
    Oracle oracle(options, 5);
    mini_batch_arena arena;
    const cuda::graph step = cuda::graph::record(in, [&] { sampler.run(in); });
    for (std::uint64_t index = 0; index < 4; ++index) {
        const batch_key key{2, {1, 0, index}};
        const auto seeds =
            test::some_nodes(host.nodes(), std::min<std::size_t>(host.nodes(), 1000) - 100 * index, index);
        std::vector<excluded_edge<>> excluded;
        for (std::size_t e = 0; e < 100 * index; ++e)
            excluded.push_back({edges[7 * e].source, edges[7 * e].destination, 7 * e});
        sampler.set(in, key, seeds, excluded);
        if (index % 2 == 0)
            sampler.run(in);
        else
            step.launch(in);
        check(in, sampler, oracle.sample(key, host, std::span<const node_id>(seeds), serial, arena, excluded));
    }
}

} // namespace

TEST_CASE("samples equal those of the CPU, layered and DENSE") {
    constexpr std::uint64_t nodes = 30'000;
    const auto edges = edges_with_star(nodes, 300'000, 20'000, 3);
    const auto host = test::whole_graph(nodes, edges);
    for (const char* fanout : {"10,10,10", "20,5", "all,2", "40,33", "3+4,2+all", "5,4,3,2"})
        for (const bool replace : {false, true}) {
            CAPTURE(fanout);
            CAPTURE(replace);
            const neighbor_options options{
                parse_fanout(fanout, replace ? neighbor_direction::both : neighbor_direction::out), replace, true,
                true};
            compare<cuda::neighbor_sampler<>, gneiss::neighbor_sampler<>>(host, edges, options);
            compare<cuda::dense_sampler<>, gneiss::dense_sampler<>>(host, edges, options);
        }
}

TEST_CASE("draws beyond shared memory are right, and so are stamps that wrap around") {
    const auto edges = edges_with_star(400, 1000, 20'000, 4);
    const auto host = test::whole_graph(400, edges);
    compare<cuda::neighbor_sampler<>, gneiss::neighbor_sampler<>>(host, edges, {parse_fanout("17000")});
    memory_budget budget;
    cuda::stream in;
    const cuda::device_graph<> graph(budget, host, in);
    cuda::node_numbers numbers(budget, 400, 3);
    cuda::neighbor_sampler<> sampler(budget, numbers, graph.view(), {parse_fanout("3,2")}, 5, {.seeds = 50});
    gneiss::neighbor_sampler<> oracle({parse_fanout("3,2")}, 5);
    mini_batch_arena arena;
    for (std::uint64_t index = 0; index < 10; ++index) {
        const auto seeds = test::some_nodes(400, 50, index);
        sampler.sample(in, {0, {0, 0, index}}, seeds);
        check(in, sampler, oracle.sample({0, {0, 0, index}}, host, std::span<const node_id>(seeds), serial, arena));
    }
}
