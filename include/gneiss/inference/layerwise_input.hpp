// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss {

/// Returns all rows of a partition, valid until the next call. Called once per partition, ascending, including empty ones;
/// those of a repeatable input for any partition, any number of times.
using layerwise_reader = std::function<input_rows<float>(partition_id, const std::stop_token&)>;

/// Input rows of the first layer: learned embeddings, fixed features, or both concatenated.
struct layerwise_input {
    input_columns columns;                    ///< columns of a row
    std::uint64_t bytes = 0;                  ///< memory of a reader
    std::function<layerwise_reader()> open{}; ///< opens a reader for one run, released after all partitions were read
    bool repeatable = false; ///< rows can be read again, by several readers at a time, on any thread
};

/// Input from the values of a partition buffer: one partition at a time, the next ones prefetched; read-only. Precondition:
/// `rows` outlives this; no epoch of it runs while there is a reader. Memory: the buffer's.
[[nodiscard]] inline layerwise_input learned_rows(partition_buffer& rows) {
    struct epoch {
        explicit epoch(partition_buffer& in) : of(in) {
            epoch_plan one_by_one(of.file().partitioning().partitions);
            for (partition_id p = 0; p < one_by_one.size(); ++p) one_by_one[p].resident = {p};
            of.begin_epoch(std::move(one_by_one), 0, lease_use::read);
        }
        ~epoch() {
            lease.reset();
            try {
                of.end_epoch();
            } catch (...) { // NOLINT(bugprone-empty-catch): acquire() has already thrown it to the reader
            }
        }
        epoch(const epoch&) = delete;
        epoch& operator=(const epoch&) = delete;

        partition_buffer& of;
        std::optional<state_lease> lease;
    };
    return {{.dense = rows.dim()}, 0, [&rows] {
                return [now = std::make_shared<epoch>(rows)](partition_id p, const std::stop_token& stop) {
                    now->lease.reset();
                    now->lease = now->of.acquire(p, stop);
                    return input_rows<float>{.dense = (*now->lease)->values(p)};
                };
            }};
}

namespace detail {

/// Returns memory in huge pages, for rows that edges reach at random: a fifth less time for 512 bytes each.
template <class T>
[[nodiscard]] aligned_buffer<T> row_memory(std::size_t size) {
    aligned_buffer<T> result(size);
    advise_huge_pages(result.data(), result.size_bytes());
    return result;
}

/// Reads dense rows of f32 by an engine, past the page cache, verified. Not thread-safe; the engine belongs to the first reader's
/// thread.
class direct_feature_rows {
public:
    direct_feature_rows(feature_files files, engine_factory engines) : files_(std::move(files)), engines_(std::move(engines)) {}

    /// Returns the memory of a reader of partitions [bytes].
    [[nodiscard]] static std::uint64_t memory_bytes(const feature_files& files, const row_partitioning& partitioning) {
        std::uint64_t most = 0;
        for (partition_id p = 0; p < partitioning.partitions; ++p)
            most = std::max(most, blocks(files, partitioning.begin(p), partitioning.size(p)).length);
        return most + 2 * page_alignment; // rounded for direct reads
    }
    /// Returns rows `first` …, valid until the next call.
    [[nodiscard]] matrix_view<float> read(std::uint64_t first, std::uint64_t count) {
        if (!queue_) {
            engine_ = std::make_unique<any_engine>(engines_());
            queue_ = std::make_unique<io_queue>(*engine_);
            file_ = std::make_unique<file>(*engine_, files_.values.path, open_options{.direct = true});
        }
        const auto run = blocks(files_, first, count);
        const auto length = static_cast<std::size_t>(run.length);
        if (memory_.size() < length + 2 * page_alignment) {
            memory_ = {}; // never two at once
            memory_ = row_memory<std::byte>(length + 2 * page_alignment);
        }
        const auto bytes = queue_->read_unaligned(*file_, files_.values.checksums.data_offset() + run.offset, length, memory_.bytes());
        queue_->drain();
        files_.values.checksums.verify(files_.values.path, run.offset, bytes);
        float* const rows = reinterpret_cast<float*>(bytes.data() + (first * row(files_) - run.offset));
        const matrix_view<float> result(rows, static_cast<std::size_t>(count), static_cast<std::size_t>(files_.columns));
        for (std::size_t i = 0; files_.normalized && i < result.rows(); ++i) normalize_row(result[i]);
        return result;
    }

private:
    [[nodiscard]] static std::uint64_t row(const feature_files& files) { return files.columns * sizeof(float); }
    [[nodiscard]] static checksum_table::block_run blocks(const feature_files& files, std::uint64_t first, std::uint64_t count) {
        return files.values.checksums.covering(first * row(files), count * row(files));
    }

    feature_files files_;
    engine_factory engines_;
    std::unique_ptr<any_engine> engine_;
    std::unique_ptr<io_queue> queue_;
    std::unique_ptr<file> file_;
    aligned_buffer<std::byte> memory_;
};

} // namespace detail

/// Repeatable input from features on disk; dense ones are widened to floats, sparse ones are unchanged. Dense rows of f32 are read
/// by an engine, if there is one, past the page cache. Precondition: `features` outlives this. Throws `invalid_argument` unless
/// there is a row for every node.
[[nodiscard]] inline layerwise_input fixed_features(
    const node_features& features, const row_partitioning& partitioning, const engine_factory& engines = {}) {
    if (features.rows() != partitioning.nodes)
        throw error(errc::invalid_argument, "features of " + std::to_string(features.rows()) +
                                                " nodes for a graph of " + std::to_string(partitioning.nodes));
    const auto columns = static_cast<std::size_t>(features.columns());
    if (!features.sparse() && features.type() == feature_type::f32 && engines) {
        const feature_files files = features.files();
        return {{.dense = columns}, detail::direct_feature_rows::memory_bytes(files, partitioning), [=] {
                    const auto reader = std::make_shared<detail::direct_feature_rows>(files, engines);
                    return [=](partition_id p, const std::stop_token&) {
                        const std::uint64_t rows = partitioning.size(p);
                        if (rows == 0) return input_rows<float>{.dense = {nullptr, 0, columns}};
                        return input_rows<float>{.dense = reader->read(partitioning.begin(p), rows)};
                    };
                }, true};
    }
    if (!features.sparse()) {
        const std::size_t floats = static_cast<std::size_t>(partitioning.capacity()) * columns;
        return {{.dense = columns}, floats * sizeof(float), [=, &features] {
                    const auto memory = std::make_shared<aligned_buffer<float>>(detail::row_memory<float>(floats));
                    return [=, &features](partition_id p, const std::stop_token&) {
                        const auto rows = static_cast<std::size_t>(partitioning.size(p));
                        if (rows != 0) features.read_dense(partitioning.begin(p), memory->span().first(rows * columns));
                        return input_rows<float>{.dense = {memory->data(), rows, columns}};
                    };
                }, true};
    }
    std::uint64_t most = 0, before = 0;
    std::vector<std::uint64_t> unused;
    for (partition_id p = 0; p < partitioning.partitions; ++p) {
        const std::uint64_t end = features.read_offsets(partitioning.begin(p + 1), 0, unused);
        most = std::max(most, end - std::exchange(before, end));
    }
    const std::uint64_t bytes =
        most * (sizeof(std::uint32_t) + sizeof(float)) + (partitioning.capacity() + 1) * sizeof(std::uint64_t);
    return {{.sparse = columns}, bytes, [=, &features] {
                const auto rows = std::make_shared<sparse_feature_rows>();
                return [=, &features](partition_id p, const std::stop_token&) {
                    *rows = {}; // free first, before the next is read
                    *rows = features.read_sparse(partitioning.begin(p), partitioning.size(p));
                    return input_rows<float>{.sparse = {columns, rows->offsets, rows->columns, rows->values}};
                };
            }, true};
}

/// Concatenates the columns of both, those of `first` in front. Only the second may be sparse.
[[nodiscard]] inline layerwise_input side_by_side(
    const layerwise_input& first, const layerwise_input& second, const row_partitioning& partitioning) {
    if (first.columns.sparse != 0) throw error(errc::invalid_argument, "sparse columns must come after dense ones");
    const input_columns columns{first.columns.dense + second.columns.dense, second.columns.sparse};
    const std::size_t floats =
        second.columns.dense == 0 ? 0 : static_cast<std::size_t>(partitioning.capacity()) * columns.dense;
    return {columns, first.bytes + second.bytes + floats * sizeof(float), [=] {
                const auto memory = std::make_shared<aligned_buffer<float>>(floats);
                return [=, left = first.open(), right = second.open()](partition_id p, const std::stop_token& stop) {
                    const input_rows<float> a = left(p, stop), b = right(p, stop);
                    if (floats == 0) return input_rows<float>{a.dense, b.sparse};
                    const matrix_view<float> rows(memory->data(), a.rows(), columns.dense);
                    for (std::size_t i = 0; i < rows.rows(); ++i) {
                        std::ranges::copy(a.dense[i], rows[i].begin());
                        std::ranges::copy(b.dense[i], rows[i].begin() + static_cast<std::ptrdiff_t>(a.dense.columns()));
                    }
                    return input_rows<float>{rows, b.sparse};
                };
            }, first.repeatable && second.repeatable};
}

} // namespace gneiss
