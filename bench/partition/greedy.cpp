#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/gap.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/generate/lfr.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/symmetric.hpp>

// Streamed partitioners over graphs in memory, for 8 to 4096 parts; items are arcs of all passes. The limit is a loop
// that only reads the part of every neighbor.
namespace {

using namespace gneiss;

const symmetric_csr& lfr_graph() {
    static const symmetric_csr graph = [] {
        generated_edges edges(lfr<>({.nodes = 200'000, .edges = 3'600'000}));
        return make_symmetric_csr(edges);
    }();
    return graph;
}

const symmetric_csr& rmat_graph() {
    static const symmetric_csr graph = [] {
        generated_edges edges(rmat<>({.nodes = 1 << 20, .edges = 8'000'000, .scramble = true}));
        return make_symmetric_csr(edges);
    }();
    return graph;
}

std::vector<class_id> labels_of(const symmetric_csr& graph) {
    std::vector<class_id> labels(graph.nodes());
    for (std::size_t v = 0; v < labels.size(); ++v) labels[v] = static_cast<class_id>(mix64(v) % 16);
    return labels;
}

void count_arcs(benchmark::State& state, const symmetric_csr& graph, std::uint32_t passes = 1) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(passes * graph.arcs()));
}

void read_parts(benchmark::State& state, const symmetric_csr& graph) {
    std::vector<partition_id16> part(graph.nodes());
    for (std::size_t v = 0; v < part.size(); ++v)
        part[v] = static_cast<partition_id16>(mix64(v) % static_cast<std::uint64_t>(state.range(0)));
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (const node_id u : graph.neighbors) sum += part[u];
        benchmark::DoNotOptimize(sum);
    }
    count_arcs(state, graph);
}

template <class Partitioner>
void partition(
    benchmark::State& state, const symmetric_csr& graph, const Partitioner& options, bool labeled, double cap) {
    symmetric_stream stream(graph);
    const auto labels = labeled ? labels_of(graph) : std::vector<class_id>{};
    const partition_request request{
        .parts = static_cast<std::uint32_t>(state.range(0)), .labels = labels, .label_cap = cap};
    for (auto _ : state) benchmark::DoNotOptimize(options(stream, request, serial_executor{}));
    count_arcs(state, graph, options.passes);
}

void parts(benchmark::internal::Benchmark* b) {
    for (const std::int64_t k : {8, 64, 256, 1024, 4096}) b->Arg(k);
    b->Unit(benchmark::kMillisecond);
}

void raw_lfr(benchmark::State& state) { read_parts(state, lfr_graph()); }
void raw_rmat(benchmark::State& state) { read_parts(state, rmat_graph()); }
void fennel_lfr(benchmark::State& state) { partition(state, lfr_graph(), fennel_partitioner{}, false, 0); }
void fennel_rmat(benchmark::State& state) { partition(state, rmat_graph(), fennel_partitioner{}, false, 0); }
void gap_lfr(benchmark::State& state) { partition(state, lfr_graph(), gap_partitioner{}, true, 0); }
void gap_rmat(benchmark::State& state) { partition(state, rmat_graph(), gap_partitioner{}, true, 0); }
void gap_capped_rmat(benchmark::State& state) {
    partition(state, rmat_graph(), gap_partitioner{.passes = 3}, true, 1.05);
}

BENCHMARK(raw_lfr)->Name("partition/raw_read_of_parts_lfr")->Apply(parts);
BENCHMARK(raw_rmat)->Name("partition/raw_read_of_parts_rmat")->Apply(parts);
BENCHMARK(fennel_lfr)->Name("partition/fennel_lfr")->Apply(parts);
BENCHMARK(fennel_rmat)->Name("partition/fennel_rmat")->Apply(parts);
BENCHMARK(gap_lfr)->Name("partition/gap_16_labels_lfr")->Apply(parts);
BENCHMARK(gap_rmat)->Name("partition/gap_16_labels_rmat")->Apply(parts);
BENCHMARK(gap_capped_rmat)->Name("partition/gap_16_labels_capped_3_passes_rmat")->Apply(parts);

} // namespace
