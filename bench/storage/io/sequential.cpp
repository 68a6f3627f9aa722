// One pass over 256 MiB, O_DIRECT (bypasses the page cache): queue, blocking loop, and the device's limit.

#include "storage/support.hpp"

#include <vector>

using namespace gneiss;
using storage_bench::bench_file;
using storage_bench::engine_of;

namespace {

constexpr std::size_t window = 8; // pieces of memory in rotation

void report(benchmark::State& state, std::size_t bytes) {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// Processes the caller's pieces in a ring of buffers; a finished piece makes room for the next.
void pass(io_queue& queue, file& target, std::vector<aligned_buffer<std::byte>>& buffers, bool writing) {
    const std::size_t bytes = bench_file::shared().bytes(), piece = buffers[0].size();
    std::size_t at = 0;
    const auto begin = [&](std::size_t buffer) {
        if (writing)
            queue.write(target, at, buffers[buffer].span(), buffer);
        else
            queue.read(target, at, buffers[buffer].span(), buffer);
        at += piece;
    };
    for (std::size_t i = 0; i < buffers.size() && at < bytes; ++i) begin(i);
    while (const auto done = queue.next_done())
        if (at < bytes) begin(static_cast<std::size_t>(*done));
}

void queue_pass(benchmark::State& state, bool writing) {
    if (!storage_bench::works(state.range(0), state)) return;
    any_engine engine = engine_of(state.range(0));
    file target(engine, bench_file::shared().path(), {.write = writing, .direct = true});
    io_queue queue(engine);
    std::vector<aligned_buffer<std::byte>> buffers;
    for (std::size_t i = 0; i < window; ++i)
        buffers.push_back(aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(state.range(1)) << 20));
    for (auto _ : state) pass(queue, target, buffers, writing);
    report(state, bench_file::shared().bytes());
    state.counters["wait_share"] = benchmark::Counter(queue.stats().wait_seconds(), benchmark::Counter::kIsRate);
}

void sequential_read_direct_io_queue(benchmark::State& state) { queue_pass(state, false); }
void sequential_write_direct_io_queue(benchmark::State& state) { queue_pass(state, true); }

/// Limit: one blocking call after the other.
void raw_pass(benchmark::State& state, bool writing) {
    const bench_file& target = bench_file::shared();
    auto buffer = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(state.range(0)) << 20);
    for (auto _ : state)
        for (std::size_t at = 0; at < target.bytes(); at += buffer.size()) {
            const auto offset = static_cast<off_t>(at);
            const ssize_t moved = writing ? ::pwrite(target.descriptor(), buffer.data(), buffer.size(), offset)
                                          : ::pread(target.descriptor(), buffer.data(), buffer.size(), offset);
            if (moved != static_cast<ssize_t>(buffer.size())) return state.SkipWithError("short transfer");
        }
    report(state, target.bytes());
}

void sequential_read_direct_raw_pread(benchmark::State& state) { raw_pass(state, false); }
void sequential_write_direct_raw_pwrite(benchmark::State& state) { raw_pass(state, true); }

#ifdef GNEISS_HAS_URING
/// Device limit: a bare ring of 1 MiB requests, 16 deep, refilled one by one; only the length is checked.
void device_limit(benchmark::State& state, bool writing) {
    const bench_file& target = bench_file::shared();
    constexpr std::size_t piece = std::size_t{1} << 20, depth = 16;
    auto buffer = aligned_buffer<std::byte>::zeroed(piece * depth);
    io_uring ring;
    if (io_uring_queue_init(depth, &ring, 0) != 0) return state.SkipWithError("no io_uring here");
    bool whole = true;
    for (auto _ : state) {
        std::size_t at = 0, done = 0;
        const auto begin = [&](std::uint64_t slot) {
            io_uring_sqe* entry = io_uring_get_sqe(&ring);
            if (writing)
                io_uring_prep_write(entry, target.descriptor(), buffer.data() + slot * piece, piece, at);
            else
                io_uring_prep_read(entry, target.descriptor(), buffer.data() + slot * piece, piece, at);
            io_uring_sqe_set_data64(entry, slot);
            at += piece;
        };
        for (std::uint64_t slot = 0; slot < depth; ++slot) begin(slot);
        while (done < target.bytes()) {
            io_uring_submit_and_wait(&ring, 1);
            io_uring_cqe* entry = nullptr;
            while (io_uring_peek_cqe(&ring, &entry) == 0) {
                whole = whole && entry->res == static_cast<int>(piece);
                const std::uint64_t slot = entry->user_data;
                io_uring_cqe_seen(&ring, entry);
                done += piece;
                if (at < target.bytes()) begin(slot);
            }
        }
    }
    io_uring_queue_exit(&ring);
    if (!whole) state.SkipWithError("short transfer");
    report(state, target.bytes());
}

void sequential_read_direct_device_limit(benchmark::State& state) { device_limit(state, false); }
void sequential_write_direct_device_limit(benchmark::State& state) { device_limit(state, true); }
BENCHMARK(sequential_read_direct_device_limit)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(sequential_write_direct_device_limit)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

void engines_and_pieces(benchmark::internal::Benchmark* b) {
    b->ArgNames({"threads", "MiB"})->ArgsProduct({{0, 1}, {1, 2, 8}})->UseRealTime()->Unit(benchmark::kMillisecond);
}
void pieces(benchmark::internal::Benchmark* b) {
    b->ArgName("MiB")->Arg(1)->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(sequential_read_direct_io_queue)->Apply(engines_and_pieces);
BENCHMARK(sequential_read_direct_raw_pread)->Apply(pieces);
BENCHMARK(sequential_write_direct_io_queue)->Apply(engines_and_pieces);
BENCHMARK(sequential_write_direct_raw_pwrite)->Apply(pieces);

} // namespace
