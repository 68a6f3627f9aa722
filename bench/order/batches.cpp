#include <gneiss/order/batches.hpp>

#include <benchmark/benchmark.h>

#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace gneiss;

constexpr std::size_t batch = 10000;

// Batches of a state of `buckets` edge buckets with `edges` edges in total; items are edges.
void fill(benchmark::State& state, batch_scope from) {
    const auto buckets = static_cast<std::size_t>(state.range(0));
    const auto edges = static_cast<std::uint64_t>(state.range(1));
    const state_batches batches(
        std::vector<edge_index>(buckets, edges / buckets), batch, edge_shuffle_key(1, 0, 0), from);
    std::vector<edge_position> out(batch);
    std::uint64_t number = 0, items = 0;
    for (auto _ : state) {
        const auto part = std::span(out).first(static_cast<std::size_t>(batches.batch_edges(number)));
        batches.fill(number, part);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
        items += part.size();
        number = (number + 1) % batches.size();
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(items));
}
BENCHMARK_CAPTURE(fill, state, batch_scope::state)
    ->Name("order/batches/fill_from_state")
    ->Args({15, 1 << 20})
    ->Args({15, 5 << 20})
    ->Args({64, 100'000'000})
    ->Args({1024, 100'000'000});
BENCHMARK_CAPTURE(fill, bucket, batch_scope::bucket)->Name("order/batches/fill_from_bucket")->Args({64, 100'000'000});

void one_by_one(benchmark::State& state) {
    const state_batches batches(std::vector<edge_index>(64, 100'000'000 / 64), batch, edge_shuffle_key(1, 0, 0));
    std::uint64_t position = 0;
    for (auto _ : state) benchmark::DoNotOptimize(batches.at(3, position = (position + 1) % batch));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(one_by_one)->Name("order/batches/at");

// Replaced alternative: a table with an entry per edge, shuffled; reading it in order is the limit, shuffling the
// price.
void raw_table(benchmark::State& state) {
    std::vector<std::uint32_t> table(static_cast<std::size_t>(state.range(0)));
    std::iota(table.begin(), table.end(), 0U);
    std::mt19937_64 draw(1);
    for (auto _ : state) {
        std::shuffle(table.begin(), table.end(), draw);
        benchmark::DoNotOptimize(table.data());
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(raw_table)->Name("order/batches/raw_shuffled_table")->Arg(1 << 20)->Arg(1 << 24);

} // namespace
