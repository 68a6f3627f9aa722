// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/linked_rows.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Three queues: new rows go into a small one, a tenth of the cache, and from there into the main one if they were used more
/// than once since, else out; rows that come back soon after that, as a queue of ids remembers, go to the main one at once. The
/// main queue gives rows another round for each use, three at most. So rows used once leave early, which most are.
///
/// For batches: first all hits are counted, then the rows that were missing are inserted in order. Of rows inserted and
/// pushed out by the same batch nothing is seen.
/// Cost: O(ids) amortized a batch. Memory: 25 bytes a slot, and 16 for each remembered id, of which there are as many as
/// rows in the main queue.
/// Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023, Algorithm 1; where
/// its listing lets the main queue evict within an eviction of the small one, that is left to the next turn, as the authors'
/// libCacheSim does: a row leaves only for one that comes.
class s3_fifo {
public:
    explicit s3_fifo(std::size_t capacity)
        : rows_(capacity),
          place_of_(capacity, capacity, slot_table_kind::hashed),
          small_slots_(std::max<std::size_t>(capacity / 10, 1)),
          uses_(capacity, 0),
          remembered_(capacity - std::min(capacity, small_slots_)),
          ghost_of_(remembered_.size(), remembered_.size(), slot_table_kind::hashed) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return rows_.capacity(); }
    [[nodiscard]] static std::span<const node_id> initial() noexcept { return {}; }

    void next(std::span<const node_id> ids, change_set& out) {
        out.clear();
        if (capacity() == 0) return;
        places_.resize(ids.size());
        place_of_.find(ids, places_);
        for (const cache_slot place : places_)
            if (place != no_slot) uses_[place] = std::min<std::uint8_t>(uses_[place] + 1, most_uses) & use_bits;
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (places_[i] == no_slot) insert(ids[i], out.out);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (places_[i] != no_slot) continue;
            const cache_slot place = place_of_.find(ids[i]);
            if (place == no_slot) continue; // pushed out by the rest of its batch
            uses_[place] &= use_bits;
            out.in.push_back(ids[i]);
            out.in_position.push_back(static_cast<std::uint32_t>(i));
        }
    }

private:
    static constexpr std::uint8_t most_uses = 3, use_bits = 3, fresh = 4; // fresh: inserted by this batch

    void insert(node_id id, std::vector<node_id>& out) {
        while (rows_.free() == 0) {
            if (main_.size > capacity() - small_slots_ || small_.size == 0)
                evict_main(out);
            else
                evict_small(out);
        }
        const bool came_back = ghost_of_.erase(id) != no_slot;
        const cache_slot place = rows_.take(id);
        uses_[place] = fresh;
        place_of_.insert(id, place);
        rows_.push_front(came_back ? main_ : small_, place);
    }
    /// Evicts one row, unless all go on to the main queue.
    void evict_small(std::vector<node_id>& out) {
        while (small_.size != 0) {
            const cache_slot oldest = small_.last;
            rows_.unlink(small_, oldest);
            if ((uses_[oldest] & use_bits) > 1) {
                uses_[oldest] &= fresh;
                rows_.push_front(main_, oldest);
                continue;
            }
            remember(rows_.id(oldest));
            drop(oldest, out);
            return;
        }
    }
    void evict_main(std::vector<node_id>& out) {
        for (;;) {
            const cache_slot oldest = main_.last;
            rows_.unlink(main_, oldest);
            if ((uses_[oldest] & use_bits) == 0) return drop(oldest, out);
            --uses_[oldest];
            rows_.push_front(main_, oldest);
        }
    }
    void drop(cache_slot place, std::vector<node_id>& out) {
        if ((uses_[place] & fresh) == 0) out.push_back(rows_.id(place));
        place_of_.erase(rows_.id(place));
        rows_.give_back(place);
    }
    void remember(node_id id) {
        if (remembered_.empty()) return;
        const node_id oldest = remembered_[oldest_];
        if (ghost_of_.find(oldest) == oldest_) ghost_of_.erase(oldest);
        remembered_[oldest_] = id;
        ghost_of_.insert(id, static_cast<cache_slot>(oldest_));
        oldest_ = (oldest_ + 1) % remembered_.size();
    }

    detail::linked_rows rows_;
    slot_table place_of_;
    std::size_t small_slots_;
    detail::linked_rows::list small_, main_; // the newest in front
    std::vector<std::uint8_t> uses_;         // of each place since it was inserted
    std::vector<node_id> remembered_;        // a ring of rows that the small queue dropped
    std::size_t oldest_ = 0;
    slot_table ghost_of_; // where they are in the ring
    std::vector<cache_slot> places_;
};

static_assert(cache_policy<s3_fifo>);

} // namespace gneiss
