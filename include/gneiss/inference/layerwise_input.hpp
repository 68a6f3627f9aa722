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
#include <gneiss/storage/feature/feature_reader.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/feature_type.hpp>

namespace gneiss {

/// Returns all rows of a partition, valid until the next call. Called once per partition, ascending, including empty
/// ones; those of a repeatable input for any partition, any number of times. `infer_layerwise` checks the shape of rows
/// and the sparse rows, not values.
using layerwise_reader = std::function<input_rows<float>(partition_id, const std::stop_token&)>;

/// Input rows of the first layer: learned embeddings, fixed features, or both concatenated.
struct layerwise_input {
    input_columns columns;                    ///< columns of a row
    std::uint64_t bytes = 0;                  ///< memory of a reader
    std::function<layerwise_reader()> open{}; ///< opens a reader for one run, released after all partitions were read
    bool repeatable = false;                  ///< rows can be read again, by several readers at a time, on any thread
    std::uint64_t stored_row_bytes = 0;       ///< read for a row, on average; 0: as floats

    /// Returns the bytes that are read for a row, on average.
    [[nodiscard]] std::uint64_t row_bytes() const noexcept {
        return stored_row_bytes != 0 ? stored_row_bytes : columns.total() * sizeof(float);
    }
};

/// Input from the values of a partition buffer: one partition at a time, the next ones prefetched; read-only. `rows`
/// must outlive this. Memory: the buffer's. Errors of a reader: those of `partition_buffer`, errc::invalid_argument
/// while an epoch of it runs.
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
        std::optional<read_lease> lease;
    };
    return {{.dense = rows.dim()}, 0, [&rows] {
                return [now = std::make_shared<epoch>(rows)](partition_id p, const std::stop_token& stop) {
                    now->lease.reset();
                    now->lease = now->of.acquire_read(p, stop);
                    return input_rows<float>{.dense = (*now->lease)->values(p)};
                };
            }};
}

namespace detail {

/// Throws errc::invalid_argument unless these are `count` rows of such columns, in order where sparse. O(entries).
inline void check_shape(const input_rows<float>& rows, const input_columns& columns, std::uint64_t count) {
    if (count == 0) return;
    const auto& sparse = rows.sparse;
    bool holds = rows.dense.columns() == columns.dense && sparse.columns == columns.sparse &&
        (columns.dense == 0 || rows.dense.rows() == count);
    if (holds && columns.sparse != 0)
        holds = sparse.offsets.size() == count + 1 && std::ranges::is_sorted(sparse.offsets) &&
            sparse.offsets.back() <= sparse.indices.size() &&
            (sparse.values.empty() || sparse.values.size() == sparse.indices.size()) &&
            std::ranges::all_of(sparse.indices, [&](std::uint32_t c) { return c < columns.sparse; });
    if (!holds) throw error(errc::invalid_argument, "the shape of a partition differs from the declared input");
}

/// Returns memory in huge pages, for rows that edges reach at random: a fifth less time for 512 bytes each.
template <class T>
[[nodiscard]] aligned_buffer<T> row_memory(std::size_t size) {
    aligned_buffer<T> result(size);
    advise_huge_pages(result.data(), result.size_bytes());
    return result;
}

/// Reads the rows of partitions and widens their values to floats, in their place. Not thread-safe.
class widened_features {
public:
    widened_features(feature_store store, engine_factory engines)
        : store_(std::move(store)),
          reader_(store_, std::move(engines)) {}
    widened_features(const widened_features&) = delete; // `reader_` refers to `store_`
    widened_features& operator=(const widened_features&) = delete;

    /// Returns the memory of a reader of any partition [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(const feature_store& store) {
        std::uint64_t sum = 0;
        for (const feature_part part : all_feature_parts) {
            std::uint64_t most = 0; // each array keeps its own
            for (partition_id p = 0; p < store.rows().partitions; ++p)
                most = std::max(most,
                    feature_reader::bytes_needed(store, p, part) +
                        (part == feature_part::values ? round_up(growth(store, p), page_alignment) : 0));
            sum += most;
        }
        return sum;
    }
    /// Returns the rows of a partition, valid until the next call.
    [[nodiscard]] input_rows<float> read(partition_id p) {
        reader_.read({&p, 1}, {&block_, 1}, store_.range(p, feature_part::values).length == 0 ? 0 : growth(store_, p));
        const auto rows = static_cast<std::size_t>(store_.rows().size(p)),
                   columns = static_cast<std::size_t>(store_.columns());
        if (!store_.sparse()) {
            const matrix_view<float> values(rows == 0 ? nullptr : floats(rows * columns).data(), rows, columns);
            for (std::size_t i = 0; store_.normalized() && i < rows; ++i) normalize_row(values[i]);
            return {.dense = values};
        }
        auto* const first = reinterpret_cast<std::uint64_t*>(block_[feature_part::offsets].bytes.data());
        const std::span<std::uint64_t> offsets(first, block_.offsets().size());
        for (std::uint64_t& at : offsets) at -= store_.first_entry(p);
        std::span<float> values;
        if (!ones(store_)) {
            values = floats(block_.indices().size());
        } else if (store_.normalized()) {
            if (ones_.size() < block_.indices().size()) {
                ones_ = {}; // never two at once
                ones_ = aligned_buffer<float>(block_.indices().size());
            }
            values = ones_.span().first(block_.indices().size());
            std::ranges::fill(values, 1.0F);
        }
        for (std::size_t i = 0; store_.normalized() && i + 1 < offsets.size(); ++i)
            normalize_row(values.subspan(
                static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i])));
        return {.sparse = {columns, offsets, block_.indices(), values}};
    }

private:
    /// True if all values are 1 and not stored.
    [[nodiscard]] static bool ones(const feature_store& store) { return store.file(feature_part::values).path.empty(); }
    /// Returns the bytes by which a partition's values grow as floats.
    [[nodiscard]] static std::uint64_t growth(const feature_store& store, partition_id p) {
        const std::uint64_t values =
            store.sparse() ? store.first_entry(p + 1) - store.first_entry(p) : store.rows().size(p) * store.columns();
        if (ones(store) && !store.normalized()) return 0;
        const std::uint64_t stored = store.range(p, feature_part::values).length, wide = values * sizeof(float);
        return wide - std::min(wide, stored);
    }
    /// Widens stored values from the front of their memory on: `growth` bytes precede them, so each is read before it
    /// is overwritten.
    [[nodiscard]] std::span<float> floats(std::size_t count) {
        feature_block::part& of = block_[feature_part::values];
        if (store_.type() == feature_type::f32) return {reinterpret_cast<float*>(of.bytes.data()), count};
        const std::span<float> to(reinterpret_cast<float*>(of.memory.data()), count);
        const std::size_t columns = store_.sparse() ? 256 : static_cast<std::size_t>(store_.columns()); // at a time
        const std::size_t bytes = gneiss::row_bytes(store_.type(), columns);
        for (std::size_t at = 0, from = 0; at < count; at += columns, from += bytes)
            decode_row(store_.type(), of.bytes.data() + from, to.subspan(at, std::min(columns, count - at)));
        return to;
    }

    feature_store store_;
    feature_block block_;
    aligned_buffer<float> ones_; // normalized
    feature_reader reader_;      // after the memory that it reads into
};

} // namespace detail

/// Repeatable input from features on disk, by an engine, past the page cache; dense and sparse values become floats.
/// Errors: `invalid_argument` unless there is a row for every node, or from opening without engines; io_error;
/// errc::corrupt.
/// \param engines  of readers; none for a plan, which opens none
[[nodiscard]] inline layerwise_input fixed_features(
    const node_features& features, const row_partitioning& partitioning, const engine_factory& engines = {}) {
    const feature_store store(features.files(), partitioning);
    const auto columns = static_cast<std::size_t>(store.columns());
    const std::uint64_t stored = ceil_div(features.bytes(), std::max<std::uint64_t>(partitioning.nodes, 1));
    return {store.sparse() ? input_columns{.sparse = columns} : input_columns{.dense = columns},
        detail::widened_features::bytes_needed(store),
        [=] {
            if (!engines) throw error(errc::invalid_argument, "features are read by an engine, but there is none");
            const auto rows = std::make_shared<detail::widened_features>(store, engines);
            return [rows](partition_id p, const std::stop_token&) { return rows->read(p); };
        },
        true, stored};
}

/// Concatenates the columns of both, those of `first` in front. Only the second may be sparse. Inputs without `open`,
/// of which a plan needs columns and bytes alone, give one without it. Throws errc::invalid_argument for sparse columns
/// in front, and from a reader for rows of another shape than the inputs declare.
[[nodiscard]] inline layerwise_input side_by_side(
    const layerwise_input& first, const layerwise_input& second, const row_partitioning& partitioning) {
    if (first.columns.sparse != 0) throw error(errc::invalid_argument, "sparse columns must come after dense ones");
    const input_columns columns{first.columns.dense + second.columns.dense, second.columns.sparse};
    const std::size_t floats =
        second.columns.dense == 0 ? 0 : static_cast<std::size_t>(partitioning.capacity()) * columns.dense;
    layerwise_input result{.columns = columns,
        .bytes = first.bytes + second.bytes + floats * sizeof(float),
        .repeatable = first.repeatable && second.repeatable,
        .stored_row_bytes = first.row_bytes() + second.row_bytes()};
    if (!first.open || !second.open) return result;
    result.open = [=] {
        const auto memory = std::make_shared<aligned_buffer<float>>(floats);
        return [=, left = first.open(), right = second.open()](partition_id p, const std::stop_token& stop) {
            const input_rows<float> a = left(p, stop), b = right(p, stop);
            detail::check_shape(a, first.columns, partitioning.size(p));
            detail::check_shape(b, second.columns, partitioning.size(p));
            if (floats == 0) return input_rows<float>{a.dense, b.sparse};
            const matrix_view<float> rows(memory->data(), a.rows(), columns.dense);
            for (std::size_t i = 0; i < rows.rows(); ++i) {
                std::ranges::copy(a.dense[i], rows[i].begin());
                std::ranges::copy(b.dense[i], rows[i].begin() + static_cast<std::ptrdiff_t>(a.dense.columns()));
            }
            return input_rows<float>{rows, b.sparse};
        };
    };
    return result;
}

} // namespace gneiss
