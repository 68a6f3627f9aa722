// Epochs of an edge buffer without training, BETA orders. From disk, O_DIRECT (bypasses the page cache): RMAT, 2^20
// nodes, 16 M edges, 4 partitions, 2 resident; bytes are those of the blocks read, and the limit reads the same blocks
// through a bare queue, one after the other, without checksums and without decoding them. From memory: 4 M edges, 16
// partitions, 4 resident; bytes are those of the edges, and the limit copies the same buckets into memory of their own.

#include "storage/stored_graph.hpp"
#include "storage/support.hpp"

#include <gneiss/order/beta.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/file.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace gneiss;
using storage_bench::engine_of;
using storage_bench::stored_graph;

void count(benchmark::State& state, std::uint64_t edges, std::uint64_t bytes) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(edges));
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void run_epochs(benchmark::State& state, edge_buffer& buffer, const epoch_plan& states) {
    for (auto _ : state) {
        buffer.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) benchmark::DoNotOptimize(buffer.acquire(s)->size());
    }
}

void edge_buffer_beta_4_2_direct(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bucket_store& store = stored_graph::shared().store();
    const epoch_plan states = beta_order(4, 2, 1)(0);
    memory_budget budget;
    bucket_reader reader(store, [&] { return engine_of(state.range(0)); });
    edge_buffer buffer(reader.source(), {}, budget);
    run_epochs(state, buffer, states);
    count(state, store.edges(), reader.statistics().read_bytes);
}

void edge_buffer_raw_io_queue(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bucket_store& store = stored_graph::shared().store();
    const epoch_plan states = beta_order(4, 2, 1)(0);
    any_engine engine = engine_of(state.range(0));
    file from(engine, store.path(edge_direction::out), {.direct = true});
    io_queue queue(engine);
    auto to = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(bucket_reader::need(store).bytes));
    for (auto _ : state)
        for (const buffer_state& s : states)
            for (const edge_bucket& b : s.edge_buckets) {
                const byte_range block = store.extent(b).range(edge_direction::out);
                benchmark::DoNotOptimize(queue
                        .read_unaligned(from, store.data_offset(edge_direction::out) + block.offset,
                            static_cast<std::size_t>(block.length), to.span())
                        .data());
                queue.drain();
            }
    count(state, store.edges(), queue.stats().read_bytes);
}

constexpr std::uint32_t partitions = 16;

const bucketed_edges& edges_in_memory() {
    static const bucketed_edges result = [] {
        std::vector<edge> edges(std::size_t{1} << 22);
        random_stream draw(random_key(1, random_domain::user));
        for (edge& e : edges)
            e = {static_cast<node_id>(draw.below(1 << 20)), 0, static_cast<node_id>(draw.below(1 << 20))};
        return bucketed_edges(edges, {.partitions = partitions, .nodes = 1 << 20});
    }();
    return result;
}

void edge_buffer_beta_16_4_memory(benchmark::State& state) {
    const bucketed_edges& edges = edges_in_memory();
    const epoch_plan states = beta_order(partitions, 4, 1)(0);
    memory_budget budget;
    edge_buffer buffer(edges.open([] { return any_engine(threads_engine(1)); }).loader, {}, budget);
    run_epochs(state, buffer, states);
    count(state, edges.size(), static_cast<std::uint64_t>(state.iterations()) * edges.size() * sizeof(edge));
}

void edge_buffer_raw_copy(benchmark::State& state) {
    const bucketed_edges& edges = edges_in_memory();
    const edge_loader from = edges.open([] { return any_engine(threads_engine(1)); }).loader;
    const epoch_plan states = beta_order(partitions, 4, 1)(0);
    for (auto _ : state)
        for (const buffer_state& s : states) {
            std::vector<aligned_buffer<edge, 64>> buckets;
            for (const edge_bucket& b : s.edge_buckets) {
                from.load(b, buckets.emplace_back(static_cast<std::size_t>(from.size(b))).span());
                benchmark::DoNotOptimize(buckets.back().data());
            }
        }
    count(state, edges.size(), static_cast<std::uint64_t>(state.iterations()) * edges.size() * sizeof(edge));
}

BENCHMARK(edge_buffer_beta_4_2_direct)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(edge_buffer_raw_io_queue)->ArgName("threads")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(edge_buffer_beta_16_4_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(edge_buffer_raw_copy)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
