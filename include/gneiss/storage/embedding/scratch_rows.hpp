// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/embedding/concepts.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/engine/any_engine.hpp>

namespace gneiss {

/// Rows of all nodes that live as long as this object: written partition by partition, then read any number of times,
/// from memory or from a file. An `embedding_stream`.
///
///     scratch_rows rows(partitioning, 128, engines, directory);
///     for (partition_id p = 0; p < partitioning.partitions; ++p) { fill(rows.room(p)); rows.put(p); }
///     rows.for_each_block(visit);
///
/// The file has a unique name in the directory and is removed by the destructor (only a killed process leaves it); its
/// blocks have checksums that are verified on read. Cost: one write per partition, and one read each time. Memory:
/// `memory_bytes`, and the buffers of readers. Thread-safety: one thread may `read` while another writes other
/// partitions.
/// Errors: io_error (no space among them); errc::corrupt.
class scratch_rows {
public:
    /// Constructs rows in memory.
    scratch_rows(const row_partitioning& partitioning, std::size_t dim)
        : partitioning_(partitioning),
          dim_(dim),
          memory_(partitioning.partitions) {
        for (partition_id p = 0; p < partitioning.partitions; ++p) {
            memory_[p] = aligned_buffer<float>(static_cast<std::size_t>(partitioning.size(p)) * dim);
            advise_huge_pages(memory_[p].data(), memory_[p].size_bytes());
        }
    }
    /// Constructs rows in a file.
    scratch_rows(const row_partitioning& partitioning, std::size_t dim, const engine_factory& engines,
        const std::filesystem::path& directory)
        : partitioning_(partitioning),
          dim_(dim),
          memory_(1),
          name_(directory) {
        const row_layout layout{static_cast<std::uint32_t>(dim), 0};
        any_engine engine = make_engine(engines);
        embedding_file::create(engine, name_.path, partitioning, layout, 0);
        file_ = std::make_unique<embedding_file>(engines, name_.path, partitioning, layout, 0);
        memory_[0] = aligned_buffer<float>::zeroed(buffer_floats(partitioning, dim));
    }

    /// Returns the memory of rows in memory [bytes].
    [[nodiscard]] static std::uint64_t memory_bytes(const row_partitioning& partitioning, std::size_t dim) {
        return file_memory_bytes(partitioning, dim) * partitioning.partitions;
    }
    /// Returns the memory of rows in a file: a buffer of one partition [bytes].
    [[nodiscard]] static std::uint64_t file_memory_bytes(const row_partitioning& partitioning, std::size_t dim) {
        return buffer_floats(partitioning, dim) * sizeof(float);
    }
    /// Returns the floats of a buffer for a partition of a file.
    [[nodiscard]] static std::size_t buffer_floats(const row_partitioning& partitioning, std::size_t dim) {
        return static_cast<std::size_t>(
            embedding_file::slot_bytes_of(partitioning, {static_cast<std::uint32_t>(dim), 0}) / sizeof(float));
    }

    /// True if all rows are in memory.
    [[nodiscard]] bool in_memory() const noexcept { return !file_; }
    [[nodiscard]] std::uint64_t rows() const noexcept { return partitioning_.nodes; }
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    /// Returns the partitions of the rows.
    [[nodiscard]] const row_partitioning& partitioning() const noexcept { return partitioning_; }

    /// Returns the memory for the rows of `p` [size(p), dim]; fill it, then call `put(p)`. One partition at a time.
    [[nodiscard]] matrix_view<float> room(partition_id p) noexcept { return view(memory_[file_ ? 0 : p], p); }
    /// Writes a partition whose rows have been set.
    void put(partition_id p) {
        if (!file_) return;
        const auto slot = file_->begin_write(p, 0); // never empty: nothing is ever committed
        file_->write(p, *slot, memory_[0].bytes());
    }

    /// Returns the rows of `p`; those of a file are read into `to`, which grows to `buffer_floats`. Precondition:
    /// `put(p)` was called.
    [[nodiscard]] matrix_view<const float> read(partition_id p, aligned_buffer<float>& to) {
        if (!file_) return view(memory_[p], p);
        if (to.size() < buffer_floats(partitioning_, dim_))
            to = aligned_buffer<float>(buffer_floats(partitioning_, dim_));
        file_->read(p, to.bytes());
        return view(to, p);
    }

    /// Visits all rows in order, one partition per block. Those of a file are read into the buffer of `room`, whose
    /// content is lost. Precondition: all were put, and none is put meanwhile.
    void for_each_block(const embedding_block_visitor& visit) {
        for (partition_id p = 0; p < partitioning_.partitions; ++p) {
            const auto rows = read(p, memory_[0]);
            if (rows.rows() != 0) visit(partitioning_.begin(p), rows);
        }
    }

    [[nodiscard]] io_stats statistics() const { return file_ ? file_->statistics() : io_stats{}; }

private:
    /// A unique file name, removed with this object.
    struct unique_name {
        std::filesystem::path path;

        unique_name() = default;
        explicit unique_name(const std::filesystem::path& directory) {
            std::string name = (directory / ("rows-" + std::string(6, 'X'))).string();
            const int result = ::mkstemp(name.data());
            if (result < 0) throw io_error(errno, "create a scratch file", {.path = directory});
            ::close(result);
            path = name;
        }
        unique_name(const unique_name&) = delete;
        unique_name& operator=(const unique_name&) = delete;
        ~unique_name() {
            std::error_code ignored;
            if (!path.empty()) std::filesystem::remove(path, ignored);
        }
    };

    [[nodiscard]] matrix_view<float> view(aligned_buffer<float>& memory, partition_id p) const noexcept {
        return {memory.data(), static_cast<std::size_t>(partitioning_.size(p)), dim_};
    }

    row_partitioning partitioning_;
    std::size_t dim_;
    std::vector<aligned_buffer<float>> memory_; // one per partition, or the write buffer
    unique_name name_;                          // destroyed after the file
    std::unique_ptr<embedding_file> file_;
};

static_assert(embedding_stream<scratch_rows>);

} // namespace gneiss
