// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Mutexes shared by rows: consecutive blocks of rows are assigned to a fixed number of mutexes in turn.
///
/// They keep a row consistent while one batch reads it and another updates it. A leaf of a parallel loop holds one at a
/// time and starts no other work meanwhile.
class row_locks {
public:
    static constexpr std::uint64_t rows_per_lock = 512; ///< consecutive rows that share a mutex

    /// Returns the mutex of a row.
    [[nodiscard]] std::mutex& of(std::uint64_t row) noexcept { return locks_[index(row)]; }
    /// Returns the number of a row's mutex.
    [[nodiscard]] static std::size_t index(std::uint64_t row) noexcept {
        return static_cast<std::size_t>(row / rows_per_lock % count);
    }

private:
    static constexpr std::size_t count = 1024;
    std::unique_ptr<std::mutex[]> locks_ = std::make_unique<std::mutex[]>(count);
};

/// Rows of the resident partitions of one state: the address of each, with value and optimizer state adjacent.
///
/// A view: valid while its lease is held. Any number of threads may gather and update through it. Const: the rows are
/// read only; a copy of a view is not.
class resident_embeddings {
public:
    resident_embeddings() = default;
    /// View without resident partitions.
    resident_embeddings(row_partitioning partitioning, row_layout layout, row_locks& locks)
        : partitioning_(std::move(partitioning)),
          layout_(layout),
          finder_(partitioning_),
          locks_(&locks),
          base_(partitioning_.partitions, nullptr) {}

    /// Sets the address of a partition's rows. Precondition, not checked: the partition exists, as for the members
    /// below.
    void place(partition_id p, float* rows) noexcept { base_[p] = rows; }

    /// Returns the partitions of the rows.
    [[nodiscard]] const row_partitioning& partitioning() const noexcept { return partitioning_; }
    /// Returns the layout of a row.
    [[nodiscard]] const row_layout& layout() const noexcept { return layout_; }
    /// True if the partition is resident.
    [[nodiscard]] bool resident(partition_id p) const noexcept { return base_[p] != nullptr; }
    /// Returns the mutexes of the rows.
    [[nodiscard]] row_locks& locks() const noexcept { return *locks_; }

    /// Returns all rows of resident partition `p`, values only: [rows, dim].
    [[nodiscard]] matrix_view<const float> values(partition_id p) const noexcept {
        return {base_[p], static_cast<std::size_t>(partitioning_.size(p)), layout_.dim, layout_.floats()};
    }
    /// Returns all floats of resident partition `p`, row by row: [rows · (dim + state)].
    [[nodiscard]] std::span<float> numbers(partition_id p) noexcept {
        return {base_[p], static_cast<std::size_t>(partitioning_.size(p) * layout_.floats())};
    }
    /// Returns all floats of resident partition `p`, read only.
    [[nodiscard]] std::span<const float> numbers(partition_id p) const noexcept {
        return {base_[p], static_cast<std::size_t>(partitioning_.size(p) * layout_.floats())};
    }
    /// Returns value and state of a node's row: [dim + state]. Throws errc::out_of_range unless it exists and is
    /// resident.
    [[nodiscard]] std::span<float> operator[](node_id node) {
        check(node);
        return unchecked(node);
    }
    /// Returns value and state of a node's row, read only. Throws errc::out_of_range unless it exists and is resident.
    [[nodiscard]] std::span<const float> operator[](node_id node) const {
        check(node);
        return unchecked(node);
    }
    /// The same for hot loops. Precondition, checked in debug builds only: the node exists and is resident.
    [[nodiscard]] std::span<float> unchecked(node_id node) noexcept { return {row_of(node), layout_.floats()}; }
    /// The same for hot loops, read only. Precondition, checked in debug builds only: the node exists and is resident.
    [[nodiscard]] std::span<const float> unchecked(node_id node) const noexcept {
        return {row_of(node), layout_.floats()};
    }

    /// Prefetches a resident node's row.
    void prefetch(node_id node) const noexcept {
        const partition_id p = finder_.of(node);
        const auto* const row =
            reinterpret_cast<const std::byte*>(base_[p] + (node - finder_.begin(p)) * layout_.floats());
        for (std::size_t line = 0; line < layout_.bytes(); line += 64) gneiss::prefetch(row + line);
    }

private:
    [[nodiscard]] float* row_of(node_id node) const noexcept {
        const partition_id p = finder_.of(node);
        GNEISS_ASSERT(node < partitioning_.nodes && base_[p] != nullptr);
        return base_[p] + (node - finder_.begin(p)) * layout_.floats();
    }
    void check(node_id node) const {
        if (node >= partitioning_.nodes)
            throw error(errc::out_of_range,
                "node " + std::to_string(node) + " of " + std::to_string(partitioning_.nodes) + " rows");
        if (const partition_id p = finder_.of(node); !resident(p))
            throw error(errc::out_of_range,
                "node " + std::to_string(node) + " is in partition " + std::to_string(p) + ", which is not resident");
    }

    row_partitioning partitioning_{};
    row_layout layout_{};
    row_finder finder_;
    row_locks* locks_ = nullptr;
    std::vector<float*> base_; // by partition; null: not resident
};

/// Calls `body(i, row)` for every ids[i], with `row` [dim + state] locked against other batches; read only if `rows` is
/// const.
///
/// Precondition, not checked: ids distinct and resident. Cost: one lock per run of ids that share a lock, so ascending
/// ids cost least; O(ids) calls in parallel.
template <executor E, class Rows, class Body>
    requires std::same_as<std::remove_const_t<Rows>, resident_embeddings>
void for_each_row(const E& executor, Rows& rows, std::span<const node_id> ids, Body&& body) {
    constexpr std::size_t ahead = 2;
    parallel_for(executor, ids.size(), 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end;) {
            const std::size_t index = row_locks::index(ids[i]);
            const std::scoped_lock lock(rows.locks().of(ids[i]));
            for (; i < end && row_locks::index(ids[i]) == index; ++i) {
                if (i + ahead < end) rows.prefetch(ids[i + ahead]);
                body(i, rows.unchecked(ids[i]));
            }
        }
    });
}

/// Copies the first `out.columns()` floats of each ids[i]'s row (dim: the values; dim + state: all) to out[i]. Throws
/// errc::invalid_argument if `out` has fewer rows than ids, or more columns than a row. Preconditions of
/// `for_each_row`.
template <executor E>
void gather_rows(
    const E& executor, const resident_embeddings& rows, std::span<const node_id> ids, matrix_view<float> out) {
    if (out.rows() < ids.size() || out.columns() > rows.layout().floats())
        throw error(errc::invalid_argument,
            std::to_string(ids.size()) + " rows of " + std::to_string(rows.layout().floats()) +
                " floats are gathered into [" + std::to_string(out.rows()) + ", " + std::to_string(out.columns()) +
                "]");
    const std::size_t bytes = out.columns() * sizeof(float);
    for_each_row(executor, rows, ids,
        [&](std::size_t i, std::span<const float> row) { std::memcpy(out[i].data(), row.data(), bytes); });
}

} // namespace gneiss
