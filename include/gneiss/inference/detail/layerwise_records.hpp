// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/inference/detail/layerwise_hidden_rows.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/kernels.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/storage/io/run_file.hpp>

namespace gneiss::detail {

/// Lists of neighbors, collected for some targets.
struct collected_lists {
    std::vector<std::uint32_t> targets, starts{0}, neighbors;

    void add(std::uint32_t target, std::span<const std::uint32_t> list) {
        targets.push_back(target);
        neighbors.insert(neighbors.end(), list.begin(), list.end());
        starts.push_back(static_cast<std::uint32_t>(neighbors.size()));
    }
    void clear() {
        targets.clear();
        starts.resize(1);
        neighbors.clear();
    }
    [[nodiscard]] edge_part part() const { return {{starts, neighbors}, targets}; }
};

/// Returns the bytes of contiguous rows.
[[nodiscard]] inline std::span<const std::byte> bytes_of(matrix_view<const float> rows) noexcept {
    return {reinterpret_cast<const std::byte*>(rows.data()), rows.rows() * rows.columns() * sizeof(float)};
}

/// Records of one kind in a file of a scratch directory: written first, then read, in any order; each is verified.
class scratch_records {
public:
    explicit scratch_records(std::filesystem::path path) : path_(std::move(path)), writer_(std::in_place, path_) {}
    scratch_records(const scratch_records&) = delete;
    scratch_records& operator=(const scratch_records&) = delete;
    ~scratch_records() {
        writer_.reset();
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }

    /// Appends a record and returns its number.
    std::size_t append(std::span<const std::byte> bytes) {
        writer_->append(bytes);
        io_.written_bytes += bytes.size();
        ++io_.writes;
        return writer_->records() - 1;
    }
    void finish() {
        writer_->finish();
        writer_.reset();
        reader_.emplace(path_);
    }
    [[nodiscard]] std::size_t size(std::size_t record) const { return reader_->size(record); }
    /// Reads a record into `to`, of its size.
    void read(std::size_t record, std::span<std::byte> to) {
        io_.read_bytes += reader_->read(record, to).size();
        ++io_.reads;
    }
    /// Appends a record of rows, stored as a type, and returns its number. Throws not_finite for a value that it cannot
    /// hold.
    std::size_t append_rows(matrix_view<const float> rows, feature_type type, executor_ref executor) {
        if (type == feature_type::f32) return append(bytes_of(rows));
        const std::size_t stride = row_bytes(type, rows.columns()), bytes = rows.rows() * stride;
        std::byte* const to = encoded_.at_least(bytes);
        encode_hidden_rows(rows, type, to, stride, executor);
        return append({to, bytes});
    }
    /// Reads records of rows, one after another.
    void read_rows(std::span<const std::size_t> records, matrix_view<float> to, feature_type type = feature_type::f32) {
        const std::size_t stride = row_bytes(type, to.columns());
        std::size_t row = 0;
        for (const std::size_t record : records) {
            const std::size_t bytes = size(record), count = bytes / stride;
            const matrix_view<float> some = to.middle_rows(row, count);
            std::byte* const at =
                type == feature_type::f32 ? reinterpret_cast<std::byte*>(some.data()) : encoded_.at_least(bytes);
            read(record, {at, bytes});
            if (type != feature_type::f32) decode_hidden_rows(at, type, stride, some);
            row += count;
        }
    }
    [[nodiscard]] const io_stats& statistics() const noexcept { return io_; }

private:
    std::filesystem::path path_;
    std::optional<run_file_writer> writer_;
    std::optional<run_file_reader> reader_;
    reusable_buffer<std::byte> encoded_;
    io_stats io_;
};

/// Calls body(first, count) for some rows at a time.
template <class Body>
void for_each_chunk(std::size_t count, Body&& body) {
    for (std::size_t at = 0; at < count; at += layerwise_rows) body(at, std::min(layerwise_rows, count - at));
}

/// Rows of all nodes in a file, stored as a type: written by group, within it by partition and node; read partition by
/// partition in the order of nodes. Nodes of no group form a last one. Memory: one byte per node.
class grouped_rows {
public:
    /// \param group_of  [nodes] 255: no group
    grouped_rows(std::filesystem::path path, const row_partitioning& rows, std::size_t columns, std::uint32_t groups,
        std::vector<std::uint8_t> group_of, feature_type type)
        : file_(std::move(path)),
          rows_(rows),
          columns_(columns),
          type_(type),
          groups_(groups),
          group_of_(std::move(group_of)),
          records_((std::size_t{groups} + 1) * rows.partitions) {}

    /// Adds the next rows of a group in a partition.
    void append(std::uint32_t group, partition_id p, matrix_view<const float> rows, executor_ref executor) {
        records_[std::size_t{group} * rows_.partitions + p].push_back(file_.append_rows(rows, type_, executor));
    }
    void finish() { file_.finish(); }

    /// Returns the rows of a partition, in `to`, which grows to the largest.
    [[nodiscard]] matrix_view<const float> read(partition_id p, aligned_buffer<float>& to) {
        const auto most = static_cast<std::size_t>(rows_.capacity()) * columns_;
        if (to.size() < most) to = aligned_buffer<float>(most);
        const matrix_view<float> all(to.data(), static_cast<std::size_t>(rows_.size(p)), columns_);
        const std::uint8_t* const group_of = group_of_.data() + rows_.begin(p);
        for (std::uint32_t k = 0; k <= groups_; ++k) {
            const auto wanted = static_cast<std::uint8_t>(k == groups_ ? 255U : k);
            std::size_t v = 0;
            for (const std::size_t record : records_[std::size_t{k} * rows_.partitions + p]) {
                const std::size_t count = file_.size(record) / row_bytes(type_, columns_);
                const matrix_view<float> some(chunk_.at_least(count * columns_), count, columns_);
                file_.read_rows(std::span(&record, 1), some, type_);
                for (std::size_t r = 0; r < count; ++r, ++v) {
                    while (group_of[v] != wanted) ++v;
                    std::ranges::copy(some[r], all[v].begin());
                }
            }
        }
        return all;
    }
    [[nodiscard]] const io_stats& statistics() const noexcept { return file_.statistics(); }

private:
    scratch_records file_;
    row_partitioning rows_;
    std::size_t columns_;
    feature_type type_;
    std::uint32_t groups_;
    std::vector<std::uint8_t> group_of_;
    std::vector<std::vector<std::size_t>> records_; // [groups + 1, partitions]
    reusable_buffer<float> chunk_;
};

} // namespace gneiss::detail
