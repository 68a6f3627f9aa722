// Neighborhoods sampled on the device, of the size in MariusGNN's table: a graph of 4.8 M nodes and 69 M edges, 20
// outgoing neighbors per node and hop, 1 to 5 hops; compared with the same sample on the host.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <cuda/harness.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/sample/dense.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/neighbor.hpp>

namespace gpu_bench {

namespace {

csr_graph<> made_graph(std::uint64_t nodes, std::uint64_t count) {
    const rmat<> edges({.nodes = nodes, .edges = count, .seed = 1});
    std::vector<edge> all(static_cast<std::size_t>(edges.edges()));
    edges.fill(0, all);
    edge_list<> stream(edges.nodes(), std::move(all));
    return make_csr_graph(stream, neighbor_direction::out);
}

/// Samples 15-10-5 neighbors of 1000 seeds by DENSE, with lists by source but for the first layer, as a trainer does:
/// kernel by kernel, and as a recorded graph.
void trained_sample(bench& executor) {
    const csr_graph<> host = made_graph(bench::size(1'000'000, 60), bench::size(16'000'000, 300));
    const cuda::device_graph<> graph(executor.budget(), host, executor.stream());
    const neighbor_options options{parse_fanout(bench::emulated ? "3,2,2" : "15,10,5", neighbor_direction::out)};
    const std::uint32_t count = bench::size(1000, 4);
    std::vector<node_id> seeds(count);
    const keyed_permutation order(host.nodes(), random_key(1, random_domain::user));
    for (std::uint32_t i = 0; i < count; ++i) seeds[i] = static_cast<node_id>(order(i));
    cuda::node_numbers numbers(executor.budget(), graph.view().nodes);
    cuda::dense_sampler<> result(
        executor.budget(), numbers, graph.view(), options, 1, {.seeds = count}, cuda::source_lists::between);
    result.set(executor.stream(), {0, {0, 0, 0}}, std::span<const node_id>(seeds));
    const cuda::graph step = cuda::graph::record(executor.stream(), [&] { result.run(executor.stream()); });
    for (const bool recorded : {false, true}) {
        const double ms = executor.milliseconds([&](cudaStream_t stream) {
            if (recorded)
                step.launch(stream);
            else
                result.run(stream);
        });
        const cuda::sample_sizes sizes = result.synchronize(executor.stream());
        std::uint64_t edges = 0;
        for (const std::uint32_t of_hop : sizes.edges) edges += of_hop;
        executor.report(record("sampling 15-10-5")
                            .add("launches", recorded ? "recorded" : "one by one")
                            .add("kernels", step.nodes())
                            .add("seeds", count)
                            .add("nodes", sizes.nodes.back())
                            .add("edges", edges)
                            .add("edges_per_s", static_cast<double>(edges) / ms * 1e3),
            {}, ms);
    }
}

/// Launches a recorded sample for one batch after the other.
template <class OnDevice, class OnHost>
void sample(bench& executor, const char* sampler, const csr_graph<>& host, const cuda::device_graph<>& graph,
    std::size_t hops) {
    const neighbor_options options{std::vector<hop_fanout>(hops, hop_fanout{.out = bench::size(20, 3)})};
    const std::uint32_t count = bench::size(1000, 4);
    const keyed_permutation order(host.nodes(), random_key(1, random_domain::user));
    std::vector<node_id> seeds(count);
    for (std::uint32_t i = 0; i < count; ++i) seeds[i] = static_cast<node_id>(order(i));
    cuda::node_numbers numbers(executor.budget(), graph.view().nodes);
    OnDevice result(executor.budget(), numbers, graph.view(), options, 1, {.seeds = count}, cuda::source_lists::none);
    const cuda::graph step = cuda::graph::record(executor.stream(), [&] { result.run(executor.stream()); });
    const auto set = [&](std::uint64_t index) {
        result.set(executor.stream(), {0, {0, 0, index}}, std::span<const node_id>(seeds));
    };
    set(0);
    const double ours = executor.milliseconds([&](cudaStream_t stream) { step.launch(stream); });
    const cuda::sample_sizes sizes = result.synchronize(executor.stream());
    std::uint64_t edges = 0;
    for (const std::uint32_t of_hop : sizes.edges) edges += of_hop;

    const unsigned threads = bench::emulated ? 2 : std::max(std::thread::hardware_concurrency(), 1U);
    const tbb_executor cores(static_cast<int>(threads));
    OnHost oracle(options, 1);
    mini_batch_arena arena;
    double theirs = 0;
    for (int turn = 0; turn < (bench::emulated ? 1 : 3); ++turn) { // the first allocates
        const auto begin = std::chrono::steady_clock::now();
        static_cast<void>(oracle.sample({0, {0, 0, 0}}, host, std::span<const node_id>(seeds), cores, arena));
        theirs = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
    executor.report(record("sampling")
                        .add("sampler", sampler)
                        .add("hops", hops)
                        .add("seeds", count)
                        .add("nodes", sizes.nodes.back())
                        .add("edges", edges)
                        .add("edges_per_s", static_cast<double>(edges) / ours * 1e3)
                        .add("threads", threads),
        {}, ours, theirs, "host");
}

} // namespace

void sampling(bench& executor) {
    if (executor.wanted("sampling 15-10-5")) trained_sample(executor);
    if (!executor.wanted("sampling by hops")) return;
    const csr_graph<> host = made_graph(bench::size(4'800'000, 60), bench::size(69'000'000, 300));
    const cuda::device_graph<> graph(executor.budget(), host, executor.stream());
    executor.stream().synchronize();
    for (std::size_t hops = 1; hops <= 5; ++hops)
        sample<cuda::dense_sampler<>, dense_sampler<>>(executor, "dense", host, graph, hops);
    for (std::size_t hops = 1; hops <= 3; ++hops)
        sample<cuda::neighbor_sampler<>, neighbor_sampler<>>(executor, "layered", host, graph, hops);
}

} // namespace gpu_bench
