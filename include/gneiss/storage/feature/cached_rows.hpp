// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/feature/row_slots.hpp>
#include <gneiss/storage/feature/row_source.hpp>

namespace gneiss {

/// A cache of some rows of another source; change sets control its contents.
///
///     disk_rows below(engines, rows, {}, executor, budget);
///     cached_rows cache(below, capacity, slot_table_kind::direct, executor, budget);
///     cache.fill(policy.initial());
///     cache.gather(ids, to);             // hits from memory, misses from below
///     cache.apply(changes, ids, to);     // a change_set of the policy
///
/// Meaning: `gather` copies cached rows and reads the others from the source below. The contents change only by `fill`
/// and `apply`, so a policy on integers (cache/simulate.hpp) knows them exactly. A cache is a row source, so caches can
/// be stacked.
/// Cost: a lookup and a copy per row, by the executor; misses are read while hits are copied, if the source below is an
/// `async_row_source`.
/// Memory: `need`, charged to the budget, and 12 bytes per id of the largest gather.
/// Errors: those of the source below; over_budget. A `fill` that fails and an invalid change set leave the cache empty,
/// so that no slot claims a row it does not hold.
/// Thread-safety: as a row source; `fill`, `apply`, `release` and `acquire` count as gathers.
/// Source: Park et al., "Ginex", VLDB 2022, section 3.3 (feature cache: structure and update).
///
/// From examples/24_own_row_source.cpp:
/// \snippet 24_own_row_source.cpp cache
template <class Below>
class cached_rows {
    static_assert(row_source<Below>,
        "cached_rows: Below must be a gneiss::row_source, see gneiss/storage/feature/row_source.hpp");

public:
    /// \param capacity  maximum number of cached rows; 0: all gathers go to the source below
    /// Precondition: the source below, the executor and the budget outlive this. Throws over_budget.
    cached_rows(Below& below, std::size_t capacity, slot_table_kind kind, executor_ref executor, memory_budget& budget)
        : below_(below),
          row_bytes_(below.row_bytes()),
          capacity_(static_cast<std::size_t>(std::min<std::uint64_t>(capacity, below.rows()))),
          kind_(kind),
          executor_(executor),
          budget_(budget) {
        acquire();
    }
    cached_rows(const cached_rows&) = delete;
    cached_rows& operator=(const cached_rows&) = delete;

    /// Returns the memory of a cache.
    [[nodiscard]] static memory_need need(
        std::uint64_t rows, std::size_t row_bytes, std::size_t capacity, slot_table_kind kind) {
        return {"cached rows",
            std::min<std::uint64_t>(capacity, rows) * row_bytes + slot_table::bytes_needed(rows, capacity, kind)};
    }

    [[nodiscard]] std::uint64_t rows() const { return below_.rows(); }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::size_t held() const noexcept { return held_ ? held_->held() : 0; } ///< rows in the cache
    [[nodiscard]] bool holds(node_id id) const noexcept { return held_ && held_->holds(id); }

    void gather(std::span<const node_id> ids, const gather_target& to) {
        begin(ids, to);
        finish();
    }
    /// Looks up cached rows and starts reading the others. The cache does not change before `finish`.
    void begin(std::span<const node_id> ids, const gather_target& to) {
        check_rows(ids, rows());
        to.check(ids.size(), row_bytes_);
        target_ = to;
        find(ids);
        if constexpr (async_row_source<Below>) below_.begin(misses_, missing_target());
    }
    /// Completes the gather that `begin` started.
    void finish() {
        try {
            copy(slot_of_.size(), [&](std::size_t i) {
                if (slot_of_[i] != no_slot) std::memcpy(target_.row(i), row(slot_of_[i]), row_bytes_);
            });
            if constexpr (async_row_source<Below>)
                below_.finish();
            else
                below_.gather(misses_, missing_target());
        } catch (...) {
            if constexpr (async_row_source<Below>) drop_gather(below_);
            slot_of_.clear();
            misses_.clear();
            throw;
        }
        const std::scoped_lock lock(mutex_);
        statistics_.rows += slot_of_.size();
        statistics_.hits += slot_of_.size() - misses_.size();
        slot_of_.clear();
        misses_.clear();
    }

    /// Reads rows from below into the cache: `in` takes the slots of `out`, then free ones. Other cached rows stay, so
    /// a cache that is carried over reads only the missing rows. Throws errc::invalid_argument for too many rows, for
    /// one that is cached or repeated, and for one in `out` that is not cached.
    void fill(std::span<const node_id> in, std::span<const node_id> out = {}) {
        try {
            assign(in, out);
            below_.gather(in, {memory_.data(), row_bytes_, slot_of_});
        } catch (...) {
            clear();
            throw;
        }
        free_memory(slot_of_); // a batch has fewer
    }

    /// Applies the changes after a gathered batch. Throws errc::invalid_argument for a change set that is invalid for
    /// this cache, or whose positions are not those of its rows. O(changes), not O(ids).
    /// \param ids       ids of the batch
    /// \param gathered  target of their gather: in[i] is at row in_position[i]
    void apply(const change_set& changes, std::span<const node_id> ids, const gather_target& gathered) {
        try {
            gathered.check(ids.size(), row_bytes_);
            assign(changes, ids);
        } catch (...) {
            clear();
            throw;
        }
        copy(slot_of_.size(),
            [&](std::size_t i) { std::memcpy(row(slot_of_[i]), gathered.row(changes.in_position[i]), row_bytes_); });
        slot_of_.clear();
    }

    /// Drops all rows and frees the memory; until `acquire` every row is a miss.
    void release() noexcept {
        held_.reset();
        memory_ = {};
        charge_ = {};
    }
    /// Allocates the memory of an empty cache again. Throws over_budget.
    void acquire() {
        if (held_ || capacity_ == 0) return;
        charge_ = budget_.charge(need(rows(), row_bytes_, capacity_, kind_));
        memory_ = aligned_buffer<std::byte>(capacity_ * row_bytes_);
        advise_huge_pages(memory_.data(), memory_.size());
        held_.emplace(rows(), capacity_, kind_);
    }

    /// Returns rows and hits of this cache, and the reads below it.
    [[nodiscard]] gather_stats statistics() const {
        gather_stats all = below_.statistics();
        const std::scoped_lock lock(mutex_);
        all.rows = statistics_.rows;
        all.hits = statistics_.hits;
        return all;
    }

private:
    static constexpr std::size_t copy_bytes = std::size_t{64} << 10; // bytes copied per task

    [[nodiscard]] std::byte* row(cache_slot slot) noexcept { return memory_.data() + std::size_t{slot} * row_bytes_; }
    [[nodiscard]] gather_target missing_target() const noexcept {
        return {target_.data, target_.stride, missing_positions_};
    }
    template <class Copy>
    void copy(std::size_t size, const Copy& one) const {
        parallel_for(
            executor_, size, std::max<std::size_t>(copy_bytes / row_bytes_, 1), [&](std::size_t i, std::size_t end) {
                for (; i < end; ++i) one(i);
            });
    }

    /// Computes slot_of_ for all ids, and misses_ with their positions.
    void find(std::span<const node_id> ids) {
        slot_of_.assign(ids.size(), no_slot);
        if (held_) held_->find(ids, slot_of_, executor_);
        misses_.clear();
        missing_positions_.clear();
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (slot_of_[i] != no_slot) continue;
            misses_.push_back(ids[i]);
            missing_positions_.push_back(static_cast<std::uint32_t>(target_.position(i)));
        }
    }

    /// Computes slot_of_[i], the slot for in[i]; for a change set after a batch, or for `in` and `out`.
    template <class Change>
    void assign(const Change& change, std::span<const node_id> other) {
        slot_of_.clear();
        if (held_) return held_->assign(change, other, slot_of_);
        if (!change.empty()) throw row_slots::refused("brings more rows than there are slots");
    }
    void clear() noexcept {
        slot_of_.clear();
        if (held_) held_->clear();
    }

    Below& below_;
    std::size_t row_bytes_, capacity_;
    slot_table_kind kind_;
    executor_ref executor_;
    memory_budget& budget_;
    memory_charge charge_;
    aligned_buffer<std::byte> memory_; // [slots, row_bytes]
    std::optional<row_slots> held_;    // empty while the memory is released

    gather_target target_;
    std::vector<cache_slot> slot_of_; // for the ids of a gather, or the rows to insert
    std::vector<node_id> misses_;
    std::vector<std::uint32_t> missing_positions_;
    mutable std::mutex mutex_; // guards the members below
    gather_stats statistics_;
};

static_assert(async_row_source<cached_rows<any_row_source>>);

} // namespace gneiss
