#include <gneiss/partition/multilevel.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/partition/weighted_graph.hpp>

#ifdef GNEISS_HAS_METIS
#include <gneiss/partition/metis.hpp>
#endif

namespace {

using namespace gneiss;

/// Returns a square grid: each node has four neighbors.
weighted_graph square(node_id width) {
    weighted_graph graph;
    for (node_id y = 0; y < width; ++y)
        for (node_id x = 0; x < width; ++x) {
            const node_id v = y * width + x;
            if (y != 0) graph.neighbors.push_back(v - width);
            if (x != 0) graph.neighbors.push_back(v - 1);
            if (x + 1 != width) graph.neighbors.push_back(v + 1);
            if (y + 1 != width) graph.neighbors.push_back(v + width);
            graph.offsets.push_back(graph.neighbors.size());
        }
    return graph;
}

void count(benchmark::State& state, const weighted_graph& graph, std::uint64_t cut) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.arcs()));
    state.counters["cut"] = static_cast<double>(cut) / static_cast<double>(graph.total_edge_weight());
}

void multilevel(benchmark::State& state) {
    const weighted_graph graph = square(400);
    const multilevel_options options{
        .parts = static_cast<std::uint32_t>(state.range(0)), .effort = static_cast<multilevel_effort>(state.range(1))};
    std::uint64_t cut = 0;
    for (auto _ : state) cut = edge_cut(graph, multilevel_partition(graph, options, serial_executor{}));
    count(state, graph, cut);
}
BENCHMARK(multilevel)
    ->Name("partition/multilevel")
    ->ArgNames({"parts", "effort"})
    ->ArgsProduct({{8, 64, 512}, {0, 1, 2}})
    ->Unit(benchmark::kMillisecond);

/// One pass over all edges.
void pass(benchmark::State& state) {
    const weighted_graph graph = square(400);
    const std::vector<partition_id16> parts(graph.nodes());
    for (auto _ : state) benchmark::DoNotOptimize(edge_cut(graph, parts));
    count(state, graph, 0);
}
BENCHMARK(pass)->Name("partition/multilevel/edge_cut")->Unit(benchmark::kMillisecond);

#ifdef GNEISS_HAS_METIS
void metis(benchmark::State& state) {
    const weighted_graph graph = square(400);
    std::uint64_t cut = 0;
    for (auto _ : state)
        cut = edge_cut(graph, metis_partition(graph, {.parts = static_cast<std::uint32_t>(state.range(0))}));
    count(state, graph, cut);
}
BENCHMARK(metis)->Name("partition/metis")->ArgName("parts")->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);
#endif

} // namespace
