// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/embedding/scratch_rows.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss::detail {

/// Throws not_finite unless `fits`: all values of rows between layers do.
inline void check_hidden_rows(bool fits, feature_type type) {
    if (fits || type == feature_type::f32) return;
    throw error(errc::not_finite,
        "a value is NaN or beyond the range of " + std::string(to_string(type)) +
            (type == feature_type::f16 ? ": store them as bf16 or f32" : ": store them as f32"),
        {.field = "hidden rows"});
}

/// Encodes rows, `stride` bytes apart. Throws not_finite for a value that f16 or bf16 cannot hold.
inline void encode_hidden_rows(
    matrix_view<const float> rows, feature_type type, std::byte* to, std::size_t stride, executor_ref executor) {
    std::atomic<bool> fits = true;
    parallel_for(executor, rows.rows(), 512, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i)
            if (encode_row(rows[i], type, to + i * stride) != rows.columns()) fits = false;
    });
    check_hidden_rows(fits, type);
}

/// Decodes rows that are `stride` bytes apart.
inline void decode_hidden_rows(
    const std::byte* from, feature_type type, std::size_t stride, matrix_view<float> to) noexcept {
    for (std::size_t i = 0; i < to.rows(); ++i) decode_row(type, from + i * stride, to[i]);
}

/// Writes the values that rows have after they were stored as f16 or bf16. Throws not_finite for a value that the type
/// cannot hold.
inline void round_hidden_rows(
    matrix_view<const float> rows, feature_type type, matrix_view<float> to, executor_ref executor) {
    const std::size_t encoded = to.columns() * sizeof(float) - row_bytes(type, to.columns()); // at the end of its row
    std::atomic<bool> fits = true;
    parallel_for(executor, rows.rows(), 512, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) {
            std::byte* const at = reinterpret_cast<std::byte*>(to[i].data()) + encoded;
            if (encode_row(rows[i], type, at) != rows.columns()) fits = false;
            decode_row(type, at, to[i]); // never writes beyond the next value that it reads
        }
    });
    check_hidden_rows(fits, type);
}

/// Rows between two layers in a file, stored as f32, f16 or bf16: written by partition, then read any number of times.
/// Memory: `memory_bytes`, and the buffers of readers. Errors: those of `scratch_rows`; not_finite for a value that the
/// type cannot hold. Thread-safety: one thread may `read` at a time.
class hidden_rows {
public:
    hidden_rows(const row_partitioning& partitioning, std::size_t columns, feature_type type,
        const engine_factory& engines, const std::filesystem::path& directory)
        : columns_(columns),
          type_(type),
          rows_(partitioning, words(columns, type), engines, directory),
          encoded_(words(columns, type) * sizeof(float)) {}

    /// Returns the memory of a partition that is being written [bytes].
    [[nodiscard]] static std::uint64_t memory_bytes(
        const row_partitioning& partitioning, std::size_t columns, feature_type type) {
        return scratch_rows::file_memory_bytes(partitioning, words(columns, type));
    }
    /// Returns the memory of a buffer for reading [bytes].
    [[nodiscard]] static std::uint64_t buffer_bytes(const row_partitioning& partitioning, std::size_t columns) {
        return scratch_rows::file_memory_bytes(partitioning, columns);
    }

    /// Sets rows of `p`, from its row `first` on; then call `put(p)`. One partition at a time.
    void fill(partition_id p, std::size_t first, matrix_view<const float> rows, executor_ref executor) {
        std::byte* const to = reinterpret_cast<std::byte*>(rows_.room(p).middle_rows(first, rows.rows()).data());
        encode_hidden_rows(rows, type_, to, encoded_.size(), executor);
    }
    void put(partition_id p) { rows_.put(p); }

    /// Returns the rows of `p`, decoded in `to`, which grows to the largest partition. Precondition: `put(p)` was
    /// called.
    [[nodiscard]] matrix_view<const float> read(partition_id p, aligned_buffer<float>& to) {
        if (type_ == feature_type::f32) return rows_.read(p, to);
        const std::size_t most = scratch_rows::buffer_floats(rows_.partitioning(), columns_);
        if (to.size() < most) to = aligned_buffer<float>(most);
        const std::size_t count = rows_.read(p, to).rows();
        const matrix_view<float> all(to.data(), count, columns_);
        for (std::size_t i = count; i-- > 0;) { // a row is written beyond those before it
            std::copy_n(to.bytes().data() + i * encoded_.size(), encoded_.size(), encoded_.data());
            decode_row(type_, encoded_.data(), all[i]);
        }
        return all;
    }
    [[nodiscard]] io_stats statistics() const { return rows_.statistics(); }

private:
    [[nodiscard]] static std::size_t words(std::size_t columns, feature_type type) noexcept {
        return ceil_div(row_bytes(type, columns), sizeof(float));
    }

    std::size_t columns_;
    feature_type type_;
    scratch_rows rows_;              // encoded, in whole words
    std::vector<std::byte> encoded_; // a row
};

} // namespace gneiss::detail
