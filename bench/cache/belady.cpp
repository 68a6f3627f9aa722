#include <gneiss/cache/belady.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/s3_fifo.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include "cache/traces.hpp"

// Change sets of several policies, compared with loops over the accesses that only read, and that only write to an
// array over all nodes.
namespace {

using namespace cache_bench;

/// Next uses, then every change set.
void change_sets(benchmark::State& state) {
    memory_trace& of = trace();
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state)
        belady(of, {.capacity = capacity, .nodes = state.range(1) != 0 ? nodes : 0}, executor,
            [](std::size_t, const change_set& changes) { benchmark::DoNotOptimize(changes.in.data()); });
    count_accesses(state);
}
BENCHMARK(change_sets)
    ->ArgNames({"threads", "direct"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// Only the pass that finds next uses.
void next_uses(benchmark::State& state) {
    memory_trace& of = trace();
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        belady_policy policy(of, {.capacity = capacity, .nodes = state.range(1) != 0 ? nodes : 0}, executor);
        benchmark::DoNotOptimize(policy.fill().in.data());
    }
    count_accesses(state);
}
BENCHMARK(next_uses)
    ->ArgNames({"threads", "direct"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

template <class Policy>
void policy(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<node_id> room;
    change_set changes;
    for (auto _ : state) {
        Policy decides(capacity);
        for (std::size_t batch = 0; batch < batches; ++batch) decides.next(of.read(batch, room), changes);
    }
    count_accesses(state);
}
BENCHMARK(policy<lru>)->Unit(benchmark::kMillisecond);
BENCHMARK(policy<s3_fifo>)->Unit(benchmark::kMillisecond);

/// Finds the slot of each access in a full cache.
void slots_found(benchmark::State& state) {
    memory_trace& of = trace();
    slot_table table(nodes, capacity, state.range(0) != 0 ? slot_table_kind::direct : slot_table_kind::hashed);
    for (std::size_t slot = 0; slot < capacity; ++slot)
        table.insert(static_cast<node_id>(slot * (nodes / capacity)), static_cast<cache_slot>(slot));
    std::vector<node_id> room;
    std::vector<cache_slot> found(batch_rows);
    for (auto _ : state)
        for (std::size_t batch = 0; batch < batches; ++batch) {
            table.find(of.read(batch, room), found);
            benchmark::DoNotOptimize(found.data());
        }
    count_accesses(state);
}
BENCHMARK(slots_found)->ArgName("direct")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void read_by_hand(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<node_id> room;
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (std::size_t batch = 0; batch < batches; ++batch)
            for (const node_id id : of.read(batch, room)) sum += id;
        benchmark::DoNotOptimize(sum);
    }
    count_accesses(state);
}
BENCHMARK(read_by_hand)->Unit(benchmark::kMillisecond);

void last_access_by_hand(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<std::uint32_t> last(nodes);
    std::vector<node_id> room;
    for (auto _ : state)
        for (std::size_t batch = 0; batch < batches; ++batch)
            for (const node_id id : of.read(batch, room)) last[id] = static_cast<std::uint32_t>(batch);
    benchmark::DoNotOptimize(last.data());
    count_accesses(state);
}
BENCHMARK(last_access_by_hand)->Unit(benchmark::kMillisecond);

} // namespace
