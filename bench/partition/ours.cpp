#include <gneiss/partition/band.hpp>
#include <gneiss/partition/cluster.hpp>
#include <gneiss/partition/portfolio.hpp>
#include <gneiss/partition/quotient.hpp>
#include <gneiss/partition/refine.hpp>
#include <gneiss/partition/semi.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/generate/lfr.hpp>
#include <gneiss/graph/symmetric.hpp>

// The library's own partitioners and their steps over a graph in memory; items are its arcs, once. The limit of a pass
// is a loop that only reads the part, or the cluster, of every neighbor. `cut` is the share of the edges between parts.
namespace {

using namespace gneiss;

const symmetric_csr& graph() {
    static const symmetric_csr result = [] {
        generated_edges edges(lfr<>({.nodes = 200'000, .edges = 3'600'000}));
        return make_symmetric_csr(edges);
    }();
    return result;
}

partition_request request_of(const benchmark::State& state) {
    return {.parts = static_cast<std::uint32_t>(state.range(0))};
}

void count_arcs(benchmark::State& state) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph().arcs()));
}

template <class Id>
void read_neighbors(benchmark::State& state) {
    std::vector<Id> of(graph().nodes());
    for (std::size_t v = 0; v < of.size(); ++v) of[v] = static_cast<Id>(mix64(v));
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (const node_id u : graph().neighbors) sum += of[u];
        benchmark::DoNotOptimize(sum);
    }
    count_arcs(state);
}

/// A pass without changes: the cost that all but the first ones approach.
void refinement_pass(benchmark::State& state) {
    symmetric_stream stream(graph());
    const partition_request request = request_of(state);
    const tbb_executor executor(static_cast<std::size_t>(state.range(1)));
    std::vector<partition_id16> parts = band_partitioner{.passes = 20}(stream, request, executor);
    for (auto _ : state) benchmark::DoNotOptimize(refine_parts(stream, parts, request, 1, executor));
    count_arcs(state);
}

void clustering(benchmark::State& state) {
    symmetric_stream stream(graph());
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) benchmark::DoNotOptimize(cluster_nodes(stream, {}, {.max_weight = 1250}, executor));
    count_arcs(state);
}

void graph_of_clusters(benchmark::State& state) {
    symmetric_stream stream(graph());
    const node_clusters clusters = cluster_nodes(stream, {}, {.max_weight = 1250}, serial_executor{});
    for (auto _ : state) benchmark::DoNotOptimize(quotient_graph(stream, clusters, graph().arcs(), {}));
    count_arcs(state);
}

template <class Partitioner>
void partition(benchmark::State& state) {
    symmetric_stream stream(graph());
    const partition_request request = request_of(state);
    const tbb_executor executor(static_cast<std::size_t>(state.range(1)));
    std::vector<partition_id16> parts;
    for (auto _ : state) parts = Partitioner{}(stream, request, executor);
    count_arcs(state);
    state.counters["cut"] = measure_partition(stream, parts, request.parts).cut;
    state.counters["MB"] = static_cast<double>(Partitioner{}.memory(graph().nodes(), graph().arcs(), request)) / 1e6;
}

} // namespace

BENCHMARK(read_neighbors<partition_id16>)->Name("partition/ours/read_parts")->Unit(benchmark::kMillisecond);
BENCHMARK(read_neighbors<node_id>)->Name("partition/ours/read_clusters")->Unit(benchmark::kMillisecond);
BENCHMARK(refinement_pass)
    ->Name("partition/ours/refine")
    ->ArgsProduct({{8, 128}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(clustering)->Name("partition/ours/cluster")->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(graph_of_clusters)->Name("partition/ours/quotient")->Unit(benchmark::kMillisecond);
BENCHMARK(partition<band_partitioner>)
    ->Name("partition/ours/band")
    ->ArgsProduct({{8, 128}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(partition<semi_partitioner>)
    ->Name("partition/ours/semi")
    ->ArgsProduct({{8, 128}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(partition<default_portfolio>)
    ->Name("partition/ours/portfolio")
    ->ArgsProduct({{8, 128}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
