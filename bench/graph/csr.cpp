#include <gneiss/graph/csr.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/rmat.hpp>

// Incoming lists of RMAT, 2^20 nodes, 16 M edges in random order, in memory: edges/s. Limit: a counting sort by hand,
// which leaves lists in the order of the edges.
namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = std::uint64_t{1} << 20, edge_count = 16 * nodes;

std::vector<edge> rmat_edges() {
    const rmat<> source({.nodes = nodes, .edges = edge_count, .seed = 1});
    std::vector<edge> all(static_cast<std::size_t>(edge_count));
    source.fill(0, all);
    return all;
}

void count_edges(benchmark::State& state) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(edge_count));
}

void build(benchmark::State& state, const csr_options& columns) {
    edge_list<> stream(nodes, rmat_edges());
    for (auto _ : state) {
        const auto graph = make_csr_graph(stream, neighbor_direction::in, columns);
        benchmark::DoNotOptimize(graph.in().neighbors().data());
    }
    count_edges(state);
}
BENCHMARK_CAPTURE(build, neighbors, csr_options{})->Name("csr/build/neighbors")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, edge_ids, csr_options{.edge_ids = true})
    ->Name("csr/build/edge_ids")
    ->Unit(benchmark::kMillisecond);

void raw_counting_sort(benchmark::State& state) {
    const std::vector<edge> edges = rmat_edges();
    for (auto _ : state) {
        std::vector<edge_index> offsets(nodes + 2);
        std::vector<node_id> neighbors(edges.size());
        for (const edge& e : edges) ++offsets[std::size_t{e.destination} + 2];
        for (std::size_t v = 2; v < offsets.size(); ++v) offsets[v] += offsets[v - 1];
        for (const edge& e : edges) neighbors[offsets[std::size_t{e.destination} + 1]++] = e.source;
        benchmark::DoNotOptimize(neighbors.data());
    }
    count_edges(state);
}
BENCHMARK(raw_counting_sort)->Name("csr/build/raw_counting_sort")->Unit(benchmark::kMillisecond);

} // namespace
