#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/grem.hpp>

namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = 1 << 18;
constexpr edge_index edges = 1 << 22;

edge_list<> graph() {
    std::vector<edge> all(edges);
    rmat<>({.nodes = nodes, .edges = edges, .scramble = true, .seed = 1}).fill(0, all);
    return {nodes, std::move(all)};
}

/// Halves by id: free, so that only the stream is measured.
std::vector<partition_id16> by_id(const symmetric_csr& chunk, std::array<std::uint64_t, 2> most, std::uint64_t) {
    std::vector<partition_id16> sides(static_cast<std::size_t>(chunk.nodes()), 1);
    for (std::size_t v = 0; v < sides.size() && v < most[0]; ++v) sides[v] = 0;
    return sides;
}

/// Minimum work of GREM per arc: the side of a random node.
void sides_of_arcs_raw(benchmark::State& state) {
    edge_list<> stream = graph();
    const symmetric_csr lists = make_symmetric_csr(stream);
    std::vector<std::uint8_t> side(nodes);
    for (std::size_t v = 0; v < nodes; ++v) side[v] = v % 2;
    for (auto _ : state) {
        std::uint64_t ones = 0;
        for (const node_id u : lists.neighbors) ones += side[u];
        benchmark::DoNotOptimize(ones);
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(edges) * state.iterations());
}
BENCHMARK(sides_of_arcs_raw)->Unit(benchmark::kMillisecond);

void grem_bisection_in_memory(benchmark::State& state) {
    edge_list<> stream = graph();
    memory_scratch<> place;
    for (auto _ : state)
        benchmark::DoNotOptimize(grem(stream, place, {},
            {.chunk = 1. / static_cast<double>(state.range(0)), .shuffle = state.range(1) != 0}, by_id));
    state.SetItemsProcessed(static_cast<std::int64_t>(edges) * state.iterations());
}
BENCHMARK(grem_bisection_in_memory)
    ->ArgNames({"chunks", "shuffle"})
    ->Args({10, 0})
    ->Args({100, 0})
    ->Args({10, 1})
    ->Unit(benchmark::kMillisecond);

} // namespace
