// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/row_delivery.hpp>

namespace gneiss {

/// Plans deliveries to one compute worker's cache of rows, on integers alone, by a policy of cache/.
///
/// Policies fill a cache before the first batch. Here, such a row is sent with the first group that has it, and its
/// slot waits; since no policy displaces it before, as many rows are sent as in a simulation (`cache_counts::reads`),
/// but for rows of a static cache that no group has.
///
///     delivery_planner plan(lru(capacity));                  // or, for Belady's cache:
///     delivery_planner best(capacity);
///     best.begin_window(trace);                              // of the next groups
///     const row_delivery one = best.next(ids);
///
/// Cost: that of the policy, and O(1) per row, expected. Memory: 24 bytes a slot, and the policy's: `bytes_needed`. One
/// thread. Source: Armada, section 5 (feature caching), with LRU, and messages in place of plans; Ginex (VLDB'22),
/// section 3.3.
class delivery_planner {
public:
    /// Plans by a policy that knows no future.
    explicit delivery_planner(any_cache_policy policy)
        : capacity_(policy.capacity()),
          slots_(capacity_, capacity_, slot_table_kind::hashed),
          waiting_(capacity_, capacity_, slot_table_kind::hashed),
          policy_(std::move(policy)) {
        for (const node_id id : policy_->initial()) reserve(id, used_++);
    }
    /// Plans by Belady's policy, window by window.
    explicit delivery_planner(std::size_t capacity)
        : capacity_(capacity),
          slots_(capacity, capacity, slot_table_kind::hashed),
          waiting_(capacity, capacity, slot_table_kind::hashed) {}

    /// Starts Belady's next window, whose groups are those of the trace. Rows in the cache stay if they have a use.
    /// Throws errc::invalid_argument before the end of the previous window.
    template <access_trace Trace>
    void begin_window(Trace& trace) {
        if (window_ && left_ != 0)
            throw error(errc::invalid_argument, "a window of " + std::to_string(left_) + " groups is not over");
        const std::vector<node_id> resident = window_ ? window_->resident() : std::vector<node_id>{};
        left_ = trace.batches();
        window_.emplace(trace, belady_options{.capacity = capacity_, .resident = resident}, serial_executor{});
        freed_.clear();
        for (const node_id id : window_->fill().out) freed_.push_back(leave(id));
        for (std::size_t i = 0; i < window_->fill().in.size(); ++i)
            reserve(window_->fill().in[i], i < freed_.size() ? freed_[i] : used_++);
    }

    /// Memory of a planner without its window [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(std::uint64_t capacity) noexcept { return 100 * capacity; }

    /// Returns the delivery of the next group. Throws errc::invalid_argument for one beyond the window, or that is not
    /// that of the trace.
    ///
    /// \param ids  distinct rows
    [[nodiscard]] row_delivery next(std::span<const node_id> ids) {
        row_delivery result{.sequence = sequence_++, .from = std::vector<cache_slot>(ids.size()), .enter = {}};
        slots_.find(ids, result.from);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (result.from[i] != no_slot) continue;
            const cache_slot kept = waiting_.erase(ids[i]);
            if (kept == no_slot) continue;
            ++fills_;
            enter(result, ids[i], i, kept);
        }
        if (policy_) {
            policy_->next(ids, changes_);
        } else if (window_) {
            window_->next(ids, changes_);
            --left_;
        } else {
            throw error(errc::invalid_argument, "Belady's cache needs a window of the groups to come");
        }
        freed_.clear();
        for (const node_id id : changes_.out) freed_.push_back(leave(id));
        for (std::size_t i = 0; i < changes_.in.size(); ++i)
            enter(result, changes_.in[i], changes_.in_position[i], i < freed_.size() ? freed_[i] : used_++);
        return result;
    }

    /// Returns the rows so far that were sent into a slot that the policy had filled before the first batch.
    [[nodiscard]] std::uint64_t fills() const noexcept { return fills_; }
    /// True if `next` needs `begin_window`.
    [[nodiscard]] bool needs_window() const noexcept { return !policy_; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

private:
    void reserve(node_id id, cache_slot slot) { (void)waiting_.insert(id, slot); }
    void enter(row_delivery& to, node_id id, std::size_t position, cache_slot slot) {
        (void)slots_.insert(id, slot);
        to.enter.push_back({static_cast<std::uint32_t>(position), slot});
    }
    /// Frees the slot of a row, which may still wait for it.
    [[nodiscard]] cache_slot leave(node_id id) {
        const cache_slot slot = slots_.erase(id);
        return slot != no_slot ? slot : waiting_.erase(id);
    }

    std::size_t capacity_;
    slot_table slots_, waiting_; // of rows in the cache, and of those that are to come
    std::optional<any_cache_policy> policy_;
    std::optional<belady_policy> window_;
    std::size_t left_ = 0; // groups of the window
    cache_slot used_ = 0;  // slots in use: a prefix
    std::uint64_t sequence_ = 0, fills_ = 0;
    change_set changes_;
    std::vector<cache_slot> freed_;
};

/// Rows of a compute worker's cache, as deliveries say. It knows no ids and no policy.
///
/// Memory: the slots, `capacity` rows, and the rows of a group. One thread.
class rows_mirror {
public:
    /// Makes an empty cache of `capacity` rows of `columns` floats.
    rows_mirror(std::size_t capacity, std::size_t columns) : columns_(columns), rows_(capacity * columns) {}

    /// Memory of the slots [bytes].
    [[nodiscard]] static memory_need need(std::uint64_t capacity, std::uint64_t columns) {
        return {"feature cache", capacity * columns * sizeof(float)};
    }

    /// Writes the rows of a group, [distinct rows, columns], and applies its changes. A delivery with sequence 0 begins
    /// with an empty cache. O(rows). Throws errc::corrupt for a delivery out of its turn, slots or positions that are
    /// none, or another number of rows sent; the cache is unchanged.
    ///
    /// \param from   slot of each distinct row, or `no_slot`
    /// \param enter  as in `row_delivery`
    /// \param sent   [rows sent, columns]
    void apply(std::uint64_t sequence, std::span<const cache_slot> from, std::span<const entering_row> enter,
        matrix_view<const float> sent, matrix_view<float> out) {
        if (sequence != 0 && sequence != next_)
            throw error(errc::corrupt,
                "rows of group " + std::to_string(sequence) + " came after those of " + std::to_string(next_) +
                    " groups");
        const std::size_t capacity = columns_ == 0 ? 0 : rows_.size() / columns_;
        const bool sound = std::ranges::all_of(from, [&](cache_slot s) { return s == no_slot || s < capacity; }) &&
            std::ranges::all_of(
                enter, [&](const entering_row& row) { return row.position < from.size() && row.slot < capacity; }) &&
            static_cast<std::size_t>(std::ranges::count(from, no_slot)) == sent.rows() && sent.columns() == columns_;
        if (!sound) throw error(errc::corrupt, "rows of group " + std::to_string(sequence) + " do not fit the cache");
        std::size_t taken = 0;
        for (std::size_t i = 0; i < from.size(); ++i)
            std::ranges::copy(from[i] == no_slot ? sent[taken++] : slot(from[i]), out[i].begin());
        for (const entering_row& row : enter) std::ranges::copy(out[row.position], slot(row.slot).begin());
        next_ = sequence + 1;
    }

private:
    [[nodiscard]] std::span<float> slot(cache_slot at) noexcept {
        return std::span(rows_).subspan(std::size_t{at} * columns_, columns_);
    }

    std::size_t columns_;
    std::vector<float> rows_;
    std::uint64_t next_ = 0;
};

} // namespace gneiss
