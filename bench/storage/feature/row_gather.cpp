// Rows of 512 bytes at random places of a 256 MiB file. Reads are O_DIRECT (bypassing the page cache) unless the name
// says otherwise.

#include "storage/support.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include <cstring>
#include <vector>

using namespace gneiss;
using storage_bench::bench_file;
using storage_bench::engine_of;

namespace {

constexpr std::size_t row_bytes = 512, wanted = 16384;

stored_rows table() { return {bench_file::shared().path(), 0, bench_file::shared().bytes() / row_bytes, row_bytes}; }

/// Returns distinct rows in random order, one per `every` bytes at the start of the file.
std::vector<node_id> rows_in(std::size_t every) {
    const std::size_t per_row = every / row_bytes;
    const random_key key(3, random_domain::user);
    std::vector<node_id> ids(wanted);
    for (std::size_t i = 0; i < wanted; ++i) ids[i] = static_cast<node_id>(i * per_row + below(key[i], per_row));
    shuffle(ids, key.with(1));
    return ids;
}
constexpr std::size_t sparse = 16384, dense = 5120; // bytes per row, as arguments of rows_in

void report(benchmark::State& state) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(wanted));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(wanted * row_bytes));
}

template <class Source>
void gather_all(benchmark::State& state, Source& source, std::span<const node_id> ids) {
    std::vector<std::byte> to(ids.size() * row_bytes);
    source.gather(ids, {to.data(), row_bytes});
    for (auto _ : state) source.gather(ids, {to.data(), row_bytes});
    report(state);
    state.counters["amplification"] = source.statistics().amplification();
}

void row_gather_direct_one_thread(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const tbb_executor executor(1);
    memory_budget budget;
    disk_rows source([&] { return engine_of(state.range(0)); }, table(), {.coalesce_bytes = 0}, executor, budget);
    gather_all(state, source, rows_in(sparse));
}

void row_gather_direct_one_in_5_KiB(benchmark::State& state) {
    if (!storage_bench::works(0, state)) return;
    const tbb_executor executor;
    memory_budget budget;
    const gather_options options{.coalesce_bytes = static_cast<std::size_t>(state.range(0))};
    disk_rows source([] { return engine_of(0); }, table(), options, executor, budget);
    gather_all(state, source, rows_in(dense));
}

/// Limit: one blocking call after the other.
void row_gather_direct_raw_pread(benchmark::State& state) {
    auto buffer = aligned_buffer<std::byte>::zeroed(row_bytes);
    const std::vector<node_id> ids = rows_in(sparse);
    const int descriptor = bench_file::shared().descriptor();
    for (auto _ : state)
        for (const node_id id : ids)
            if (::pread(descriptor, buffer.data(), row_bytes, static_cast<off_t>(std::size_t{id} * row_bytes)) !=
                row_bytes)
                return state.SkipWithError("short read");
    report(state);
}

#ifdef GNEISS_HAS_URING
void row_gather_direct_device_limit(benchmark::State& state) {
    const std::vector<node_id> ids = rows_in(sparse);
    storage_bench::read_at_device_limit(
        state, row_bytes, wanted, [&](std::uint64_t i) { return std::uint64_t{ids[i]} * row_bytes; });
    report(state);
}
BENCHMARK(row_gather_direct_device_limit)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

void row_gather_mapped_warm(benchmark::State& state) {
    const tbb_executor executor(8);
    mapped_rows source(table(), executor);
    gather_all(state, source, rows_in(sparse));
}

/// All rows in the cache: the look-up and the copy.
void row_gather_cached(benchmark::State& state) {
    const tbb_executor executor;
    memory_budget budget;
    memory_rows below(table(), nullptr, executor, budget);
    const auto kind = state.range(0) == 0 ? slot_table_kind::direct : slot_table_kind::hashed;
    const std::vector<node_id> ids = rows_in(sparse);
    cached_rows source(below, ids.size(), kind, executor, budget);
    source.fill(ids);
    gather_all(state, source, ids);
}

/// Limit of one thread: one copy per row.
void row_gather_memory_raw_copy(benchmark::State& state) {
    std::vector<std::byte> from(bench_file::shared().bytes()), to(wanted * row_bytes);
    const std::vector<node_id> ids = rows_in(sparse);
    for (auto _ : state) {
        for (std::size_t i = 0; i < ids.size(); ++i)
            std::memcpy(to.data() + i * row_bytes, from.data() + std::size_t{ids[i]} * row_bytes, row_bytes);
        benchmark::ClobberMemory();
    }
    report(state);
}

BENCHMARK(row_gather_direct_one_thread)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(row_gather_direct_one_in_5_KiB)
    ->ArgName("gap")
    ->Arg(0)
    ->Arg(16384)
    ->Arg(65536)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(row_gather_direct_raw_pread)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(row_gather_mapped_warm)->UseRealTime();
BENCHMARK(row_gather_cached)->ArgName("hashed")->DenseRange(0, 1)->UseRealTime();
BENCHMARK(row_gather_memory_raw_copy)->UseRealTime();

} // namespace
