#include <gneiss/sample/link_batches.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/engine/threads.hpp>

// Batches of 10,000 edges, 10 chunks with 1000 negatives for each end, of a state of 4 M edges between 1 M nodes in 8
// partitions: positives, i.e. edges, per second. Compared with a table of shuffled edges, whose ids are sorted and
// searched with the standard library.
namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = 1 << 20, batch_edges = 10'000;
constexpr std::size_t edge_count = std::size_t{1} << 22, chunks = 10, per_chunk = 1000;

std::vector<edge> random_edges() {
    std::vector<edge> edges(edge_count);
    random_stream draw(random_key(1, random_domain::user));
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(1000)),
            static_cast<node_id>(draw.below(nodes))};
    return edges;
}

/// The only state of a graph in memory.
struct one_state {
    bucketed_edges all{random_edges(), {.partitions = 8, .nodes = nodes}};
    memory_budget budget;
    edge_buffer buffer{all.open([] { return any_engine(threads_engine(1)); }).loader, {}, budget};
    std::unique_ptr<link_state> state;

    one_state() {
        const epoch_plan plan = in_memory_order(8)(0);
        buffer.begin_epoch(plan);
        state = std::make_unique<link_state>(
            plan[0], all.rows(), buffer.acquire(0), batch_edges, batch_scope::state, 1, 0, 0);
    }
};

void link_batches(benchmark::State& state, bool filtered) {
    const one_state of;
    link_sampler<> sampler({.per_chunk = per_chunk, .chunks = chunks, .filtered = filtered}, 1);
    mini_batch_arena arena;
    std::uint64_t index = 0;
    std::int64_t edges = 0;
    for (auto _ : state) {
        const link_batch batch = sampler.sample({0, {0, 0, index}}, *of.state, arena);
        benchmark::DoNotOptimize(batch.nodes.data());
        edges += static_cast<std::int64_t>(batch.positives());
        index = (index + 1) % of.state->size();
    }
    state.SetItemsProcessed(edges);
}
BENCHMARK_CAPTURE(link_batches, plain, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(link_batches, filtered, true)->Unit(benchmark::kMicrosecond);

void link_batches_by_hand(benchmark::State& state) {
    const std::vector<edge> all = random_edges();
    std::vector<std::uint32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0U);
    std::mt19937_64 draw(1);
    std::shuffle(order.begin(), order.end(), draw);
    std::vector<node_id> ids(2 * (batch_edges + chunks * per_chunk)), sorted;
    std::vector<std::uint32_t> local(ids.size());
    std::size_t first = 0;
    for (auto _ : state) {
        for (std::size_t i = 0; i < batch_edges; ++i) {
            const edge& e = all[order[first + i]];
            ids[i] = e.source;
            ids[batch_edges + i] = e.destination;
        }
        for (std::size_t i = 2 * batch_edges; i < ids.size(); ++i) ids[i] = static_cast<node_id>(draw() % nodes);
        sorted = ids;
        std::ranges::sort(sorted);
        const auto repeated = std::ranges::unique(sorted);
        sorted.erase(repeated.begin(), repeated.end());
        for (std::size_t i = 0; i < ids.size(); ++i)
            local[i] = static_cast<std::uint32_t>(std::ranges::lower_bound(sorted, ids[i]) - sorted.begin());
        benchmark::DoNotOptimize(local.data());
        first = first + 2 * batch_edges <= all.size() ? first + batch_edges : 0;
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch_edges));
}
BENCHMARK(link_batches_by_hand)->Unit(benchmark::kMicrosecond);

} // namespace
