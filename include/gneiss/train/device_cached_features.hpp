// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/access_window.hpp>
#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/feature/row_slots.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// Features whose cache is on the backend's device, where the change sets of superbatches control it (Ginex, VLDB'22,
/// section 3.3). The host knows slots alone: of a batch, it reads the rows that are not on the device, into the memory
/// from which they are uploaded, and says in `training_batch::moves` where each row is and which ones stay.
///
///     device_cached_features features({.rows = {.source = rows, .columns = 128}, .slots = 10'000}, executor);
///
/// A row that a superbatch holds from its beginning comes with the first batch that reads it, so that nothing waits
/// for a fill, and each row that enters passes the bus once. Other rows that a batch misses are for that batch alone.
/// Needs a backend made with `device_features::cache_slots`, which computes batches in the order of their gathers.
/// Memory: `need`, and 12 bytes per node of the largest batch; the caller charges it. Errors: those of the source and
/// of `row_slots::assign`.
class device_cached_features {
public:
    using times = cached_features::times; ///< time of each part of the work

    /// Precondition: what `with` refers to outlives this. Throws errc::invalid_argument for a host cache beside that of
    /// the device, for rows there that are neither floats nor as they are stored, and for more slots than
    /// `device_cache_moves` can number.
    device_cached_features(const device_cached_rows& with, executor_ref executor)
        : of_(checked(with)),
          executor_(executor),
          slots_(with.rows.source.rows(), with.slots, with.table),
          here_(with.slots) {}

    /// Returns the memory of the slots of a cache.
    [[nodiscard]] static memory_need need(std::uint64_t rows, std::size_t slots, slot_table_kind table) {
        return {"slots of features on the device", slot_table::bytes_needed(rows, slots, table) + slots / 8 + rows / 2};
    }

    [[nodiscard]] input_columns columns() const noexcept { return {.dense = of_.rows.columns, .sparse = 0}; }
    void begin_epoch(const epoch_start& /*start*/) noexcept {}
    [[nodiscard]] static lease acquire(std::uint32_t /*state*/) noexcept { return {}; }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }

    /// Reads the rows that are not on the device to the first rows of `brought`, as `device_cached_rows::type`.
    void gather(training_batch& b, matrix_view<float> brought) {
        detail::timed(times_.fill, [&] { begin(b); });
        detail::timed(times_.gather, [&] {
            find(b);
            read(b, brought);
        });
        detail::timed(times_.update, [&] { change(b); });
    }

    void enter(phase /*next*/) noexcept {} // superbatches rely on cached rows

    /// Returns times so far.
    [[nodiscard]] const times& spent() const noexcept { return times_; }
    /// Returns requested rows, and hits on the device. Thread-safe.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> counts() const noexcept {
        return {rows_.load(std::memory_order_relaxed), hits_.load(std::memory_order_relaxed)};
    }

private:
    [[nodiscard]] static const device_cached_rows& checked(const device_cached_rows& with) {
        if (with.rows.cache != nullptr || with.rows.policy != nullptr)
            throw error(errc::invalid_argument, "rows are cached on the device, and not in memory, too");
        if (with.type != feature_type::f32 && (with.type != with.rows.type || with.rows.normalized))
            throw error(errc::invalid_argument, "rows in a cache on the device are floats, or as they are stored");
        if (with.slots >= device_cache_moves::brought)
            throw error(errc::invalid_argument,
                "a cache of " + std::to_string(with.slots) + " rows on a device: at most " +
                    std::to_string(device_cache_moves::brought - 1));
        return with;
    }

    /// Changes the slots when a superbatch begins. The rows of those that change come with later batches.
    void begin(const training_batch& b) {
        if (!b.window || b.key.number.index != b.window->first()) return;
        if (b.window->begins_empty()) slots_.clear();
        slots_.assign(b.window->fill().in, b.window->fill().out, slot_of_);
        for (const cache_slot slot : slot_of_) here_.reset(slot);
        free_memory(slot_of_); // a batch has fewer
        if (of_.rows.extents == nullptr) return;
        expect(b.window);
        of_.rows.source.gather({}, {}); // deals rows out
    }

    /// Announces the rows that the batches of a superbatch will bring.
    void expect(const std::shared_ptr<access_window>& window) {
        bitmap there(static_cast<std::size_t>(of_.rows.source.rows())), waits(there.size());
        for (std::size_t id = 0; id < there.size(); ++id)
            if (const cache_slot slot = slots_.slot_of(static_cast<node_id>(id)); slot != no_slot)
                (here_[slot] ? there : waits).set(id);
        of_.rows.extents->expect({.batches = window->last() - window->first(),
            .visit = [window, there = std::move(there), waits = std::move(waits)](const auto& visit) {
                bitmap now = there, coming = waits;
                window->for_each_miss(now, [&](std::size_t batch, std::span<const node_id> missing) {
                    visit(batch, missing);
                    for (const node_id id : missing) {
                        if (!coming[id]) continue;
                        coming.reset(id);
                        now.set(id);
                    }
                });
            }});
    }

    /// Finds the places of a batch's rows.
    void find(training_batch& b) {
        const std::span<const node_id> ids = b.nodes;
        check_rows(ids, of_.rows.source.rows());
        if (ids.size() >= device_cache_moves::brought)
            throw error(errc::out_of_range, "a batch of " + std::to_string(ids.size()) + " rows of a device's cache");
        slot_of_.resize(ids.size());
        slots_.find(ids, slot_of_, executor_);
        device_cache_moves& to = b.moves;
        to.places.resize(ids.size());
        to.entries.clear();
        missing_.clear();
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const cache_slot slot = slot_of_[i];
            if (slot != no_slot && here_[slot]) {
                to.places[i] = slot;
                continue;
            }
            const auto number = static_cast<std::uint32_t>(missing_.size());
            to.places[i] = device_cache_moves::brought | number;
            if (slot != no_slot) to.entries.push_back({number, slot});
            missing_.push_back(ids[i]);
        }
        for (const device_cache_entry& of : to.entries) here_.set(of.slot);
        rows_.fetch_add(ids.size(), std::memory_order_relaxed);
        hits_.fetch_add(ids.size() - missing_.size(), std::memory_order_relaxed);
    }

    void read(training_batch& b, matrix_view<float> brought) {
        trace_span span(b.trace, "read rows", b.traced());
        const std::uint64_t before = span ? of_.rows.source.statistics().io.read_bytes : 0;
        const feature_rows& from = of_.rows;
        if (from.extents != nullptr && b.window) from.extents->select(b.key.number.index - b.window->first());
        b.moves.rows = missing_.size();
        b.moves.row_bytes = of_.row_bytes();
        detail::read_rows_as(of_.type, from, missing_,
            {.data = reinterpret_cast<std::byte*>(brought.data()), .stride = of_.row_bytes()}, brought, stored_,
            executor_);
        b.copied_bytes += missing_.size() * row_bytes(from.type, from.columns);
        if (of_.type != from.type) b.copied_bytes += missing_.size() * from.columns * sizeof(float);
        if (span) span.bytes(from.source.statistics().io.read_bytes - before);
    }

    /// Applies the change set after a batch.
    void change(training_batch& b) {
        if (!b.window || slots_.slots() == 0) return; // samples drawn after a stop belong to no superbatch
        device_cache_moves& to = b.moves;
        b.window->changes(b.nodes, changes_);
        slots_.assign(changes_, b.nodes, slot_of_);
        // a row that came with this batch and leaves after it makes room
        std::erase_if(
            to.entries, [&](const device_cache_entry& of) { return slots_.slot_of(missing_[of.row]) != of.slot; });
        for (std::size_t i = 0; i < changes_.in.size(); ++i) {
            const std::uint32_t place = to.places[changes_.in_position[i]];
            if ((place & device_cache_moves::brought) == 0) throw row_slots::refused("brings a row that is here");
            to.entries.push_back({place & ~device_cache_moves::brought, slot_of_[i]});
            here_.set(slot_of_[i]);
        }
    }

    device_cached_rows of_;
    executor_ref executor_;
    row_slots slots_;
    bitmap here_; ///< [slots] the row of the slot is on the device, once the batches before are computed
    change_set changes_;
    std::vector<cache_slot> slot_of_;   ///< of the ids of a batch, or of rows that enter
    std::vector<node_id> missing_;      ///< ids of the rows that the batch brings
    reusable_buffer<std::byte> stored_; ///< rows before they are decoded
    times times_;
    std::atomic<std::uint64_t> rows_{0}, hits_{0};
};
static_assert(feature_source<device_cached_features>);

} // namespace gneiss
