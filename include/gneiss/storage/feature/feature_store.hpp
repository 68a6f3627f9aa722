// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/feature/sparse_rows.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Scales a row so that its absolute values sum to 1. Leaves a row of zeros unchanged.
inline void normalize_row(std::span<float> row) noexcept {
    double sum = 0;
    for (const float x : row) sum += std::abs(static_cast<double>(x));
    if (sum == 0) return;
    const auto factor = static_cast<float>(1 / sum);
    for (float& x : row) x *= factor;
}

/// Arrays with the features of nodes by row, and their encoding: one dense matrix, or compressed sparse rows.
struct feature_files {
    /// One array file.
    struct array {
        std::filesystem::path path; ///< empty: absent
        checksum_table checksums;   ///< checksums of its blocks
    };
    std::uint64_t rows = 0, columns = 0;   ///< shape of the features
    feature_type type = feature_type::f32; ///< of values
    bool normalized = false;               ///< scale rows by `normalize_row` on read
    array values{};                        ///< dense: [rows] of `row_bytes`; sparse: [entries], absent if all are 1
    array offsets{};                       ///< sparse: u64 [rows + 1]
    array indices{};                       ///< sparse: u32 [entries], ascending within a row

    /// True if rows are sparse.
    [[nodiscard]] bool sparse() const noexcept { return !offsets.path.empty(); }
};

/// Array of the features.
enum class feature_part : std::uint8_t { values, offsets, indices };
/// All arrays.
inline constexpr std::array all_feature_parts{feature_part::values, feature_part::offsets, feature_part::indices};

/// The features of a dataset on disk by partition: the bytes of a partition's rows in each file, and their
/// verification.
///
///     const feature_store store(data.features().files(), data.rows());   // a dataset
///
/// Immutable, thread-safe. Memory: 8 bytes per partition and 16 per checksum block. Errors: `io_error`; errc::corrupt
/// with path and offset.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp stores
class feature_store {
public:
    /// Checks sizes and reads the first entry of each partition: at most one checksum block each. Throws
    /// errc::invalid_argument for features of other nodes, or no partition.
    feature_store(feature_files files, row_partitioning rows) : files_(std::move(files)), rows_(std::move(rows)) {
        if (rows_.partitions == 0) throw error(errc::invalid_argument, "features need at least one partition");
        if (files_.rows != rows_.nodes)
            throw error(errc::invalid_argument,
                "features of " + std::to_string(files_.rows) + " rows for " + std::to_string(rows_.nodes) + " nodes");
        if (!files_.sparse()) {
            need(files_.values, files_.rows * row_bytes() / value_bytes(), value_bytes());
            return;
        }
        need(files_.offsets, files_.rows + 1, sizeof(std::uint64_t));
        nnz_ = files_.indices.checksums.data_bytes() / sizeof(std::uint32_t);
        need(files_.indices, nnz_, sizeof(std::uint32_t));
        if (!files_.values.path.empty()) need(files_.values, nnz_, value_bytes());
        const plain_file offsets = plain_file::open(files_.offsets.path);
        for (partition_id p = 0; p <= rows_.partitions; ++p) {
            std::uint64_t first = 0;
            files_.offsets.checksums.read(
                offsets, rows_.begin(p) * sizeof first, std::as_writable_bytes(std::span(&first, 1)));
            if (first > nnz_ || (p == 0 ? first != 0 : first < first_entry_.back()) ||
                (p == rows_.partitions && first != nnz_))
                throw out_of_order(rows_.begin(p));
            first_entry_.push_back(first);
        }
    }

    [[nodiscard]] const row_partitioning& rows() const noexcept { return rows_; }
    /// Returns the number of columns.
    [[nodiscard]] std::uint64_t columns() const noexcept { return files_.columns; }
    /// True if rows are sparse.
    [[nodiscard]] bool sparse() const noexcept { return files_.sparse(); }
    /// Returns the type of stored values.
    [[nodiscard]] feature_type type() const noexcept { return files_.type; }
    /// True if gathering normalizes rows.
    [[nodiscard]] bool normalized() const noexcept { return files_.normalized; }
    /// Returns the bytes of a stored value.
    [[nodiscard]] std::size_t value_bytes() const noexcept { return gneiss::value_bytes(files_.type); }
    /// Returns the bytes of a stored dense row.
    [[nodiscard]] std::size_t row_bytes() const noexcept { return gneiss::row_bytes(files_.type, files_.columns); }
    /// Returns the number of stored values: rows · columns, or the entries of the sparse rows.
    [[nodiscard]] std::uint64_t nnz() const noexcept { return sparse() ? nnz_ : files_.rows * files_.columns; }
    /// Sparse: returns the number of the first entry of a partition's rows; for partition `partitions`, of all entries.
    /// Throws errc::out_of_range beyond, errc::invalid_argument for dense features.
    [[nodiscard]] std::uint64_t first_entry(partition_id p) const {
        if (!sparse()) throw error(errc::invalid_argument, "dense features have no entries");
        if (p > rows_.partitions) throw no_such_partition(p);
        return first_entry_[p];
    }

    /// Returns one of the arrays.
    [[nodiscard]] const feature_files::array& file(feature_part part) const noexcept {
        return part == feature_part::values ? files_.values
            : part == feature_part::offsets ? files_.offsets
                                            : files_.indices;
    }
    /// Returns the bytes of a partition's rows in the data of a file; sparse rows have one more offset than rows.
    /// Throws errc::out_of_range for a partition beyond.
    [[nodiscard]] byte_range range(partition_id p, feature_part part) const {
        if (p >= rows_.partitions) throw no_such_partition(p);
        const std::uint64_t first = rows_.begin(p), count = rows_.size(p);
        if (file(part).path.empty() || count == 0) return {};
        const auto of = [](std::uint64_t begin, std::uint64_t size, std::uint64_t bytes) {
            return byte_range{begin * bytes, size * bytes};
        };
        if (!sparse()) return of(first, count, row_bytes());
        if (part == feature_part::offsets) return of(first, count + 1, sizeof(std::uint64_t));
        return of(first_entry_[p], first_entry_[p + 1] - first_entry_[p],
            part == feature_part::indices ? sizeof(std::uint32_t) : value_bytes());
    }
    /// Returns the checksum blocks that cover `range`, which must be read: `range` itself if blocks end with
    /// partitions.
    [[nodiscard]] byte_range blocks(partition_id p, feature_part part) const {
        const byte_range wanted = range(p, part);
        const auto run = file(part).checksums.covering(wanted.offset, wanted.length);
        return {run.offset, run.length};
    }

    /// Checks a partition's sparse rows: offsets [rows + 1] in order, columns ascending and below `columns`.
    /// O(entries). Throws errc::corrupt; errc::out_of_range for a partition beyond, errc::invalid_argument for dense
    /// features.
    void check(partition_id p, std::span<const std::uint64_t> offsets, std::span<const std::uint32_t> indices) const {
        if (!sparse()) throw error(errc::invalid_argument, "dense features have no entries");
        if (p >= rows_.partitions) throw no_such_partition(p);
        for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
            const std::uint64_t begin = offsets[row] - first_entry_[p], end = offsets[row + 1] - first_entry_[p];
            if (begin > end || end > indices.size() || (row == 0 && begin != 0))
                throw out_of_order(rows_.begin(p) + row);
            for (std::uint64_t at = begin; at < end; ++at)
                if (indices[at] >= files_.columns || (at != begin && indices[at] <= indices[at - 1]))
                    throw error(errc::corrupt,
                        "columns of row " + std::to_string(rows_.begin(p) + row) + " are not ascending, or beyond " +
                            std::to_string(files_.columns),
                        {.path = files_.indices.path});
        }
        if (!offsets.empty() && offsets.back() != first_entry_[p + 1]) throw out_of_order(rows_.begin(p + 1));
    }

private:
    [[nodiscard]] error no_such_partition(partition_id p) const {
        return {errc::out_of_range, "partition " + std::to_string(p) + " of " + std::to_string(rows_.partitions)};
    }
    [[nodiscard]] error out_of_order(std::uint64_t row) const {
        return {errc::corrupt, "offset " + std::to_string(row) + " is out of order", {.path = files_.offsets.path}};
    }
    /// Throws unless an array has `elements` elements and no checksum block ends within one.
    static void need(const feature_files::array& of, std::uint64_t elements, std::uint64_t element_bytes) {
        const checksum_table& sums = of.checksums;
        if (sums.data_bytes() != elements * element_bytes)
            throw error(errc::corrupt,
                "has " + std::to_string(sums.data_bytes()) + " bytes of data, its shape needs " +
                    std::to_string(elements * element_bytes),
                {.path = of.path});
        for (const checked_block& block : sums.blocks())
            if (block.end % element_bytes != 0)
                throw error(errc::corrupt, "a checksum block ends within an element", {.path = sidecar_path(of.path)});
    }

    feature_files files_;
    row_partitioning rows_;
    std::uint64_t nnz_ = 0;
    std::vector<std::uint64_t> first_entry_; // sparse: [partitions + 1]
};

} // namespace gneiss
