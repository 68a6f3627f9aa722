#include <gneiss/order/search.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/order/bias.hpp>
#include <gneiss/order/comet.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/order/train_partitions_first.hpp>
#include <gneiss/order/tune.hpp>

#include <cstdint>
#include <vector>

namespace {

using namespace gneiss;

// An epoch's plan from a stored sequence, as a trainer requests it.
void searched_plan(benchmark::State& state) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    const searched_order order(partitions, partitions / 4, 1);
    std::uint64_t epoch = 0;
    for (auto _ : state) benchmark::DoNotOptimize(order(epoch++));
    state.SetItemsProcessed(state.iterations() * partitions * partitions);
    state.counters["swaps"] = static_cast<double>(cost_of(order(0), 1).swaps);
    state.counters["beta"] = static_cast<double>(beta_swaps(partitions, partitions / 4));
    state.counters["bound"] = static_cast<double>(swap_lower_bound(partitions, partitions / 4));
}
BENCHMARK(searched_plan)->Name("order/plan/searched")->Arg(16)->Arg(32)->Arg(64);

void node_states(benchmark::State& state) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    std::uint64_t epoch = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(train_partitions_first(partitions, partitions / 4, partitions, 1, epoch++));
    state.SetItemsProcessed(state.iterations() * partitions);
}
BENCHMARK(node_states)->Name("order/plan/training_nodes")->RangeMultiplier(4)->Range(64, 1024);

// The bias of a plan: by the proxy, whose items are edge buckets, and on the edges of a random graph of 8 M edges, its
// items.
void proxy(benchmark::State& state) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    const epoch_plan states = comet_order(partitions, partitions / 4, 1)(0);
    double bias = 0;
    for (auto _ : state) {
        bias = uniform_bias(states, partitions);
        benchmark::DoNotOptimize(bias);
    }
    state.SetItemsProcessed(state.iterations() * partitions * partitions);
    state.counters["bias"] = bias;
}
BENCHMARK(proxy)->Name("order/bias/uniform")->Arg(32)->Arg(128);

struct ends {
    std::uint32_t source, destination;
};

std::vector<ends> bucket_edges(std::uint32_t partitions, std::uint64_t nodes, std::size_t bucket) {
    std::vector<ends> edges((8 << 20) / partitions / partitions);
    random_stream draw(random_key{bucket, random_domain::user});
    const std::uint64_t rows = nodes / partitions, i = bucket / partitions * rows, j = bucket % partitions * rows;
    for (ends& e : edges)
        e = {static_cast<std::uint32_t>(i + draw.below(rows)), static_cast<std::uint32_t>(j + draw.below(rows))};
    return edges;
}

void exact(benchmark::State& state) {
    constexpr std::uint32_t partitions = 32;
    const auto nodes = static_cast<std::uint64_t>(state.range(0));
    std::vector<std::vector<ends>> edges;
    for (std::size_t b = 0; b < std::size_t{partitions} * partitions; ++b)
        edges.push_back(bucket_edges(partitions, nodes, b));
    const epoch_plan states = comet_order(partitions, 8, 1)(0);
    double bias = 0;
    for (auto _ : state) {
        bias = edge_bias(states, nodes,
            [&](edge_bucket b, const auto& take) { take(edges[std::size_t{b.first} * partitions + b.second]); });
        benchmark::DoNotOptimize(bias);
    }
    state.SetItemsProcessed(state.iterations() * (8 << 20));
    state.counters["bias"] = bias;
}
BENCHMARK(exact)->Name("order/bias/edges")->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

// Limit: both ends of every edge counted once, without states.
void raw_degrees(benchmark::State& state) {
    constexpr std::uint32_t partitions = 32;
    const auto nodes = static_cast<std::uint64_t>(state.range(0));
    std::vector<std::vector<ends>> edges;
    for (std::size_t b = 0; b < std::size_t{partitions} * partitions; ++b)
        edges.push_back(bucket_edges(partitions, nodes, b));
    std::vector<std::uint64_t> degree(static_cast<std::size_t>(nodes));
    for (auto _ : state) {
        for (const auto& bucket : edges)
            for (const ends& e : bucket) {
                ++degree[e.source];
                ++degree[e.destination];
            }
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * (8 << 20));
}
BENCHMARK(raw_degrees)->Name("order/bias/raw_degrees")->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

// Choices of partitions and slots.
void choose(benchmark::State& state) {
    tuning_input input{.nodes = 100'000'000,
        .row_bytes = 800,
        .edge_bytes = std::uint64_t{16} << 30,
        .memory = std::uint64_t{8} << 30};
    for (auto _ : state) {
        benchmark::DoNotOptimize(input);
        benchmark::DoNotOptimize(tune(input));
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(choose)->Name("order/tune");

} // namespace
