// A superbatch of 24 batches of 16,384 rows of 512 bytes, out of a 256 MiB file: each batch reads its rows where they
// are, or one pass deals them out and each batch reads its extent. Reads and writes are O_DIRECT.

#include "storage/support.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

using namespace gneiss;
using storage_bench::bench_file;
using storage_bench::engine_of;

namespace {

constexpr std::size_t row_bytes = 512, per_batch = 16384, batches = 24;

stored_rows table() { return {bench_file::shared().path(), 0, bench_file::shared().bytes() / row_bytes, row_bytes}; }

/// Returns the distinct rows of each batch, anywhere in the file, in random order.
std::vector<std::vector<node_id>> requests() {
    const std::uint64_t rows = table().rows, apart = rows / per_batch;
    std::vector<std::vector<node_id>> all(batches);
    for (std::size_t b = 0; b < batches; ++b) {
        const random_key key = random_key(5, random_domain::user).with(b);
        for (std::size_t i = 0; i < per_batch; ++i)
            all[b].push_back(static_cast<node_id>(i * apart + below(key[i], apart)));
        shuffle(all[b], key.with(1));
    }
    return all;
}

void gather_superbatch(benchmark::State& state, gather_way way) {
    if (!storage_bench::works(0, state)) return;
    const tbb_executor executor;
    memory_budget budget;
    const engine_factory engines = [] { return engine_of(0); };
    const auto ids = requests();
    any_row_source below(std::in_place_type<disk_rows>, engines, table(), gather_options{}, executor, budget);
    extent_rows source(
        std::move(below), engines, {.way = way, .directory = ".", .memory = std::size_t{32} << 20}, executor, budget);
    std::vector<std::byte> to(per_batch * row_bytes);
    const gather_target target{to.data(), row_bytes};
    for (auto _ : state) {
        source.expect({batches, [&](const auto& visit) {
                           for (std::size_t b = 0; b < batches; ++b) visit(b, std::span<const node_id>(ids[b]));
                       }});
        source.gather({}, target); // the pass
        for (std::size_t b = 0; b < batches; ++b) {
            source.select(b);
            source.gather(ids[b], target);
        }
    }
    const auto rows = state.iterations() * static_cast<std::int64_t>(batches * per_batch);
    state.SetItemsProcessed(rows);
    state.SetBytesProcessed(rows * static_cast<std::int64_t>(row_bytes));
    const gather_stats moved = source.statistics();
    const auto each = 1 / static_cast<double>(state.iterations());
    state.counters["read"] = benchmark::Counter(
        static_cast<double>(moved.io.read_bytes) * each, benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
    state.counters["written"] = benchmark::Counter(
        static_cast<double>(moved.io.written_bytes) * each, benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
}

void superbatch_gather_random(benchmark::State& state) { gather_superbatch(state, gather_way::random); }
void superbatch_gather_scan(benchmark::State& state) { gather_superbatch(state, gather_way::scan); }

/// Limit: the file in order, then as many bytes as the rows have written and read, by one blocking call of 1 MiB after
/// the other.
void superbatch_gather_raw_pread_pwrite(benchmark::State& state) {
    constexpr std::size_t piece = std::size_t{1} << 20, dealt = batches * per_batch * row_bytes;
    auto buffer = aligned_buffer<std::byte>::zeroed(piece);
    const bench_file& source = bench_file::shared();
    const bench_file extents(dealt);
    bool whole = true;
    const auto all = [&](const bench_file& of, auto move) {
        for (std::size_t at = 0; whole && at < of.bytes(); at += piece)
            whole = move(of.descriptor(), buffer.data(), piece, static_cast<off_t>(at)) == static_cast<ssize_t>(piece);
    };
    for (auto _ : state) {
        all(source, ::pread);
        all(extents, ::pwrite);
        all(extents, ::pread);
    }
    if (!whole) return state.SkipWithError("short transfer");
    const auto rows = state.iterations() * static_cast<std::int64_t>(batches * per_batch);
    state.SetItemsProcessed(rows);
    state.SetBytesProcessed(rows * static_cast<std::int64_t>(row_bytes));
}

BENCHMARK(superbatch_gather_random)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(superbatch_gather_scan)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(superbatch_gather_raw_pread_pwrite)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
