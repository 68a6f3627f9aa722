#include <gneiss/sample/macro_batch.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/neighbor.hpp>

#include "sample/rmat_graph.hpp"

// Both stages of Joestar's sampling, in edges per second: RMAT, 2^20 nodes, 16 M edges, incoming; large batches of 16
// batches of 1000 seeds, 15, 10 and 5 neighbors. Compared with a loop that only loads as many random neighbors of as
// many random nodes. The argument is the number of threads.
namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = bench::rmat_nodes;
constexpr std::size_t batch = 1000, batches = 16;

const neighbor_options& hops() {
    static const neighbor_options result{.fanout = parse_fanout("15,10,5")};
    return result;
}

/// Returns the nodes of large batch `number`, ascending.
std::vector<node_id> large_batch(std::uint64_t number) {
    const keyed_permutation order(nodes, random_key(1, random_domain::user).with(number));
    std::vector<node_id> result(batch * batches);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<node_id>(order(i));
    std::ranges::sort(result);
    return result;
}

/// The first stage: the sample of a large batch, and its block.
void made(benchmark::State& state, second_stage form) {
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    const csr_graph<>& of = bench::rmat_graph();
    std::vector<std::vector<node_id>> seeds;
    for (std::uint64_t k = 0; k < 4; ++k) seeds.push_back(large_batch(k));
    neighbor_sampler<> sampler(hops(), 1);
    macro_batch_builder builder;
    mini_batch_arena scratch, arena;
    std::uint64_t number = 0;
    std::int64_t edges = 0;
    for (auto _ : state) {
        const std::span<const node_id> from = seeds[number % seeds.size()];
        const auto drawn = sampler.sample({0, {0, 0, number++}}, of, from, executor, scratch);
        benchmark::DoNotOptimize(builder.build(drawn, form, executor, arena));
        edges += static_cast<std::int64_t>(drawn.edges());
    }
    state.SetItemsProcessed(edges);
}
BENCHMARK_CAPTURE(made, hops, second_stage::hops)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(made, lists, second_stage::lists)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Limit of the first stage: as many loads of random neighbors of random nodes.
void random_neighbors(benchmark::State& state) {
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    const csr<>& in = bench::rmat_graph().in();
    constexpr std::size_t count = std::size_t{1} << 21;
    const random_key key(2, random_domain::user);
    std::vector<node_id> from(count), to(count);
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<node_id>(below(key[i], nodes));
    for (auto _ : state) {
        parallel_for(executor, count, 4096, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) {
                const auto list = in.neighbors(from[i]);
                to[i] = list.empty() ? 0 : list[static_cast<std::size_t>(below(key[i], list.size()))];
            }
        });
        benchmark::DoNotOptimize(to.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}
BENCHMARK(random_neighbors)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

/// The second stage: a batch of the macro-batch.
void sampled(benchmark::State& state, second_stage form) {
    const tbb_executor executor(static_cast<std::size_t>(state.range(0)));
    const std::vector<node_id> large = large_batch(0);
    neighbor_sampler<> first(hops(), 1);
    macro_batch_builder builder;
    mini_batch_arena scratch, block, arena;
    const macro_batch from(
        builder.build(first.sample({}, bench::rmat_graph(), std::span<const node_id>(large), executor, scratch), form,
            executor, block));
    std::vector<node_id> shuffled = large;
    shuffle(shuffled, random_key(3, random_domain::user));
    second_stage_sampler sampler(hops(), 1);
    std::uint64_t k = 0;
    std::int64_t edges = 0;
    for (auto _ : state) {
        const auto seeds = std::span<const node_id>(shuffled).subspan(k % batches * batch, batch);
        edges += static_cast<std::int64_t>(sampler.sample({0, {0, 0, k++}}, from, seeds, executor, arena).edges());
    }
    state.SetItemsProcessed(edges);
}
BENCHMARK_CAPTURE(sampled, hops, second_stage::hops)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sampled, lists, second_stage::lists)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);

} // namespace
