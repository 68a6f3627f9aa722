#include <gneiss/core/executor/algorithms.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace {

using namespace gneiss;

std::vector<std::uint64_t> random_words(std::size_t size) {
    std::vector<std::uint64_t> words(size);
    random_stream random(random_key{1, random_domain::user});
    for (std::uint64_t& word : words) word = random();
    return words;
}

constexpr std::size_t many = 1 << 22;

void raw_sum(benchmark::State& state) {
    const auto words = random_words(many);
    for (auto _ : state) benchmark::DoNotOptimize(std::accumulate(words.begin(), words.end(), std::uint64_t{0}));
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(raw_sum)->Name("executor/sum/raw_loop");

template <class Executor>
void sum(benchmark::State& state) {
    const Executor executor;
    const auto words = random_words(many);
    for (auto _ : state)
        benchmark::DoNotOptimize(
            parallel_reduce(executor, many, 65536, std::uint64_t{0}, [&](std::size_t begin, std::size_t end) {
                return std::accumulate(words.data() + begin, words.data() + end, std::uint64_t{0});
            }));
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(sum<serial_executor>)->Name("executor/sum/serial")->UseRealTime();
BENCHMARK(sum<tbb_executor>)->Name("executor/sum/tbb")->UseRealTime();

/// Hashes in parallel, folded in order by the caller; a raw loop does both, one after the other.
void raw_fold(benchmark::State& state) {
    const auto words = random_words(many);
    for (auto _ : state) {
        std::uint64_t folded = 0;
        for (const std::uint64_t word : words) folded = folded * 31 + mix64(mix64(mix64(word)));
        benchmark::DoNotOptimize(folded);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(raw_fold)->Name("executor/in_order/raw_loop");

template <class Executor>
void fold_in_order(benchmark::State& state) {
    const Executor executor;
    const auto words = random_words(many);
    std::vector<std::uint64_t> hashed(many);
    for (auto _ : state) {
        std::uint64_t folded = 0;
        parallel_for_in_order(
            executor, many, 4096,
            [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i) hashed[i] = mix64(mix64(mix64(words[i])));
            },
            [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i) folded = folded * 31 + hashed[i];
            });
        benchmark::DoNotOptimize(folded);
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(fold_in_order<serial_executor>)->Name("executor/in_order/serial")->UseRealTime();
BENCHMARK(fold_in_order<tbb_executor>)->Name("executor/in_order/tbb")->UseRealTime();

void raw_sort(benchmark::State& state) {
    const auto words = random_words(many);
    for (auto _ : state) {
        auto copy = words;
        std::sort(copy.begin(), copy.end());
        benchmark::DoNotOptimize(copy.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(raw_sort)->Name("executor/sort/raw_std_sort");

template <class Executor>
void sort(benchmark::State& state) {
    const Executor executor;
    const auto words = random_words(many);
    for (auto _ : state) {
        auto copy = words;
        parallel_sort(executor, copy);
        benchmark::DoNotOptimize(copy.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(many));
}
BENCHMARK(sort<tbb_executor>)->Name("executor/sort/tbb")->UseRealTime();

// Overhead of one task: the reason for tasks of microseconds.
void empty_tasks(benchmark::State& state) {
    const tbb_executor executor;
    for (auto _ : state) executor.run(1000, [](std::size_t task) { benchmark::DoNotOptimize(task); });
    state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(empty_tasks)->Name("executor/empty_tasks/tbb")->UseRealTime();

} // namespace
