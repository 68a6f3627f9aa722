// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/detail/id_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Lookup structure from rows to slots.
enum class slot_table_kind : std::uint8_t {
    direct, ///< an array over all nodes: 4 bytes per node, one access per lookup (Ginex, section 3.2)
    hashed, ///< a compact hash table: 12 bytes per slot, independent of the number of nodes
};

/// Maps each cached row to its slot.
///
///     slot_table table(nodes, capacity, slot_table::choose(nodes, capacity, memory));
///     table.insert(id, slot);
///     table.find(ids, slots); // slots[i] is the slot of ids[i], or no_slot
///
/// Cost: O(1) per row, expected when hashed. The batched `find` prefetches: several times the rate of single calls once
/// the table exceeds the processor's caches. Only construction and `clear` are O(nodes) or O(slots).
/// Thread-safety: concurrent `find`. To split a batch among threads, call it for parts of the ids.
class slot_table {
public:
    /// Constructs a table for ids below `nodes`, at most `capacity` of them at a time.
    slot_table(std::uint64_t nodes, std::size_t capacity, slot_table_kind kind)
        : kind_(kind),
          direct_(kind == slot_table_kind::direct ? huge_page_vector<cache_slot>(static_cast<std::size_t>(nodes))
                                                  : std::vector<cache_slot>()),
          hashed_(kind == slot_table_kind::hashed ? slots_used(nodes, capacity) : 0) {
        std::ranges::fill(direct_, no_slot);
    }

    /// Memory of a table [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(
        std::uint64_t nodes, std::size_t capacity, slot_table_kind kind) noexcept {
        return kind == slot_table_kind::direct ? nodes * sizeof(cache_slot)
                                               : detail::id_table::bytes_needed(slots_used(nodes, capacity));
    }
    /// Returns `direct` if it takes at most `bytes` or is the smaller one, else `hashed`.
    [[nodiscard]] static slot_table_kind choose(
        std::uint64_t nodes, std::size_t capacity, std::uint64_t bytes) noexcept {
        const std::uint64_t direct = bytes_needed(nodes, capacity, slot_table_kind::direct);
        return direct <= std::max(bytes, bytes_needed(nodes, capacity, slot_table_kind::hashed))
            ? slot_table_kind::direct
            : slot_table_kind::hashed;
    }

    /// Returns the kind in use.
    [[nodiscard]] slot_table_kind kind() const noexcept { return kind_; }

    /// Slot of a row, or `no_slot`. Precondition of a direct table, checked in debug builds only: the row is below the
    /// number of nodes.
    [[nodiscard]] cache_slot find(node_id id) const noexcept {
        if (kind_ == slot_table_kind::hashed) return hashed_.find(id);
        GNEISS_ASSERT(id < direct_.size());
        return direct_[id];
    }
    /// to[i] = slot of ids[i], or `no_slot`. Preconditions, not checked: to.size() ≥ ids.size(), and as above.
    void find(std::span<const node_id> ids, std::span<cache_slot> to) const noexcept {
        if (kind_ == slot_table_kind::hashed) return hashed_.find(ids, to);
        constexpr std::size_t ahead = 24;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i + ahead < ids.size()) prefetch(direct_.data() + ids[i + ahead]);
            to[i] = find(ids[i]);
        }
    }
    /// Puts a row into a slot, moving it if it has one. Returns its previous slot, or `no_slot`. Preconditions, checked
    /// in debug builds only: at most `capacity` rows including this one, each below the number of nodes.
    cache_slot insert(node_id id, cache_slot slot) noexcept {
        GNEISS_ASSERT(slot != no_slot);
        if (kind_ == slot_table_kind::hashed) return hashed_.exchange(id, slot);
        GNEISS_ASSERT(id < direct_.size());
        return std::exchange(direct_[id], slot);
    }
    /// Removes a row and returns its slot, or `no_slot`. Precondition as above.
    cache_slot erase(node_id id) noexcept {
        return kind_ == slot_table_kind::hashed ? hashed_.erase(id) : std::exchange(direct_[id], no_slot);
    }
    /// Removes all rows. O(capacity), or O(nodes) if direct.
    void clear() noexcept {
        std::ranges::fill(direct_, no_slot);
        hashed_.clear();
    }

private:
    static std::size_t slots_used(std::uint64_t nodes, std::size_t capacity) noexcept {
        return static_cast<std::size_t>(std::min<std::uint64_t>(nodes, capacity));
    }
    static_assert(no_slot == detail::id_table::none);

    slot_table_kind kind_;
    std::vector<cache_slot> direct_;
    detail::id_table hashed_;
};

} // namespace gneiss
