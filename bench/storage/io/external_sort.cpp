#include <gneiss/storage/io/external_sort.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/npy.hpp>

namespace {

/// An edge in the form that buckets sort: 12 bytes.
struct record {
    std::uint32_t high, low, relation;
};
struct record_less {
    static std::uint64_t key(const record& r) { return (std::uint64_t{r.high} << 32) | r.low; }
    bool operator()(const record& a, const record& b) const {
        return std::pair(key(a), a.relation) < std::pair(key(b), b.relation);
    }
};

std::vector<record> random_records(std::size_t size) {
    gneiss::random_stream draw(gneiss::random_key{1, gneiss::random_domain::user});
    std::vector<record> records(size);
    for (record& r : records) {
        const std::uint64_t word = draw();
        r = {static_cast<std::uint32_t>(word >> 40), static_cast<std::uint32_t>(word), 0};
    }
    return records;
}

void std_sort(benchmark::State& state) {
    const auto records = random_records(static_cast<std::size_t>(state.range(0)));
    for (auto _ : state) {
        auto copy = records;
        std::sort(copy.begin(), copy.end(), record_less{});
        benchmark::DoNotOptimize(copy.data());
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(std_sort)->Name("sort/std_sort")->Arg(20'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();

/// range(1): MiB of memory; the rest is spilled to the current file system.
template <class E>
void external(benchmark::State& state, const E& executor) {
    const auto records = random_records(static_cast<std::size_t>(state.range(0)));
    double spilled = 0;
    for (auto _ : state) {
        gneiss::external_sorter<record, record_less, E> sorter(
            std::filesystem::current_path(), static_cast<std::uint64_t>(state.range(1)) << 20, {}, executor);
        sorter.push(records);
        std::uint64_t last = 0;
        sorter.for_each_block([&](std::span<const record> block) { last = record_less::key(block.back()); });
        benchmark::DoNotOptimize(last);
        spilled = static_cast<double>(sorter.report().spilled_bytes);
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
    state.counters["spilled_MiB"] = spilled * 0x1p-20;
}
void external_serial(benchmark::State& state) { external(state, gneiss::serial_executor{}); }
void external_tbb(benchmark::State& state) { external(state, gneiss::tbb_executor{}); }
BENCHMARK(external_serial)
    ->Name("sort/external_one_thread")
    ->Args({20'000'000, 1024})
    ->Args({20'000'000, 64})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(external_tbb)
    ->Name("sort/external_all_threads")
    ->Args({20'000'000, 1024})
    ->Args({20'000'000, 64})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

constexpr std::size_t file_bytes = std::size_t{256} << 20, piece_bytes = std::size_t{1} << 20;

/// Device limit of the two below: the same bytes, synced, without header and checksums.
void raw_write(benchmark::State& state) {
    const std::vector<std::byte> piece(piece_bytes, std::byte{7});
    for (auto _ : state) {
        auto file = gneiss::plain_file::scratch(std::filesystem::current_path());
        for (std::size_t at = 0; at < file_bytes; at += piece_bytes) file.write_at(at, piece);
        file.sync();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file_bytes));
}
BENCHMARK(raw_write)->Name("npy/raw_write_and_sync")->Unit(benchmark::kMillisecond)->UseRealTime();

void npy_write(benchmark::State& state) {
    const std::vector<std::uint8_t> piece(piece_bytes, 7);
    const auto path = std::filesystem::current_path() / "gneiss-bench.npy";
    for (auto _ : state) {
        gneiss::npy_writer writer(path, gneiss::npy_dtype::u8);
        for (std::size_t at = 0; at < file_bytes; at += piece_bytes) writer.append(std::span(piece));
        writer.close();
    }
    std::filesystem::remove(path);
    std::filesystem::remove(gneiss::sidecar_path(path));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file_bytes));
}
BENCHMARK(npy_write)->Name("npy/write_with_checksums")->Unit(benchmark::kMillisecond)->UseRealTime();

void npy_read_cached(benchmark::State& state) {
    const std::vector<std::uint8_t> piece(piece_bytes, 7);
    const auto path = std::filesystem::current_path() / "gneiss-bench.npy";
    gneiss::npy_writer writer(path, gneiss::npy_dtype::u8);
    for (std::size_t at = 0; at < file_bytes; at += piece_bytes) writer.append(std::span(piece));
    writer.close();
    const gneiss::mapped_npy mapped(path);
    const auto table = gneiss::checksum_table::load(path);
    const auto bytes = std::as_bytes(mapped.elements<std::uint8_t>());
    table.verify(path, 0, bytes); // brings it into the page cache
    for (auto _ : state) table.verify(path, 0, bytes);
    std::filesystem::remove(path);
    std::filesystem::remove(gneiss::sidecar_path(path));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file_bytes));
}
BENCHMARK(npy_read_cached)->Name("npy/verify_mapped_cached")->Unit(benchmark::kMillisecond)->UseRealTime();

} // namespace
