// Sampled edges per second from lists on disk: RMAT, 2^20 nodes, 16 M edges (64 MiB of neighbors), incoming, layered,
// batches of 1000 seeds, 10 neighbors in each of three hops. "cold": the page cache is emptied before each batch;
// engines bypass it in any case. Compared with a loop of pread that reads the same number of 4 KiB blocks, one after
// the other.
#include "storage/stored_graph.hpp"
#include "storage/support.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/visit_counter.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>

namespace {

using namespace gneiss;
using storage_bench::edges;
using storage_bench::nodes;
using storage_bench::stored_graph;

/// Calls graph() before each batch, outside the timed region.
template <class Graph>
void sample(benchmark::State& state, Graph&& graph) {
    neighbor_sampler<> sampler({std::vector<hop_fanout>(3, hop_fanout{.in = 10})}, 1);
    const tbb_executor executor(2);
    const keyed_permutation order(nodes, random_key(1, random_domain::user));
    mini_batch_arena arena;
    std::vector<node_id> seeds(1000);
    std::uint64_t batch = 0;
    std::int64_t sampled = 0;
    for (auto _ : state) {
        state.PauseTiming();
        const auto& of = graph();
        for (std::size_t i = 0; i < seeds.size(); ++i)
            seeds[i] = static_cast<node_id>(order((batch * seeds.size() + i) % nodes));
        state.ResumeTiming();
        sampled += static_cast<std::int64_t>(
            sampler.sample({0, {0, 0, batch++}}, of, std::span<const node_id>(seeds), executor, arena).edges());
    }
    state.SetItemsProcessed(sampled);
}

/// Reports requests and bytes of a batch. \param batches  number of an iteration
void report_reads(benchmark::State& state, const io_stats& io, std::uint64_t batches = 1) {
    const auto per_batch = [&](std::uint64_t count) {
        return benchmark::Counter(
            static_cast<double>(count) / static_cast<double>(batches), benchmark::Counter::kAvgIterations);
    };
    state.counters["reads"] = per_batch(io.reads);
    state.counters["read_bytes"] = per_batch(io.read_bytes);
}

void disk_csc_direct(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    memory_budget budget;
    const disk_csc graph(
        stored_graph::shared().files(), [&] { return storage_bench::engine_of(state.range(0)); }, budget);
    sample(state, [&]() -> const disk_csc& { return graph; });
    report_reads(state, graph.statistics().io);
}
BENCHMARK(disk_csc_direct)->ArgName("threads")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A quarter of the neighbors in memory, by profiled visits.
void disk_csc_direct_quarter_cached(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    memory_budget budget;
    const stored_graph& stored = stored_graph::shared();
    disk_csc graph(stored.files(), [&] { return storage_bench::engine_of(state.range(0)); }, budget);
    const auto path = stored.directory() / "cache";
    const std::uint64_t fingerprint = graph.fingerprint(neighbor_direction::in);
    {
        const visit_counter profile(graph);
        neighbor_sampler<> sampler({std::vector<hop_fanout>(3, hop_fanout{.in = 10})}, 2);
        mini_batch_arena arena;
        std::vector<node_id> seeds(1000), all(nodes);
        for (std::uint64_t batch = 0; batch < 20; ++batch) {
            for (std::size_t i = 0; i < seeds.size(); ++i)
                seeds[i] = static_cast<node_id>(nodes - 1 - (batch * seeds.size() + i) * 7);
            (void)sampler.sample({0, {0, 0, batch}}, profile, std::span<const node_id>(seeds), tbb_executor(2), arena);
        }
        std::iota(all.begin(), all.end(), node_id{0});
        std::vector<std::uint32_t> degrees(nodes);
        graph.degrees(all, neighbor_direction::in, degrees);
        neighbor_cache::build(
            path, graph, neighbor_direction::in, rank_lists(profile.visits(), degrees), edges, fingerprint);
    }
    neighbor_cache cache(path, fingerprint, budget);
    cache.load();
    graph.set_cache(&cache);
    const io_stats before = graph.statistics().io;
    sample(state, [&]() -> const disk_csc& { return graph; });
    io_stats io = graph.statistics().io;
    io.reads -= before.reads;
    io.read_bytes -= before.read_bytes;
    report_reads(state, io);
}
BENCHMARK(disk_csc_direct_quarter_cached)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// Groups of 16 batches, whose neighbors are read in one pass for each hop: the same samples as `disk_csc_direct`.
void disk_csc_passes(benchmark::State& state) {
    constexpr std::uint64_t group = 16;
    if (!storage_bench::works(state.range(0), state)) return;
    memory_budget budget;
    const disk_csc graph(
        stored_graph::shared().files(), [&] { return storage_bench::engine_of(state.range(0)); }, budget);
    const tbb_executor executor(2);
    superbatch_sampler ahead(
        graph, 3, [] { return neighbor_sampler<>({std::vector<hop_fanout>(3, hop_fanout{.in = 10})}, 1); },
        {.way = gather_way::scan, .memory = std::uint64_t{1} << 30}, executor, budget);
    mini_batch_arena arena;
    std::vector<node_id> seeds;
    std::int64_t sampled = 0;
    std::uint64_t epoch = 0;
    for (auto _ : state) {
        state.PauseTiming();
        const keyed_permutation order(nodes, random_key(++epoch, random_domain::user));
        std::vector<node_id> chosen(1000 * group);
        for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<node_id>(order(i));
        const node_batches batches(chosen, 1000, 1, epoch, 0);
        state.ResumeTiming();
        if (!ahead.read(epoch, batches, 0, group, {})) return state.SkipWithError("stopped");
        for (std::uint64_t k = 0; k < group && ahead.holds(epoch, k); ++k) {
            batches.choose(k, seeds);
            sampled += static_cast<std::int64_t>(neighbor_sample<>::of(ahead.sample(k, seeds, arena)).edges());
        }
        ahead.finish();
    }
    state.SetItemsProcessed(sampled);
    report_reads(state, graph.statistics().io, group);
}
BENCHMARK(disk_csc_passes)->ArgName("threads")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMillisecond);

void mapped_csc_cold(benchmark::State& state) {
    memory_budget budget;
    std::optional<mapped_csc> graph;
    sample(state, [&]() -> const mapped_csc& {
        graph.reset(); // mapped pages stay in the cache
        stored_graph::shared().drop_cached();
        return graph.emplace(stored_graph::shared().files(), budget);
    });
}
BENCHMARK(mapped_csc_cold)->UseRealTime()->Unit(benchmark::kMillisecond);

void memory_csc_sampled(benchmark::State& state) {
    memory_budget budget;
    const memory_csc graph(stored_graph::shared().files(), budget);
    sample(state, [&]() -> const memory_csc& { return graph; });
}
BENCHMARK(memory_csc_sampled)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Reads one block of the same file per list drawn from in a batch, about 30 000.
void disk_csc_raw_pread(benchmark::State& state) {
    constexpr std::size_t block = 4096, reads = 30000;
    const int file = ::open(stored_graph::shared().neighbors().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    aligned_buffer<std::byte> to(block);
    const random_key draw(1, random_domain::user);
    std::uint64_t word = 0;
    bool whole = true;
    for (auto _ : state)
        for (std::size_t i = 0; whole && i < reads; ++i)
            whole =
                ::pread(file, to.data(), block, static_cast<off_t>((1 + below(draw[word++], edges / 1024)) * block)) ==
                static_cast<ssize_t>(block);
    ::close(file);
    if (!whole) return state.SkipWithError("cannot read");
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(reads * block));
}
BENCHMARK(disk_csc_raw_pread)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);

void build_csc_warm(benchmark::State& state) {
    const stored_graph& stored = stored_graph::shared();
    for (auto _ : state) {
        build_csc(stored.store(), neighbor_direction::out, stored.directory() / "out", {}, tbb_executor(2));
        state.PauseTiming();
        std::filesystem::remove_all(stored.directory() / "out");
        state.ResumeTiming();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(edges));
}
BENCHMARK(build_csc_warm)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
