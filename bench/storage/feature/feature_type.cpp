#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/storage/feature/feature_type.hpp>

namespace {

using namespace gneiss;

constexpr std::size_t columns = 128, rows = 2048;

/// Decodes rows of 128 columns that are in the cache.
void decode_rows(benchmark::State& state) {
    const auto type = static_cast<feature_type>(state.range(0));
    const std::size_t each = row_bytes(type, columns);
    std::vector<float> values(columns), out(rows * columns);
    std::vector<std::byte> stored(rows * each);
    const random_key draw(1, random_domain::user);
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t c = 0; c < columns; ++c) values[c] = to_unit_float(draw[i * columns + c]);
        (void)encode_row(values, type, stored.data() + i * each);
    }
    for ([[maybe_unused]] auto _ : state) {
        for (std::size_t i = 0; i < rows; ++i)
            decode_row(type, stored.data() + i * each, std::span(out).subspan(i * columns, columns));
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns));
    state.SetLabel(std::string(to_string(type)));
}
BENCHMARK(decode_rows)->DenseRange(0, 3);

/// The raw loop: copies as many floats.
void decode_rows_memcpy(benchmark::State& state) {
    std::vector<float> from(rows * columns, 1.0F), out(rows * columns);
    for ([[maybe_unused]] auto _ : state) {
        std::memcpy(out.data(), from.data(), out.size() * sizeof(float));
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows * columns));
}
BENCHMARK(decode_rows_memcpy);

} // namespace
