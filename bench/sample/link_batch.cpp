#include <gneiss/sample/link_batch_builder.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/eval/candidate_sets.hpp>
#include <gneiss/sample/candidate_negatives.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

// Assembly of a batch in occurrences per second, compared with sorting its ids and finding the distinct ones with the
// standard library.
namespace {

using namespace gneiss;

std::vector<edge> random_edges(std::size_t count, std::uint64_t nodes) {
    std::vector<edge> edges(count);
    random_stream draw(random_key(1, random_domain::user));
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(nodes)), static_cast<relation_id>(draw.below(1000)),
            static_cast<node_id>(draw.below(nodes))};
    return edges;
}

void build_link_batch(benchmark::State& state, bool filtered) {
    const auto positives = static_cast<std::size_t>(state.range(0));
    const id_range all{0, 10'000'000};
    const std::vector<edge> edges = random_edges(positives, all.end);
    const negative_pool resident(resident_nodes({&all, 1}), edges);
    link_batch_builder builder({.filtered = filtered}, 1);
    mini_batch_arena arena;
    std::uint64_t index = 0, occurrences = 0;
    for (auto _ : state) {
        const link_batch batch = builder.build({0, {0, 0, index++}}, edges, resident, arena);
        occurrences += batch.node_occurrences.size();
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(occurrences));
}
BENCHMARK_CAPTURE(build_link_batch, plain, false)->Arg(10000)->Arg(50000);
BENCHMARK_CAPTURE(build_link_batch, filtered, true)->Arg(10000);

void sort_and_search(benchmark::State& state) {
    const auto positives = static_cast<std::size_t>(state.range(0));
    std::vector<std::uint32_t> ids(2 * positives + 20000), sorted, local(ids.size());
    random_stream draw(random_key(1, random_domain::user));
    for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(draw.below(10'000'000));
    for (auto _ : state) {
        sorted = ids;
        std::sort(sorted.begin(), sorted.end());
        sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
        for (std::size_t i = 0; i < ids.size(); ++i)
            local[i] =
                static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), ids[i]) - sorted.begin());
        benchmark::DoNotOptimize(local.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK(sort_and_search)->Arg(10000)->Arg(50000);

void draw_negatives(benchmark::State& state) {
    const id_range all{0, 10'000'000};
    const std::vector<edge> edges = random_edges(1 << 20, all.end);
    const negative_pool resident(resident_nodes({&all, 1}), edges);
    const negative_sampler sampler({}, 1);
    std::vector<node_id> list(1000);
    std::uint64_t index = 0;
    for (auto _ : state) {
        sampler.draw({0, {0, 0, index++}}, 0, side::tail, resident, list);
        benchmark::DoNotOptimize(list.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}
BENCHMARK(draw_negatives);

// A list of 1000 from every k-th node: a bitmap of all nodes for small k, else a list.
void draw_candidates(benchmark::State& state) {
    const id_range all{0, 10'000'000};
    const negative_pool resident(resident_nodes({&all, 1}));
    node_set some(all.end);
    for (std::uint64_t node = 0; node < all.end; node += static_cast<std::uint64_t>(state.range(0)))
        some.insert(static_cast<node_id>(node));
    some.finish();
    candidate_sets sets(std::move(some));
    sets.index();
    const candidate_negatives negatives({}, 1, std::make_shared<const candidate_sets>(std::move(sets)));
    const std::vector<edge> positives = random_edges(500, all.end);
    std::vector<node_id> list(1000);
    std::uint64_t index = 0;
    for (auto _ : state) {
        negatives.draw({0, {0, 0, index++}}, 0, side::tail, positives, resident, list);
        benchmark::DoNotOptimize(list.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}
BENCHMARK(draw_candidates)->Arg(2)->Arg(100);

// Limit: a list of all candidates in memory, 4 bytes each.
void raw_candidates(benchmark::State& state) {
    std::vector<node_id> candidates, list(1000);
    for (std::uint64_t node = 0; node < 10'000'000; node += static_cast<std::uint64_t>(state.range(0)))
        candidates.push_back(static_cast<node_id>(node));
    std::uint64_t index = 0;
    for (auto _ : state) {
        const random_key key = random_key(1, random_domain::user).with(index++);
        for (std::size_t j = 0; j < list.size(); ++j)
            list[j] = candidates[static_cast<std::size_t>(below(key[j], candidates.size()))];
        benchmark::DoNotOptimize(list.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
}
BENCHMARK(raw_candidates)->Arg(2)->Arg(100);

} // namespace
