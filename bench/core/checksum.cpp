#include <gneiss/core/checksum.hpp>

#include <benchmark/benchmark.h>

#include <gneiss/core/aligned_buffer.hpp>

#include <cstring>

namespace {

using gneiss::aligned_buffer;

// Reads the bytes: the limit for a checksum.
void raw_read(benchmark::State& state) {
    const auto block = aligned_buffer<std::uint64_t>::zeroed(static_cast<std::size_t>(state.range(0)) / 8);
    for (auto _ : state) {
        std::uint64_t sum = 0;
        for (const std::uint64_t word : block) sum += word;
        benchmark::DoNotOptimize(sum);
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(raw_read)->Name("checksum/raw_read_loop")->Arg(1 << 20)->Arg(64 << 20);

void block_checksum(benchmark::State& state) {
    auto block = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) benchmark::DoNotOptimize(gneiss::checksum(block.span(), 1));
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(block_checksum)->Name("checksum/xxh3")->Arg(1 << 20)->Arg(64 << 20);

void streamed_checksum(benchmark::State& state) {
    const auto block = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        gneiss::checksum_stream stream(1);
        for (std::size_t at = 0; at < block.size(); at += 65536) stream.update(block.span().subspan(at, 65536));
        benchmark::DoNotOptimize(stream.value());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(streamed_checksum)->Name("checksum/xxh3_in_64KiB_pieces")->Arg(1 << 20);

} // namespace
