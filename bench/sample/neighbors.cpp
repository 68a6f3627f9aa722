#include <gneiss/sample/neighbor.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/rmat.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/layerwise.hpp>

#include "sample/rmat_graph.hpp"

// Sampled edges per second on RMAT, 2^20 nodes, 16 M edges, incoming, batches of 1000 seeds, 10 neighbors per hop;
// compared with a hand-written loop that numbers nodes with a standard hash map, one that only loads the same number of
// random neighbors, and one that only draws.
namespace {

using namespace gneiss;

constexpr std::uint64_t nodes = bench::rmat_nodes;

/// Seeds of 16 batches in turn, drawn in advance.
struct seed_batches {
    std::vector<std::vector<node_id>> all;

    seed_batches() : all(16, std::vector<node_id>(1000)) {
        for (std::size_t batch = 0; batch < all.size(); ++batch) {
            const keyed_permutation order(nodes, random_key(1, random_domain::user).with(batch));
            for (std::size_t i = 0; i < all[batch].size(); ++i) all[batch][i] = static_cast<node_id>(order(i));
        }
    }
    [[nodiscard]] const std::vector<node_id>& operator[](std::uint64_t batch) const { return all[batch % all.size()]; }
};

std::vector<hop_fanout> hops(const benchmark::State& state) {
    return std::vector<hop_fanout>(static_cast<std::size_t>(state.range(0)), hop_fanout{.in = 10});
}

template <class Sampler, class E, class... More>
void sample(benchmark::State& state, Sampler& sampler, const E& executor, const More&... more) {
    const csr_graph<>& of = bench::rmat_graph();
    const seed_batches seeds;
    mini_batch_arena arena;
    std::uint64_t batch = 0;
    std::int64_t edges = 0;
    for (auto _ : state) {
        const std::span<const node_id> from = seeds[batch];
        edges +=
            static_cast<std::int64_t>(sampler.sample({0, {0, 0, batch++}}, of, from, executor, arena, more...).edges());
    }
    state.SetItemsProcessed(edges);
}

void dense(benchmark::State& state) {
    dense_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, serial_executor{});
}
BENCHMARK(dense)->DenseRange(1, 4)->Unit(benchmark::kMicrosecond);

void dense_two_threads(benchmark::State& state) {
    dense_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, tbb_executor(2));
}
BENCHMARK(dense_two_threads)->DenseRange(2, 4)->UseRealTime()->Unit(benchmark::kMicrosecond);

void layered(benchmark::State& state) {
    neighbor_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, serial_executor{});
}
BENCHMARK(layered)->DenseRange(1, 4)->Unit(benchmark::kMicrosecond);

void layered_two_threads(benchmark::State& state) {
    neighbor_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, tbb_executor(2));
}
BENCHMARK(layered_two_threads)->DenseRange(2, 4)->UseRealTime()->Unit(benchmark::kMicrosecond);

void layered_by_weight(benchmark::State& state) {
    neighbor_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, serial_executor{}, std::span<const excluded_edge<>>{},
        [](edge_index id) { return static_cast<float>(id % 7); });
}
BENCHMARK(layered_by_weight)->Arg(2)->Unit(benchmark::kMicrosecond);

/// Nodes of each hop drawn together, in list entries per second: all lists of the known nodes are read.
std::int64_t entries_of(const neighbor_sample<>& sample) {
    std::int64_t entries = 0;
    for (std::size_t hop = 0; hop < sample.hops(); ++hop)
        for (const node_id v : sample.nodes.first(sample.node_counts[hop]))
            entries += bench::rmat_graph().in().degree(v);
    return entries;
}
void layerwise(benchmark::State& state) {
    layerwise_sampler<> sampler({std::vector<hop_fanout>(static_cast<std::size_t>(state.range(0)), {.in = 1000})}, 1);
    const seed_batches seeds;
    mini_batch_arena arena;
    std::vector<std::int64_t> each(seeds.all.size());
    for (std::uint64_t b = 0; b < each.size(); ++b)
        each[b] = entries_of(sampler.sample(
            {0, {0, 0, b}}, bench::rmat_graph(), std::span<const node_id>(seeds[b]), serial_executor{}, arena));
    std::uint64_t batch = 0;
    std::int64_t entries = 0;
    for (auto _ : state) {
        const std::uint64_t b = batch++ % each.size();
        benchmark::DoNotOptimize(sampler.sample(
            {0, {0, 0, b}}, bench::rmat_graph(), std::span<const node_id>(seeds[b]), serial_executor{}, arena));
        entries += each[b];
    }
    state.SetItemsProcessed(entries);
}
BENCHMARK(layerwise)->DenseRange(1, 3)->Unit(benchmark::kMicrosecond);

/// Limit of `layerwise`: a loop that draws a number for each entry of the same lists, and keeps the least 1000.
void layerwise_by_hand(benchmark::State& state) {
    layerwise_sampler<> sampler({std::vector<hop_fanout>(static_cast<std::size_t>(state.range(0)), {.in = 1000})}, 1);
    const seed_batches seeds;
    mini_batch_arena arena;
    const auto sample =
        sampler.sample({}, bench::rmat_graph(), std::span<const node_id>(seeds[0]), serial_executor{}, arena);
    const random_key key = random_key(1, random_domain::user);
    std::vector<double> least;
    std::int64_t entries = 0;
    for (auto _ : state) {
        for (std::size_t hop = 0; hop < sample.hops(); ++hop) {
            least.clear();
            double last = 1;
            for (const node_id v : sample.nodes.first(sample.node_counts[hop]))
                for (const node_id u : bench::rmat_graph().in().neighbors(v)) {
                    const double draw = to_unit(key.with(u)[0]);
                    if (draw >= last) continue;
                    least.push_back(draw);
                    if (least.size() < 8000) continue;
                    std::ranges::nth_element(least, least.begin() + 1000);
                    least.resize(1000);
                    last = std::ranges::max(least);
                }
            benchmark::DoNotOptimize(least.data());
        }
        entries += entries_of(sample);
    }
    state.SetItemsProcessed(entries);
}
BENCHMARK(layerwise_by_hand)->DenseRange(1, 3)->Unit(benchmark::kMicrosecond);

/// Link prediction: the edges that a batch predicts are found in the lists of their ends, most of them of hubs, and
/// excluded.
void dense_excluding_edges(benchmark::State& state) {
    const rmat<> source({.nodes = nodes, .edges = 16 * nodes, .seed = 1});
    std::vector<edge> some(10'000);
    source.fill(0, some);
    std::vector<excluded_edge<>> excluded;
    for (const edge& e : some) excluded.push_back({e.source, e.destination, excluded.size()});
    dense_sampler<> sampler({hops(state)}, 1);
    sample(state, sampler, serial_executor{}, std::span<const excluded_edge<>>(excluded));
}
BENCHMARK(dense_excluding_edges)->Arg(2)->Unit(benchmark::kMicrosecond);

void views_and_their_transposition(benchmark::State& state) {
    dense_sampler<> sampler({hops(state)}, 1);
    mini_batch_arena arena;
    const seed_batches seeds;
    const auto result =
        sampler.sample({}, bench::rmat_graph(), std::span<const node_id>(seeds[0]), serial_executor{}, arena);
    layer_stack layers;
    std::int64_t edges = 0;
    for (auto _ : state) {
        layers.assign(result, serial_executor{});
        edges += static_cast<std::int64_t>(result.edges());
    }
    state.SetItemsProcessed(edges);
}
BENCHMARK(views_and_their_transposition)->Arg(3)->Unit(benchmark::kMicrosecond);

/// The same hops with a sequential generator and rejection of repeated positions.
void hash_map_by_hand(benchmark::State& state) {
    const csr<>& in = bench::rmat_graph().in();
    const seed_batches seeds;
    random_stream random(random_key(1, random_domain::user));
    std::uint64_t batch = 0;
    std::int64_t edges = 0;
    for (auto _ : state) {
        std::vector<node_id> known = seeds[batch++];
        std::unordered_map<node_id, std::uint32_t> numbers;
        for (std::size_t i = 0; i < known.size(); ++i) numbers.emplace(known[i], static_cast<std::uint32_t>(i));
        std::vector<std::uint32_t> offsets, neighbors;
        for (std::int64_t hop = 0; hop < state.range(0); ++hop)
            for (std::size_t t = 0, end = known.size(); t < end; ++t) {
                const auto list = in.neighbors(known[t]);
                std::uint32_t drawn[10];
                const std::size_t count = std::min<std::size_t>(list.size(), 10);
                for (std::size_t j = 0; j < count; ++j) {
                    drawn[j] = static_cast<std::uint32_t>(list.size() <= 10 ? j : random.below(list.size()));
                    for (std::size_t i = 0; i < j; ++i)
                        if (drawn[i] == drawn[j]) {
                            --j;
                            break;
                        }
                }
                offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
                for (std::size_t j = 0; j < count; ++j) {
                    const auto [at, fresh] =
                        numbers.try_emplace(list[drawn[j]], static_cast<std::uint32_t>(known.size()));
                    if (fresh) known.push_back(at->first);
                    neighbors.push_back(at->second);
                }
            }
        edges += static_cast<std::int64_t>(neighbors.size());
        benchmark::DoNotOptimize(neighbors.data());
    }
    state.SetItemsProcessed(edges);
}
BENCHMARK(hash_map_by_hand)->DenseRange(1, 3)->Unit(benchmark::kMicrosecond);

/// Cost of the loads alone: random elements, each prefetched 64 elements ahead. The speedup by threads is the most that
/// the machine allows.
template <class E>
void load_by_hand(benchmark::State& state, const E& executor) {
    const auto all = bench::rmat_graph().in().neighbors();
    std::vector<std::size_t> places(200000);
    random_stream random(random_key(1, random_domain::user));
    for (std::size_t& place : places) place = static_cast<std::size_t>(random.below(all.size()));
    std::vector<node_id> found(places.size());
    for (auto _ : state) {
        parallel_for(executor, places.size(), 4096, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) {
                prefetch(all.data() + places[std::min(i + 64, places.size() - 1)]);
                found[i] = all[places[i]];
            }
        });
        benchmark::DoNotOptimize(found.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * places.size()));
}

void loads_by_hand(benchmark::State& state) { load_by_hand(state, serial_executor{}); }
BENCHMARK(loads_by_hand)->Unit(benchmark::kMicrosecond);

void loads_by_hand_two_threads(benchmark::State& state) { load_by_hand(state, tbb_executor(2)); }
BENCHMARK(loads_by_hand_two_threads)->UseRealTime()->Unit(benchmark::kMicrosecond);

void draw_of_a_set(benchmark::State& state) {
    std::vector<std::uint32_t> drawn(10), scratch;
    const auto degree = static_cast<std::uint32_t>(state.range(0));
    std::uint64_t node = 0;
    for (auto _ : state) {
        detail::draw_distinct(random_key(1, random_domain::user).with(node++), 0, degree, drawn, scratch);
        benchmark::DoNotOptimize(drawn.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * drawn.size()));
}
BENCHMARK(draw_of_a_set)->Arg(11)->Arg(100)->Arg(10000);

} // namespace
