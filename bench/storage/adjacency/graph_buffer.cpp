// The graph of a state of c partitions. Edges per second of merging its blocks into one list per node, compared with a
// copy of the same number of neighbors; a swap of some of 16 resident partitions of 32, in edges of new blocks per
// second and as a rate over all resident ones; sampled edges per second, 10 of each of 256 nodes at a time, of blocks,
// of merged lists and of a hand-written CSR. RMAT, 2^20 nodes in random order, 16 M edges, incoming, all partitions
// resident except in swaps, everything in memory.

#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "storage/stored_graph.hpp"

namespace {

using namespace gneiss;
using storage_bench::stored_graph;

constexpr auto in = neighbor_direction::in;

const stored_graph& cut_into(std::uint32_t partitions) {
    static std::map<std::uint32_t, stored_graph> known;
    return known.try_emplace(partitions, partitions, storage_bench::node_places::shuffled).first->second;
}

/// A store with all partitions resident, in one form.
struct resident {
    memory_budget budget;
    graph_buffer buffer;
    std::shared_ptr<const resident_graph> graph;

    resident(std::uint32_t partitions, graph_form form)
        : resident(cut_into(partitions).store(), in_memory_order(partitions)(0), {.form = form}) {}

private:
    resident(const bucket_store& store, const epoch_plan& states, const graph_buffer_options& options)
        : buffer(
              store, [] { return any_engine(threads_engine()); }, in,
              graph_buffer::need(states, store, in, options).bytes, budget, options) {
        buffer.begin_epoch(states);
        graph = buffer.acquire(0);
    }
};

void merge(benchmark::State& state) {
    const auto partitions = static_cast<std::uint32_t>(state.range(0));
    const bucket_store& store = cut_into(partitions).store();
    const epoch_plan all = in_memory_order(partitions)(0);
    std::vector<std::vector<loaded_block>> loaded(partitions);
    for (partition_id own = 0; own < partitions; ++own)
        for (partition_id other = 0; other < partitions; ++other)
            loaded[own].push_back(store.read({other, own}, edge_direction::in));
    for (auto _ : state) {
        resident_csr lists(store.rows(), all[0].resident, store.edges(), {});
        std::vector<resident_csr::part> parts;
        for (const auto& blocks : loaded) {
            parts.clear();
            for (partition_id other = 0; other < partitions; ++other)
                if (blocks[other].block.edges() != 0)
                    parts.push_back({.partner = other, .block = &blocks[other].block});
            lists.append(parts);
        }
        benchmark::DoNotOptimize(lists.neighbors().data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(store.edges()) * state.iterations());
}
BENCHMARK(merge)->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

void copy_of_as_many_neighbors(benchmark::State& state) {
    const std::vector<node_id> from(static_cast<std::size_t>(storage_bench::edges));
    for (auto _ : state) {
        aligned_buffer<node_id> to(from.size());
        advise_huge_pages(to.data(), to.size_bytes());
        std::memcpy(to.data(), from.data(), to.size_bytes());
        benchmark::DoNotOptimize(to.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(from.size()) * state.iterations());
}
BENCHMARK(copy_of_as_many_neighbors)->Unit(benchmark::kMillisecond);

/// Replaces k of c partitions: c² − (c − k)² blocks are read and verified, the rest is shared, or all is merged.
void swap(benchmark::State& state, graph_form form) {
    constexpr std::uint32_t partitions = 32, slots = 16;
    const auto swapped = static_cast<std::uint32_t>(state.range(0));
    const bucket_store& store = cut_into(partitions).store();
    epoch_plan states(2);
    for (std::uint32_t i = 0; i < slots; ++i) {
        states[0].resident.push_back(i);
        states[1].resident.push_back(i + swapped);
    }
    memory_budget budget;
    graph_buffer buffer(store, [] { return any_engine(threads_engine()); }, in,
        graph_buffer::need(states, store, in, {.form = form}).bytes, budget, {.form = form});
    std::size_t at = 0;
    const auto go_to = [&](std::size_t s) {
        buffer.begin_epoch({states[s]});
        return buffer.acquire(0)->edges();
    };
    const edge_index resident = go_to(at);
    edge_index fresh = 0;
    for (const partition_id i : states[1].resident)
        for (const partition_id j : states[1].resident)
            if (i >= slots || j >= slots) fresh += store.extent({i, j}).edges;
    for (auto _ : state) benchmark::DoNotOptimize(go_to(at ^= 1));
    state.SetItemsProcessed(static_cast<std::int64_t>(fresh) * state.iterations());
    state.counters["new_share"] = static_cast<double>(fresh) / static_cast<double>(resident);
    state.counters["s_per_million_resident"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(resident) / 1e6,
            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(swap, blocks, graph_form::blocks)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(swap, merged, graph_form::csr)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->Arg(16)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// Calls answer(ids, degrees, positions of each id, to) for 256 nodes at a time.
template <class Degrees, class Answer>
void sample(benchmark::State& state, Degrees&& degrees, Answer&& answer) {
    random_stream random(random_key(1, random_domain::user));
    std::vector<node_id> ids(256), neighbors;
    std::vector<std::uint32_t> degree(ids.size()), offsets, positions;
    std::int64_t edges = 0;
    for (auto _ : state) {
        for (node_id& v : ids) v = static_cast<node_id>(random.below(storage_bench::nodes));
        degrees(std::span<const node_id>(ids), std::span(degree));
        offsets.assign(1, 0);
        positions.clear();
        for (const std::uint32_t of : degree) {
            for (std::uint32_t k = 0; k < std::min(of, 10U); ++k)
                positions.push_back(static_cast<std::uint32_t>(random.below(of)));
            offsets.push_back(static_cast<std::uint32_t>(positions.size()));
        }
        neighbors.resize(positions.size());
        answer(neighbor_request<>{ids, in, offsets, positions}, std::span(neighbors));
        benchmark::DoNotOptimize(neighbors.data());
        edges += static_cast<std::int64_t>(positions.size());
    }
    state.SetItemsProcessed(edges);
}

void sample_resident(benchmark::State& state, graph_form form) {
    const resident all(static_cast<std::uint32_t>(state.range(0)), form);
    sample(
        state, [&](auto ids, auto to) { all.graph->degrees(ids, in, to); },
        [&](const auto& request, auto to) { all.graph->neighbors_at(request, {to, {}, {}}); });
}
void sample_blocks(benchmark::State& state) { sample_resident(state, graph_form::blocks); }
void sample_merged(benchmark::State& state) { sample_resident(state, graph_form::csr); }
BENCHMARK(sample_blocks)->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(sample_merged)->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);

void sample_by_hand(benchmark::State& state) {
    const csr<> lists =
        csr<>::from_edges(storage_bench::nodes, in, {}, [](auto&& sink) { cut_into(8).store().for_each_edge(sink); });
    sample(
        state,
        [&](auto ids, auto to) {
            for (std::size_t i = 0; i < ids.size(); ++i) to[i] = lists.degree(ids[i]);
        },
        [&](const auto& request, auto to) {
            for (std::size_t i = 0, k = 0; i < request.ids.size(); ++i)
                for (const node_id* const list = lists.neighbors(request.ids[i]).data(); k < request.offsets[i + 1];
                    ++k)
                    to[k] = list[request.positions[k]];
        });
}
BENCHMARK(sample_by_hand)->Unit(benchmark::kMicrosecond);

} // namespace
