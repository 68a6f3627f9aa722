// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/mapped_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

namespace detail {

/// Copies row ids[i] of a table in memory to to.row(i), in tasks of about `task_bytes`.
inline void copy_rows(const executor_ref& executor, const std::byte* table, std::size_t row_bytes,
    std::span<const node_id> ids, const gather_target& to, std::size_t task_bytes) {
    parallel_for(
        executor, ids.size(), std::max<std::size_t>(task_bytes / row_bytes, 1), [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) std::memcpy(to.row(i), table + std::size_t{ids[i]} * row_bytes, row_bytes);
        });
}

} // namespace detail

/// Rows of a file through a memory map: the page cache decides which rows stay in memory. The baseline that disk
/// sources are compared with.
///
/// The map is advised that accesses are random, so a fault reads the pages of one row and no read-ahead. A task of the
/// executor blocks while the device reads, so an executor of many more threads than cores keeps the device busy; more
/// than twice the cores is a fair choice.
/// Cost: a page fault for each page that is not cached. Pages belong to the system and to no budget, and the number of
/// requests is unknown: the statistics count rows.
/// Errors: those of opening. A device that fails later, or a file that is truncated, kills the process by SIGBUS; use
/// `disk_rows` to get an error. Thread-safety: any number of gathers at once.
/// Source: Park et al., "Ginex", VLDB 2022, sections 2.3 and 5.1 (PyG+).
class mapped_rows {
public:
    /// Precondition: the executor outlives this. Throws `io_error`, errc::corrupt for a file too short for its rows.
    mapped_rows(stored_rows rows, executor_ref executor) : rows_(std::move(rows)), executor_(executor) {
        const plain_file file = plain_file::open(rows_.path);
        rows_.check(file.size());
        map_ = mapped_file(file, rows_.offset + rows_.bytes());
        map_.expect_random();
    }

    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_.rows; }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return rows_.row_bytes; }

    void gather(std::span<const node_id> ids, const gather_target& to) {
        rows_.check(ids, to);
        constexpr std::size_t task = 16384; // a few pages to wait for, so that every thread gets work
        detail::copy_rows(executor_, map_.bytes().data() + rows_.offset, rows_.row_bytes, ids, to, task);
        const std::scoped_lock lock(mutex_);
        statistics_.rows += ids.size();
    }
    [[nodiscard]] gather_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    stored_rows rows_;
    executor_ref executor_;
    mapped_file map_;
    mutable std::mutex mutex_;
    gather_stats statistics_;
};

static_assert(row_source<mapped_rows>);

/// All rows of a file in memory, charged to a budget.
///
///     const stored_rows stored{.path = "features", .offset = 4096, .rows = nodes, .row_bytes = 512};
///     memory_rows rows(stored, nullptr, executor, budget);
///     rows.gather(ids, gather_target::of(matrix)); // row i of the matrix is row ids[i]
///
/// Cost: one sequential read at first, then copies. Errors: `io_error`; errc::corrupt for a file that is too short, or
/// whose checksums do not match; over_budget. Thread-safety: any number of gathers at once.
class memory_rows {
public:
    /// \param checksums  of the file, whose data begins with the first row; null: no verification
    /// Precondition: executor and budget outlive this.
    memory_rows(stored_rows rows, const checksum_table* checksums, executor_ref executor, memory_budget& budget)
        : rows_(std::move(rows)),
          executor_(executor) {
        const plain_file file = plain_file::open(rows_.path);
        rows_.check(file.size());
        if (checksums != nullptr) {
            if (checksums->data_offset() != rows_.offset)
                throw error(
                    errc::invalid_argument, "the checksums are of data that begins elsewhere", {.path = rows_.path});
            checksums->verify_header(file);
        }
        charge_ = budget.charge(need(rows_));
        table_ = aligned_buffer<std::byte>(static_cast<std::size_t>(rows_.bytes()));
        advise_huge_pages(table_.data(), table_.size());
        constexpr std::size_t piece = 8 * checksum_block_bytes;
        for (std::size_t at = 0; at < table_.size(); at += piece) {
            const std::span<std::byte> to = table_.span().subspan(at, std::min(piece, table_.size() - at));
            if (checksums != nullptr)
                checksums->read(file, at, to);
            else
                file.read_at(rows_.offset + at, to);
            file.drop_cached(rows_.offset + at, to.size()); // they would be in memory twice
        }
    }

    /// Returns the memory of the rows.
    [[nodiscard]] static memory_need need(const stored_rows& rows) { return {"rows in memory", rows.bytes()}; }

    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_.rows; }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return rows_.row_bytes; }

    void gather(std::span<const node_id> ids, const gather_target& to) {
        rows_.check(ids, to);
        detail::copy_rows(executor_, table_.data(), rows_.row_bytes, ids, to, std::size_t{64} << 10);
        const std::scoped_lock lock(mutex_);
        statistics_.rows += ids.size();
        statistics_.hits += ids.size();
    }
    [[nodiscard]] gather_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    stored_rows rows_;
    executor_ref executor_;
    memory_charge charge_;
    aligned_buffer<std::byte> table_;
    mutable std::mutex mutex_;
    gather_stats statistics_;
};

static_assert(row_source<memory_rows>);

} // namespace gneiss
