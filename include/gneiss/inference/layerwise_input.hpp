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
#include <gneiss/core/row_layout.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

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

/// Repeatable input from features on disk; dense ones are widened to floats, sparse ones are unchanged. Precondition: `features` outlives
/// this. Throws `invalid_argument` unless there is a row for every node.
[[nodiscard]] inline layerwise_input fixed_features(
    const node_features& features, const row_partitioning& partitioning) {
    if (features.rows() != partitioning.nodes)
        throw error(errc::invalid_argument, "features of " + std::to_string(features.rows()) +
                                                " nodes for a graph of " + std::to_string(partitioning.nodes));
    const auto columns = static_cast<std::size_t>(features.columns());
    if (!features.sparse()) {
        const std::size_t floats = static_cast<std::size_t>(partitioning.capacity()) * columns;
        return {{.dense = columns}, floats * sizeof(float), [=, &features] {
                    const auto memory = std::make_shared<aligned_buffer<float>>(floats);
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
