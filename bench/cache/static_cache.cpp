#include <gneiss/cache/static_cache.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/cache/miss_ratio_sampler.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/slot_table.hpp>

#include "cache/traces.hpp"

// The static cache of the rows with the most visits: choosing them, its hits, and its miss ratio estimated from watched
// rows. Compared with a counter per row, and with a look-up of each access in an array over all nodes.
namespace {

using namespace cache_bench;

void visits_ranked(benchmark::State& state) {
    memory_trace& of = trace();
    for (auto _ : state) benchmark::DoNotOptimize(rank_by(count_visits(of, nodes), capacity).data());
    count_accesses(state);
}
BENCHMARK(visits_ranked)->Unit(benchmark::kMillisecond);

void miss_ratio_sampled(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<node_id> room;
    double ratio = 0;
    for (auto _ : state) {
        miss_ratio_sampler sampler(nodes);
        for (std::size_t batch = 0; batch < batches; ++batch) sampler.add(of.read(batch, room));
        ratio = sampler.miss_ratio(capacity);
        benchmark::DoNotOptimize(ratio);
    }
    count_accesses(state);
    state.counters["misses"] = ratio;
}
BENCHMARK(miss_ratio_sampled)->Unit(benchmark::kMillisecond);

/// Limit of both: a counter per row.
void visits_by_hand(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<node_id> room;
    for (auto _ : state) {
        std::vector<std::uint32_t> visits(nodes);
        for (std::size_t batch = 0; batch < batches; ++batch)
            for (const node_id id : of.read(batch, room)) ++visits[id];
        benchmark::DoNotOptimize(visits.data());
    }
    count_accesses(state);
}
BENCHMARK(visits_by_hand)->Unit(benchmark::kMillisecond);

std::vector<node_id> ranked() { return rank_by(count_visits(trace(), nodes), capacity); }

void static_cache_hits(benchmark::State& state) {
    memory_trace& of = trace();
    static_cache policy(ranked(), capacity);
    cache_counts counts;
    for (auto _ : state) {
        counts = simulate(policy, of);
        benchmark::DoNotOptimize(counts.hits);
    }
    count_accesses(state);
    state.counters["misses"] = counts.miss_ratio();
}
BENCHMARK(static_cache_hits)->Unit(benchmark::kMillisecond);

void static_hits_by_hand(benchmark::State& state) {
    memory_trace& of = trace();
    std::vector<node_id> room;
    std::vector<std::uint8_t> here(nodes);
    for (const node_id id : ranked()) here[id] = 1;
    for (auto _ : state) {
        std::uint64_t hits = 0;
        for (std::size_t batch = 0; batch < batches; ++batch)
            for (const node_id id : of.read(batch, room)) hits += here[id];
        benchmark::DoNotOptimize(hits);
    }
    count_accesses(state);
}
BENCHMARK(static_hits_by_hand)->Unit(benchmark::kMillisecond);

} // namespace
