#include <gneiss/cuda/cache/belady.cuh>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/memory_budget.hpp>

#include <thrust/execution_policy.h>
#include <thrust/system/tbb/execution_policy.h>

#include "cache/traces.hpp"

// The change sets of cache/belady.cpp with the device's algorithm, on threads of the host.
namespace {

using namespace cache_bench;

template <class Policy>
void run(benchmark::State& state, const Policy& executor) {
    const memory_trace& of = trace();
    std::vector<std::uint32_t> starts{0};
    std::vector<node_id> all, room;
    for (std::size_t batch = 0; batch < batches; ++batch) {
        const std::span<const node_id> rows = of.read(batch, room);
        all.insert(all.end(), rows.begin(), rows.end());
        starts.push_back(static_cast<std::uint32_t>(all.size()));
    }
    const thrust::device_vector<node_id> ids(all.begin(), all.end());
    for (auto _ : state) {
        const auto result = gneiss::cuda::belady(executor, ids, starts, {.capacity = capacity, .nodes = nodes});
        benchmark::DoNotOptimize(result.in.size());
    }
    count_accesses(state);
}
void change_sets_by_thrust(benchmark::State& state) { run(state, thrust::tbb::par); }
BENCHMARK(change_sets_by_thrust)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
