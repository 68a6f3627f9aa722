// Features of 2^18 nodes, 64 floats each (64 MiB), in 16 partitions. Epochs of a feature buffer without training,
// O_DIRECT (bypasses the page cache), 4 partitions resident, compared with a bare queue that reads the same partitions,
// state by state, without checksums: bytes read. Rows of resident partitions, one in eight, in ascending order,
// compared with a copy of each: rows, and their bytes, on one thread.

#include "storage/support.hpp"

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace {

using namespace gneiss;
using storage_bench::engine_of;

const row_partitioning partitioning{.nodes = 1 << 18, .partitions = 16};
constexpr std::size_t columns = 64;

/// The file of the features in the current folder, removed when the process ends.
class stored_features {
public:
    stored_features()
        : path_("gneiss-bench-features-" + std::to_string(::getpid()) + ".bin"),
          store_(write(path_), partitioning) {}
    stored_features(const stored_features&) = delete;
    stored_features& operator=(const stored_features&) = delete;
    ~stored_features() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    [[nodiscard]] const feature_store& store() const noexcept { return store_; }

    static const stored_features& shared() {
        static const stored_features only;
        return only;
    }

private:
    static feature_files write(const std::filesystem::path& path) {
        plain_file to = plain_file::create(path);
        checksum_collector sums(file_id(path.filename().string()));
        const std::vector<std::byte> header(4096);
        to.write_at(0, header);
        const random_key draw(1, random_domain::user);
        std::vector<float> rows;
        for (partition_id p = 0; p < partitioning.partitions; ++p) {
            rows.resize(static_cast<std::size_t>(partitioning.size(p)) * columns);
            for (std::size_t i = 0; i < rows.size(); ++i)
                rows[i] = to_unit_float(draw[partitioning.begin(p) * columns + i]);
            const auto bytes = std::as_bytes(std::span(rows));
            to.write_at(header.size() + sums.bytes(), bytes);
            sums.update(bytes);
            sums.end_segment();
        }
        to.sync();
        feature_files result{.rows = partitioning.nodes, .columns = columns};
        result.values = {path, sums.finish(header)};
        return result;
    }

    std::filesystem::path path_;
    feature_store store_;
};

void feature_buffer_beta_16_4_direct(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const feature_store& store = stored_features::shared().store();
    const epoch_plan states = beta_order(partitioning.partitions, 4, 1)(0);
    memory_budget budget;
    feature_buffer buffer(
        store, [&] { return engine_of(state.range(0)); }, feature_buffer::need(states, store).bytes, budget);
    for (auto _ : state) {
        buffer.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) benchmark::DoNotOptimize(buffer.acquire(s)->columns());
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(buffer.statistics().read_bytes));
}

void feature_buffer_raw_io_queue(benchmark::State& state) {
    if (!storage_bench::works(state.range(0), state)) return;
    const feature_store& store = stored_features::shared().store();
    const epoch_plan states = beta_order(partitioning.partitions, 4, 1)(0);
    any_engine engine = engine_of(state.range(0));
    file from(engine, store.file(feature_part::values).path, {.direct = true});
    io_queue queue(engine);
    const std::size_t slot = static_cast<std::size_t>(store.range(0, feature_part::values).length);
    auto to = aligned_buffer<std::byte>::zeroed(4 * slot);
    std::vector<partition_id> before;
    for (auto _ : state)
        for (const buffer_state& s : states) {
            for (std::size_t i = 0; i < s.resident.size(); ++i) {
                if (std::ranges::binary_search(before, s.resident[i])) continue;
                const std::uint64_t offset = store.file(feature_part::values).checksums.data_offset();
                queue.read(from, offset + store.range(s.resident[i], feature_part::values).offset,
                    to.span().subspan(i * slot, slot));
            }
            queue.drain();
            before = s.resident;
        }
    state.SetBytesProcessed(static_cast<std::int64_t>(queue.stats().read_bytes));
}

/// Returns one in eight nodes on average, ascending.
std::vector<node_id> some_nodes() {
    const random_key key(2, random_domain::user);
    std::vector<node_id> ids;
    for (std::uint64_t v = 0; v < partitioning.nodes; ++v)
        if (below(key[v], 8) == 0) ids.push_back(static_cast<node_id>(v));
    return ids;
}

void count_rows(benchmark::State& state, std::size_t rows) {
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns * sizeof(float)));
}

void features_gather(benchmark::State& state) {
    const feature_store& store = stored_features::shared().store();
    const epoch_plan states = in_memory_order(partitioning.partitions)(0);
    memory_budget budget;
    feature_buffer buffer(store, [] { return engine_of(1); }, feature_buffer::need(states, store).bytes, budget);
    buffer.begin_epoch(states);
    const auto features = buffer.acquire(0);
    const std::vector<node_id> ids = some_nodes();
    std::vector<float> to(ids.size() * columns);
    for (auto _ : state) {
        features->gather(serial_executor{}, ids, {to.data(), ids.size(), columns});
        benchmark::DoNotOptimize(to.data());
    }
    count_rows(state, ids.size());
}

void features_gather_raw_memcpy(benchmark::State& state) {
    const std::vector<float> from(static_cast<std::size_t>(partitioning.nodes) * columns, 1.0F);
    const std::vector<node_id> ids = some_nodes();
    std::vector<float> to(ids.size() * columns);
    for (auto _ : state) {
        for (std::size_t i = 0; i < ids.size(); ++i)
            std::memcpy(to.data() + i * columns, from.data() + std::size_t{ids[i]} * columns, columns * sizeof(float));
        benchmark::DoNotOptimize(to.data());
    }
    count_rows(state, ids.size());
}

BENCHMARK(feature_buffer_beta_16_4_direct)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(feature_buffer_raw_io_queue)
    ->ArgName("threads")
    ->DenseRange(0, 1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(features_gather);
BENCHMARK(features_gather_raw_memcpy);

} // namespace
