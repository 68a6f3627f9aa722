#include <gneiss/order/any_order.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/order/cost.hpp>

#include <vector>

namespace {

using namespace gneiss;

// An epoch's plan for p partitions and p/4 slots: plans/s, and edge buckets/s as items. The order is made once, as in a
// trainer.
void make_plan(benchmark::State& state, const char* name) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    const any_order order = make_order(name, partitions, partitions / 4, 1);
    std::uint64_t epoch = 0;
    for (auto _ : state) benchmark::DoNotOptimize(order(epoch++));
    state.SetItemsProcessed(state.iterations() * partitions * partitions);
    state.counters["swaps"] = static_cast<double>(cost_of(order(0), 1).swaps);
    state.counters["plans"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(make_plan, beta, "beta")->Name("order/plan/beta")->RangeMultiplier(4)->Range(64, 1024);
BENCHMARK_CAPTURE(make_plan, symmetric, "hilbert-symmetric")
    ->Name("order/plan/hilbert_symmetric")
    ->RangeMultiplier(4)
    ->Range(64, 1024);

// Lower limit of a plan: its p² buckets written once.
void raw_buckets(benchmark::State& state) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    for (auto _ : state) {
        std::vector<edge_bucket> buckets;
        for (partition_id i = 0; i < partitions; ++i)
            for (partition_id j = 0; j < partitions; ++j) buckets.emplace_back(i, j);
        benchmark::DoNotOptimize(buckets.data());
    }
    state.SetItemsProcessed(state.iterations() * partitions * partitions);
}
BENCHMARK(raw_buckets)->Name("order/plan/raw_loop")->RangeMultiplier(4)->Range(64, 1024);

} // namespace
