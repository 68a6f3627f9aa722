// O_DIRECT (bypasses the page cache): partitions with their checksums compared with a bare queue, of 512 MiB in 8 and
// of 64 MiB in 16; a buffer of 4 that follows a plan; and rows in memory compared with loops without locks.
// scripts/device alternates the large ones with fio.

#include "storage/support.hpp"

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

#include <cstring>
#include <vector>

using namespace gneiss;
using storage_bench::engine_of;

namespace {

const row_partitioning partitioning{.nodes = 1 << 17, .partitions = 16};
constexpr row_layout layout{64, 64};
const row_partitioning large{.nodes = 1 << 20, .partitions = 8};

std::size_t slot_bytes_of(const row_partitioning& rows) { return rows.nodes / rows.partitions * layout.bytes(); }

/// A row file in the current folder with every partition written, removed at the end.
class bench_rows {
public:
    bench_rows(std::int64_t engine, const row_partitioning& partitioning)
        : path_("gneiss-bench-rows-" + std::to_string(::getpid()) + ".bin") {
        const engine_factory engines = [engine] { return engine_of(engine); };
        any_engine maker = engines();
        embedding_file::create(maker, path_, partitioning, layout, partitioning.partitions);
        rows_ = std::make_unique<embedding_file>(engines, path_, partitioning, layout, partitioning.partitions);
        for (int twice = 0; twice < 2; ++twice) { // so that every disk slot has its blocks
            rows_->fill([](std::uint64_t first, matrix_view<float> to) {
                for (std::size_t i = 0; i < to.rows(); ++i) std::ranges::fill(to[i], static_cast<float>(first + i));
            });
            rows_->commit();
        }
        rows_->sync();
    }
    bench_rows(const bench_rows&) = delete;
    bench_rows& operator=(const bench_rows&) = delete;
    ~bench_rows() {
        rows_.reset();
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    [[nodiscard]] embedding_file& rows() const noexcept { return *rows_; }

private:
    std::filesystem::path path_;
    std::unique_ptr<embedding_file> rows_;
};

void count_pass(benchmark::State& state, const row_partitioning& rows) {
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows.partitions * slot_bytes_of(rows)));
}

void read_embedding_file(benchmark::State& state, const row_partitioning& partitions) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bench_rows file(state.range(0), partitions);
    auto slot = aligned_buffer<std::byte>::zeroed(slot_bytes_of(partitions));
    for (auto _ : state)
        for (partition_id p = 0; p < partitions.partitions; ++p) file.rows().read(p, slot.span());
    count_pass(state, partitions);
}

void write_embedding_file(benchmark::State& state, const row_partitioning& partitions) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bench_rows file(state.range(0), partitions);
    const auto slot = aligned_buffer<std::byte>::zeroed(slot_bytes_of(partitions));
    for (auto _ : state) {
        for (partition_id p = 0; p < partitions.partitions; ++p)
            file.rows().write(p, file.rows().begin_write(p, 0).value(), slot.span());
        file.rows().commit();
    }
    count_pass(state, partitions);
}

/// The same transfers, one partition after the other, without slots and checksums.
void bare_pass(benchmark::State& state, const row_partitioning& partitions, bool writing) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bench_rows result(state.range(0), partitions);
    any_engine engine = engine_of(state.range(0));
    file target(engine, result.rows().path(), {.write = true, .direct = true});
    io_queue queue(engine);
    auto slot = aligned_buffer<std::byte>::zeroed(slot_bytes_of(partitions));
    for (auto _ : state)
        for (partition_id p = 0; p < partitions.partitions; ++p) {
            if (writing)
                queue.write(target, p * slot.size(), slot.span());
            else
                queue.read(target, p * slot.size(), slot.span());
            queue.drain();
        }
    count_pass(state, partitions);
}

void partitions_read_direct_embedding_file(benchmark::State& state) { read_embedding_file(state, partitioning); }
void partitions_read_direct_raw_io_queue(benchmark::State& state) { bare_pass(state, partitioning, false); }
void partitions_write_direct_embedding_file(benchmark::State& state) { write_embedding_file(state, partitioning); }
void partitions_write_direct_raw_io_queue(benchmark::State& state) { bare_pass(state, partitioning, true); }
void large_partitions_read_direct_embedding_file(benchmark::State& state) { read_embedding_file(state, large); }
void large_partitions_read_direct_raw_io_queue(benchmark::State& state) { bare_pass(state, large, false); }
void large_partitions_write_direct_embedding_file(benchmark::State& state) { write_embedding_file(state, large); }
void large_partitions_write_direct_raw_io_queue(benchmark::State& state) { bare_pass(state, large, true); }

/// An epoch without training time: the limit of loading and writing back together. Bytes are those moved.
void partition_buffer_beta_16_4_direct(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const bench_rows file(state.range(0), partitioning);
    memory_budget budget;
    partition_buffer buffer(file.rows(), {.resident_partitions = 4, .prefetch = 2}, budget);
    const auto moved = [&] {
        const io_stats so_far = file.rows().statistics();
        return static_cast<std::int64_t>(so_far.read_bytes + so_far.written_bytes);
    };
    const std::int64_t before = moved();
    std::uint64_t epoch = 0;
    for (auto _ : state) {
        const epoch_plan states = beta_order(partitioning.partitions, 4, 1)(epoch++);
        buffer.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) benchmark::DoNotOptimize(buffer.acquire(s));
        buffer.end_epoch();
    }
    state.SetBytesProcessed(moved() - before);
}

void by_engine(benchmark::internal::Benchmark* b) {
    b->ArgName("threads")->DenseRange(0, 1)->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(partitions_read_direct_embedding_file)->Apply(by_engine);
BENCHMARK(partitions_read_direct_raw_io_queue)->Apply(by_engine);
BENCHMARK(partitions_write_direct_embedding_file)->Apply(by_engine);
BENCHMARK(partitions_write_direct_raw_io_queue)->Apply(by_engine);
BENCHMARK(large_partitions_read_direct_embedding_file)->Apply(by_engine);
BENCHMARK(large_partitions_read_direct_raw_io_queue)->Apply(by_engine);
BENCHMARK(large_partitions_write_direct_embedding_file)->Apply(by_engine);
BENCHMARK(large_partitions_write_direct_raw_io_queue)->Apply(by_engine);
BENCHMARK(partition_buffer_beta_16_4_direct)->Apply(by_engine);

/// 64 MiB of rows in memory and a batch's ids: ascending, one in eight on average. One thread.
struct rows_in_memory {
    aligned_buffer<float> memory = aligned_buffer<float>::zeroed(partitioning.nodes * layout.floats());
    row_locks locks;
    resident_embeddings rows{partitioning, layout, locks};
    std::vector<node_id> ids;
    std::vector<float> batch; ///< [ids, dim]

    rows_in_memory() {
        for (partition_id p = 0; p < partitioning.partitions; ++p)
            rows.place(p, memory.data() + partitioning.begin(p) * layout.floats());
        const random_key key(1, random_domain::user);
        for (std::uint64_t v = 0; v < partitioning.nodes; ++v)
            if (below(key[v], 8) == 0) ids.push_back(static_cast<node_id>(v));
        batch.assign(ids.size() * layout.dim, 1e-3F);
    }
    [[nodiscard]] matrix_view<float> batch_rows() { return {batch.data(), ids.size(), layout.dim}; }
    void count(benchmark::State& state, std::size_t bytes_per_row) const {
        state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
        state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(ids.size() * bytes_per_row));
    }
};

void rows_gather(benchmark::State& state) {
    rows_in_memory table;
    for (auto _ : state) {
        gather_rows(serial_executor{}, table.rows, table.ids, table.batch_rows());
        benchmark::ClobberMemory();
    }
    table.count(state, layout.dim * sizeof(float));
}
void rows_gather_raw_memcpy(benchmark::State& state) {
    rows_in_memory table;
    for (auto _ : state) {
        for (std::size_t i = 0; i < table.ids.size(); ++i)
            std::memcpy(table.batch.data() + i * layout.dim,
                table.memory.data() + std::size_t{table.ids[i]} * layout.floats(), layout.dim * sizeof(float));
        benchmark::ClobberMemory();
    }
    table.count(state, layout.dim * sizeof(float));
}
BENCHMARK(rows_gather);
BENCHMARK(rows_gather_raw_memcpy);

constexpr std::size_t update_bytes = (2 * layout.floats() + layout.dim) * sizeof(float); // row both ways, gradient

void rows_update_adagrad(benchmark::State& state) {
    rows_in_memory table;
    const any_row_optimizer optimizer = adagrad{};
    for (auto _ : state) {
        for_each_row(serial_executor{}, table.rows, table.ids,
            [&](std::size_t i, std::span<float> row) { optimizer.step_row(row, table.batch_rows()[i], 1); });
        benchmark::ClobberMemory();
    }
    table.count(state, update_bytes);
}
void rows_update_adagrad_raw_loop(benchmark::State& state) {
    rows_in_memory table;
    for (auto _ : state) {
        for (std::size_t i = 0; i < table.ids.size(); ++i) {
            float* const row = table.memory.data() + std::size_t{table.ids[i]} * layout.floats();
            adagrad{}.step({row, layout.dim}, {row + layout.dim, layout.dim}, table.batch_rows()[i], 1);
        }
        benchmark::ClobberMemory();
    }
    table.count(state, update_bytes);
}
BENCHMARK(rows_update_adagrad);
BENCHMARK(rows_update_adagrad_raw_loop);

} // namespace
