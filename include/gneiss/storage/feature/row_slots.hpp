// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/storage/feature/row_source.hpp>

namespace gneiss {

/// Assignment of rows to the slots of a cache, controlled by change sets: the bookkeeping of caches in host memory or
/// on a device. Used slots are always the first ones.
///
/// Memory: `slot_table::bytes_needed`. Thread-safety: one call at a time.
class row_slots {
public:
    /// At most `slots` rows at a time, with ids below `rows`.
    row_slots(std::uint64_t rows, std::size_t slots, slot_table_kind kind)
        : rows_(rows),
          slots_(slots),
          table_(rows, slots, kind) {}

    /// Returns the number of slots.
    [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
    [[nodiscard]] std::size_t held() const noexcept { return held_; } ///< rows in the cache
    [[nodiscard]] bool holds(node_id id) const noexcept { return table_.find(id) != no_slot; }
    /// Returns the slot of a row, or `no_slot`.
    [[nodiscard]] cache_slot slot_of(node_id id) const noexcept { return table_.find(id); }

    /// Sets slot_of[i] to the slot of ids[i], or `no_slot`. Precondition: the ids are rows. O(ids), in parallel.
    void find(std::span<const node_id> ids, std::span<cache_slot> slot_of, executor_ref executor) const {
        constexpr std::size_t grain = 8192;
        parallel_for(executor, ids.size(), grain,
            [&](std::size_t i, std::size_t end) { table_.find(ids.subspan(i, end - i), slot_of.subspan(i, end - i)); });
    }

    /// Sets slot_of[i] to the slot for in[i]: that of out[i], then free ones. O(in).
    /// Throws errc::out_of_range for an id that is not a row; errc::invalid_argument for too many rows, for a row in
    /// `in` that is cached or repeated, and for one in `out` that is not cached. After an error the contents are
    /// unspecified: call `clear`.
    void assign(std::span<const node_id> in, std::span<const node_id> out, std::vector<cache_slot>& slot_of) {
        check_rows(in, rows_);
        check_rows(out, rows_);
        slot_of.clear();
        if (out.size() > in.size() || in.size() - out.size() > slots_ - held_)
            throw refused("brings more rows than there are slots");
        for (const node_id id : out) {
            slot_of.push_back(table_.erase(id));
            if (slot_of.back() == no_slot) throw refused("takes out a row that is not here");
        }
        while (slot_of.size() < in.size()) slot_of.push_back(static_cast<cache_slot>(held_++));
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (holds(in[i])) throw refused("brings a row that is here");
            table_.insert(in[i], slot_of[i]);
        }
    }
    /// The same for a change set after the batch `ids`. Also throws errc::invalid_argument if in_position does not
    /// refer to the rows of `in`: other rows would go into their slots.
    void assign(const change_set& changes, std::span<const node_id> ids, std::vector<cache_slot>& slot_of) {
        if (changes.in_position.size() != changes.in.size()) throw refused("has a row without its position");
        check_rows(changes.in, rows_);
        for (std::size_t i = 0; i < changes.in.size(); ++i) {
            const std::uint32_t at = changes.in_position[i];
            if (at < ids.size() && ids[at] == changes.in[i]) continue;
            throw refused("takes row " + std::to_string(changes.in[i]) + " from position " + std::to_string(at) +
                (at < ids.size() ? " of the batch, where row " + std::to_string(ids[at]) + " is"
                                 : " of a batch of " + std::to_string(ids.size())));
        }
        assign(changes.in, changes.out, slot_of);
    }
    /// Empties all slots.
    void clear() noexcept {
        held_ = 0;
        table_.clear();
    }

    /// Returns the error for an invalid change.
    [[nodiscard]] static error refused(const std::string& what) {
        return {errc::invalid_argument, "a change of cached rows " + what};
    }

private:
    std::uint64_t rows_;
    std::size_t slots_;
    slot_table table_;
    std::size_t held_ = 0; // used slots: the first ones
};

} // namespace gneiss
