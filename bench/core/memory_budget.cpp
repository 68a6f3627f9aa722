#include <gneiss/core/memory_budget.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace {

using namespace gneiss;

constexpr std::uint64_t bytes = 4096, limit = std::uint64_t{1} << 40;

// A charge and its release, next to others that stay; items are charges.
void charge(benchmark::State& state) {
    memory_budget budget(limit);
    std::vector<memory_charge> others;
    for (std::int64_t i = 0; i < state.range(0); ++i) others.push_back(budget.charge({"other", bytes}));
    for (auto _ : state) {
        const memory_charge one = budget.charge({"one", bytes});
        benchmark::DoNotOptimize(&one);
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(charge)->Name("memory_budget/charge")->ArgName("others")->Arg(0)->Arg(16)->Arg(256);

// Limit: one sum under a lock, without names.
void raw_sum(benchmark::State& state) {
    std::mutex mutex;
    std::uint64_t used = 0;
    for (auto _ : state) {
        {
            const std::scoped_lock lock(mutex);
            if (bytes <= limit - used) used += bytes;
            benchmark::DoNotOptimize(used);
        }
        const std::scoped_lock lock(mutex);
        used -= bytes;
        benchmark::DoNotOptimize(used);
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(raw_sum)->Name("memory_budget/raw_sum_under_a_lock");

} // namespace
