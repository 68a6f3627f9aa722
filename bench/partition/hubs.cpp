#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/hubs.hpp>

namespace {

using namespace gneiss;

symmetric_csr graph() {
    generated_edges edges(rmat<>({.nodes = 1 << 18, .edges = 1 << 22, .scramble = true, .seed = 1}));
    return make_symmetric_csr(edges);
}
/// Selects one node in a hundred for training.
std::vector<node_id> training_nodes() {
    std::vector<node_id> nodes;
    for (node_id v = 0; v < 1 << 18; v += 100) nodes.push_back(v);
    return nodes;
}

void influence_three_steps(benchmark::State& state) {
    const symmetric_csr lists = graph();
    symmetric_stream stream(lists);
    const std::vector<node_id> from = training_nodes();
    for (auto _ : state) benchmark::DoNotOptimize(influence(stream, from));
    state.SetItemsProcessed(3 * static_cast<std::int64_t>(lists.arcs()) * state.iterations());
}
BENCHMARK(influence_three_steps)->Unit(benchmark::kMillisecond);

void sampled_influence_three_steps(benchmark::State& state) {
    const symmetric_csr lists = graph();
    symmetric_stream stream(lists);
    const std::vector<node_id> from = training_nodes();
    for (auto _ : state)
        benchmark::DoNotOptimize(sampled_influence(stream, from, static_cast<std::uint32_t>(state.range(0)), 1));
    state.SetItemsProcessed(3 * static_cast<std::int64_t>(from.size()) * state.range(0) * state.iterations());
}
BENCHMARK(sampled_influence_three_steps)->ArgName("walks")->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

void most_influential_of_scores(benchmark::State& state) {
    const symmetric_csr lists = graph();
    symmetric_stream stream(lists);
    const std::vector<float> scores = influence(stream, training_nodes());
    for (auto _ : state) benchmark::DoNotOptimize(most_influential<float>(scores, 2621));
    state.SetItemsProcessed(static_cast<std::int64_t>(scores.size()) * state.iterations());
}
BENCHMARK(most_influential_of_scores)->Unit(benchmark::kMillisecond);

} // namespace
