// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/linked_rows.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// S3-FIFO cache policy with three queues. New rows enter a small queue, a tenth of the cache. On leaving it they move
/// to the main queue if they were used more than once since, else they are evicted. A queue of evicted ids sends rows
/// that return soon directly to the main queue. The main queue gives a row one more round per use, at most three. Rows
/// used once, the majority, leave early.
///
///     s3_fifo policy(100'000);
///     const cache_counts counts = simulate(policy, trace); // or policy.next(ids, changes) per batch
///
/// For a batch, all hits are counted first, then missing rows are inserted in order. Rows inserted and evicted by the
/// same batch do not appear in its change set.
/// Cost: O(ids) amortized per batch. Memory: 25 bytes per slot, and 16 per remembered id, one per slot of the main
/// queue.
/// Source: Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023, Algorithm 1.
/// Where its listing evicts from the main queue within an eviction of the small one, this waits for the next turn, as
/// the authors' libCacheSim does: a row leaves only when another one enters.
class s3_fifo {
public:
    /// Makes an empty cache of `capacity` rows. Memory: O(capacity).
    explicit s3_fifo(std::size_t capacity)
        : rows_(capacity),
          place_of_(capacity, capacity, slot_table_kind::hashed),
          small_slots_(std::max<std::size_t>(capacity / 10, 1)),
          uses_(capacity, 0),
          remembered_(capacity - std::min(capacity, small_slots_)),
          ghost_of_(remembered_.size(), remembered_.size(), slot_table_kind::hashed) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return rows_.capacity(); }
    [[nodiscard]] static std::span<const node_id> initial() noexcept { return {}; }

    /// Throws errc::invalid_argument for a row that enters twice; the cache then counts it once. A cached row that a
    /// batch requests twice counts as used twice.
    void next(std::span<const node_id> ids, change_set& out) {
        out.clear();
        if (capacity() == 0) return;
        places_.resize(ids.size());
        place_of_.find(ids, places_);
        for (const cache_slot place : places_)
            if (place != no_slot) uses_[place] = std::min<std::uint8_t>(uses_[place] + 1, most_uses) & use_bits;
        std::size_t twice = ids.size(); // position of a row that entered before
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (places_[i] == no_slot && !insert(ids[i], out.out)) twice = i;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (places_[i] != no_slot) continue;
            const cache_slot place = place_of_.find(ids[i]);
            if (place == no_slot) continue; // evicted by later rows of its batch
            uses_[place] &= use_bits;
            out.in.push_back(ids[i]);
            out.in_position.push_back(static_cast<std::uint32_t>(i));
        }
        if (twice != ids.size())
            throw error(errc::invalid_argument, "a batch asks for row " + std::to_string(ids[twice]) + " twice");
    }

private:
    static constexpr std::uint8_t most_uses = 3, use_bits = 3, fresh = 4; // fresh: inserted by this batch

    /// Returns false, and inserts nothing, for a row that is in the cache.
    bool insert(node_id id, std::vector<node_id>& out) {
        while (rows_.free() == 0) {
            if (main_.size > capacity() - small_slots_ || small_.size == 0)
                evict_main(out);
            else
                evict_small(out);
        }
        const bool came_back = ghost_of_.erase(id) != no_slot;
        const cache_slot place = rows_.take(id);
        uses_[place] = fresh;
        if (const cache_slot before = place_of_.insert(id, place); before != no_slot) {
            place_of_.insert(id, before);
            rows_.give_back(place);
            return false;
        }
        rows_.push_front(came_back ? main_ : small_, place);
        return true;
    }
    /// Evicts one row, unless all move to the main queue.
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
    detail::linked_rows::list small_, main_; // newest in front
    std::vector<std::uint8_t> uses_;         // uses of each place since insertion
    std::vector<node_id> remembered_;        // ring of rows evicted from the small queue
    std::size_t oldest_ = 0;
    slot_table ghost_of_; // positions in the ring
    std::vector<cache_slot> places_;
};

static_assert(cache_policy<s3_fifo>);

} // namespace gneiss
