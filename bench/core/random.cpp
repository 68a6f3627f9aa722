#include <gneiss/core/random.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>

namespace {

using gneiss::keyed_permutation;
using gneiss::random_domain;
using gneiss::random_key;

constexpr std::uint64_t bound = 8'600'000;

// Limit: a sequential generator without random access.
void standard_generator(benchmark::State& state) {
    std::mt19937_64 generator(1);
    for (auto _ : state) benchmark::DoNotOptimize(gneiss::below(generator(), bound));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(standard_generator)->Name("random/raw_mt19937_64");

void keyed_draws(benchmark::State& state) {
    const random_key key{1, random_domain::negative};
    std::uint64_t draw = 0;
    for (auto _ : state) benchmark::DoNotOptimize(gneiss::below(key[draw++], bound));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(keyed_draws)->Name("random/draw");

void fresh_keys(benchmark::State& state) {
    const random_key key{1, random_domain::neighbor};
    std::uint64_t node = 0;
    for (auto _ : state) benchmark::DoNotOptimize(gneiss::below(key.with(node++)[0], bound));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(fresh_keys)->Name("random/key_of_a_node_and_draw");

void permute(benchmark::State& state) {
    const keyed_permutation permutation(static_cast<std::uint64_t>(state.range(0)), {1, random_domain::edge_shuffle});
    std::uint64_t i = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(permutation(i));
        i = i + 1 == permutation.size() ? 0 : i + 1;
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(permute)->Name("random/keyed_permutation")->Arg(1000)->Arg(1 << 20)->Arg(std::int64_t{1} << 32);

} // namespace
