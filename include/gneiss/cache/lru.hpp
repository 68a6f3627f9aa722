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

/// Cache policy that keeps the most recently used rows. Rows of a batch count as used in its order; of a batch larger
/// than the cache, the last rows stay.
///
///     lru policy(100'000);
///     const cache_counts counts = simulate(policy, trace); // or policy.next(ids, changes) per batch
///
/// Cost: O(ids) per batch. Memory: 24 bytes per slot. Errors: errc::invalid_argument for a row that a batch requests
/// twice, unless it is too old to stay; the cache then counts it once.
///
/// From examples/17_belady.cpp:
/// \snippet 17_belady.cpp compare
class lru {
public:
    /// Makes an empty cache of `capacity` rows. Memory: O(capacity).
    explicit lru(std::size_t capacity) : rows_(capacity), place_of_(capacity, capacity, slot_table_kind::hashed) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return rows_.capacity(); }
    [[nodiscard]] static std::span<const node_id> initial() noexcept { return {}; }

    void next(std::span<const node_id> ids, change_set& out) {
        out.clear();
        const std::size_t first = ids.size() - std::min(ids.size(), capacity());
        const auto staying = ids.subspan(first);
        places_.resize(staying.size());
        place_of_.find(staying, places_);
        std::size_t twice = staying.size(); // position of a row requested before
        for (std::size_t i = 0; i < staying.size(); ++i) {
            if (places_[i] != no_slot) {
                if (rows_.linked(places_[i]))
                    rows_.unlink(used_, places_[i]); // protect from eviction
                else
                    twice = i;
                continue;
            }
            out.in.push_back(staying[i]);
            out.in_position.push_back(static_cast<std::uint32_t>(first + i));
        }
        for (std::size_t room = rows_.free(); room < out.in.size() && rows_.last(used_) != no_slot; ++room) {
            const cache_slot oldest = rows_.last(used_);
            out.out.push_back(rows_.id(oldest));
            place_of_.erase(rows_.id(oldest));
            rows_.unlink(used_, oldest);
            rows_.give_back(oldest);
        }
        for (std::size_t i = 0; i < staying.size(); ++i) {
            if (places_[i] == no_slot) {
                places_[i] = rows_.take(staying[i]);
                if (const cache_slot before = place_of_.insert(staying[i], places_[i]); before != no_slot) {
                    place_of_.insert(staying[i], before);
                    rows_.give_back(std::exchange(places_[i], before));
                    twice = i;
                }
            }
            if (rows_.linked(places_[i])) rows_.unlink(used_, places_[i]);
            rows_.push_front(used_, places_[i]);
        }
        if (twice != staying.size())
            throw error(errc::invalid_argument, "a batch asks for row " + std::to_string(staying[twice]) + " twice");
    }

private:
    detail::linked_rows rows_;
    detail::linked_rows::list used_; // most recent in front
    slot_table place_of_;
    std::vector<cache_slot> places_;
};

static_assert(cache_policy<lru>);

} // namespace gneiss
