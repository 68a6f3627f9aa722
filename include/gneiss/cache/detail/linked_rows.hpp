// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Rows in doubly linked lists that share one array of places. Each operation is O(1); memory is 12 bytes per place.
class linked_rows {
public:
    struct list {
        cache_slot first = no_slot, last = no_slot;
        std::size_t size = 0;
    };

    explicit linked_rows(std::size_t places) : capacity_(places) {
        if (places >= no_slot) throw error(errc::out_of_range, "a cache has 2^32 slots or more");
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::size_t free() const noexcept { return capacity_ - taken_; }
    [[nodiscard]] node_id id(cache_slot place) const noexcept { return rows_[place].id; }
    [[nodiscard]] static cache_slot last(const list& of) noexcept { return of.last; }

    /// Allocates a place for a row, in no list yet. Precondition: free() > 0.
    cache_slot take(node_id id) {
        ++taken_;
        cache_slot place = unused_;
        if (place != no_slot)
            unused_ = rows_[place].after;
        else {
            place = static_cast<cache_slot>(rows_.size());
            rows_.emplace_back();
        }
        rows_[place].id = id;
        rows_[place].before = place; // in no list
        return place;
    }
    /// Precondition: the place is in no list.
    void give_back(cache_slot place) noexcept {
        rows_[place].after = unused_;
        unused_ = place;
        --taken_;
    }
    void push_front(list& to, cache_slot place) noexcept {
        rows_[place].before = no_slot;
        rows_[place].after = to.first;
        (to.first == no_slot ? to.last : rows_[to.first].before) = place;
        to.first = place;
        ++to.size;
    }
    void unlink(list& from, cache_slot place) noexcept {
        const row gone = rows_[place];
        (gone.before == no_slot ? from.first : rows_[gone.before].after) = gone.after;
        (gone.after == no_slot ? from.last : rows_[gone.after].before) = gone.before;
        rows_[place].before = place; // in no list
        --from.size;
    }
    [[nodiscard]] bool linked(cache_slot place) const noexcept { return rows_[place].before != place; }

private:
    struct row {
        node_id id = 0;
        cache_slot before = no_slot, after = no_slot;
    };

    std::size_t capacity_, taken_ = 0;
    std::vector<row> rows_;
    cache_slot unused_ = no_slot; // freed places, linked by `after`
};

} // namespace gneiss::detail
