// Random 4 KiB reads of a 256 MiB file, O_DIRECT (bypasses the page cache).

#include "storage/support.hpp"

#include <vector>

using namespace gneiss;
using storage_bench::bench_file;
using storage_bench::engine_of;

namespace {

constexpr std::size_t block = 4096, reads = 8192;

std::uint64_t offset_of(std::uint64_t read) {
    return below(random_key(2, random_domain::user)[read], bench_file::shared().bytes() / block) * block;
}

void report(benchmark::State& state) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(reads));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(reads * block));
}

void random_read_direct_io_queue(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    any_engine engine = engine_of(state.range(0));
    file source(engine, bench_file::shared().path(), {.direct = true});
    io_queue queue(engine);
    auto buffer = aligned_buffer<std::byte>::zeroed(block * 128);
    for (auto _ : state) {
        std::uint64_t begun = 0;
        const auto begin = [&](std::uint64_t slot) {
            queue.read(source, offset_of(begun++), buffer.span().subspan(slot * block, block), slot);
        };
        while (begun < 128) begin(begun);
        while (const auto slot = queue.next_done())
            if (begun < reads) begin(*slot);
    }
    report(state);
}

/// Limit: one blocking call after the other.
void random_read_direct_raw_pread(benchmark::State& state) {
    auto buffer = aligned_buffer<std::byte>::zeroed(block);
    const int descriptor = bench_file::shared().descriptor();
    for (auto _ : state)
        for (std::uint64_t i = 0; i < reads; ++i)
            if (::pread(descriptor, buffer.data(), block, static_cast<off_t>(offset_of(i))) != block)
                return state.SkipWithError("short read");
    report(state);
}

#ifdef GNEISS_HAS_URING
void random_read_direct_device_limit(benchmark::State& state) {
    storage_bench::read_at_device_limit(state, block, reads, offset_of);
    report(state);
}
BENCHMARK(random_read_direct_device_limit)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

BENCHMARK(random_read_direct_io_queue)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(random_read_direct_raw_pread)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
