// Arcs per second of a pass over the lists of a graph on disk (RMAT, 2^20 nodes, 16 M edges: 32 M arcs, 144 MiB),
// bypassing the page cache: read only, and by GAP with 64 parts. Compared with the same lists in memory, and with a
// loop of direct reads of the same number of bytes.
#include "storage/stored_graph.hpp"
#include "storage/support.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/gap.hpp>
#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>

namespace {

using namespace gneiss;
using storage_bench::stored_graph;

/// Sums a pass, so that it is read.
template <class Stream>
std::uint64_t sum_of(Stream& graph) {
    std::uint64_t sum = 0;
    graph.rewind();
    for (adjacency_chunk chunk = graph.next(); !chunk.empty(); chunk = graph.next())
        for (std::size_t i = 0; i < chunk.size(); ++i)
            for (const node_id u : chunk.list(i)) sum += u;
    return sum;
}

template <class Stream>
std::vector<partition_id16> coalesce_bytes_of(Stream& graph) {
    return gap_partitioner{}(graph, {.parts = 64}, serial_executor{});
}

template <class Stream, class Work>
void measure(benchmark::State& state, Stream& graph, Work&& work) {
    for (auto _ : state) benchmark::DoNotOptimize(work(graph));
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.arcs()));
}

template <class Work>
void from_disk(benchmark::State& state, Work&& work) {
    if (!storage_bench::works(state.range(0), state)) return;
    memory_budget budget;
    adjacency_file_stream graph(
        stored_graph::shared().both(), [&] { return storage_bench::engine_of(state.range(0)); }, budget);
    measure(state, graph, work);
}
void csc_stream_pass(benchmark::State& state) {
    from_disk(state, [](adjacency_file_stream& graph) { return sum_of(graph); });
}
BENCHMARK(csc_stream_pass)->ArgName("threads")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMillisecond);
void adjacency_file_stream_coalesced(benchmark::State& state) {
    from_disk(state, [](adjacency_file_stream& graph) { return coalesce_bytes_of(graph); });
}
BENCHMARK(adjacency_file_stream_coalesced)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

template <class Work>
void from_memory(benchmark::State& state, Work&& work) {
    memory_budget budget;
    adjacency_file_stream disk(stored_graph::shared().both(), [] { return any_engine(threads_engine(4)); }, budget);
    symmetric_csr lists;
    for (adjacency_chunk chunk = disk.next(); !chunk.empty(); chunk = disk.next())
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            const auto list = chunk.list(i);
            lists.neighbors.insert(lists.neighbors.end(), list.begin(), list.end());
            lists.offsets.push_back(lists.neighbors.size());
        }
    symmetric_stream graph(lists);
    measure(state, graph, work);
}
void symmetric_stream_pass(benchmark::State& state) {
    from_memory(state, [](symmetric_stream& graph) { return sum_of(graph); });
}
BENCHMARK(symmetric_stream_pass)->UseRealTime()->Unit(benchmark::kMillisecond);
void symmetric_stream_gap(benchmark::State& state) {
    from_memory(state, [](symmetric_stream& graph) { return coalesce_bytes_of(graph); });
}
BENCHMARK(symmetric_stream_gap)->UseRealTime()->Unit(benchmark::kMillisecond);

void direct_reads_of_as_many_bytes(benchmark::State& state) {
    constexpr std::size_t piece = std::size_t{1} << 20;
    constexpr std::uint64_t bytes = 8 * storage_bench::edges + 16 * storage_bench::nodes;
    const storage_bench::bench_file data(bytes);
    aligned_buffer<std::byte> to(piece);
    for (auto _ : state)
        for (std::uint64_t at = 0; at < bytes; at += piece)
            if (::pread(data.descriptor(), to.data(), piece, static_cast<off_t>(at)) != static_cast<ssize_t>(piece))
                return state.SkipWithError("short read");
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(2 * storage_bench::edges));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(direct_reads_of_as_many_bytes)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
