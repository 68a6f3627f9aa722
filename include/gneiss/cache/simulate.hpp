// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Hits and costs of a cache, in rows. Additive.
struct cache_counts {
    std::uint64_t hits = 0;     ///< batch rows found in the cache
    std::uint64_t misses = 0;   ///< batch rows not found in the cache
    std::uint64_t fills = 0;    ///< rows read before the first batch
    std::uint64_t admitted = 0; ///< rows copied from a batch into the cache

    /// Returns the number of rows requested.
    [[nodiscard]] std::uint64_t accesses() const noexcept { return hits + misses; }
    /// Rows read from the store, which an optimal policy minimizes.
    [[nodiscard]] std::uint64_t reads() const noexcept { return fills + misses; }
    /// Returns misses per access; 0 without accesses.
    [[nodiscard]] double miss_ratio() const noexcept {
        return accesses() == 0 ? 0 : static_cast<double>(misses) / static_cast<double>(accesses());
    }
    cache_counts& operator+=(const cache_counts& other) noexcept {
        hits += other.hits;
        misses += other.misses;
        fills += other.fills;
        admitted += other.admitted;
        return *this;
    }
    friend bool operator==(const cache_counts&, const cache_counts&) = default;
};

/// Cache of row ids without row data: slots by the rule of `change_set`.
///
/// Cost: O(1) per row, O(slots) to construct; memory 12 bytes per slot, and 4 per slot used. Not thread-safe.
class simulated_cache {
public:
    /// Makes an empty cache of `capacity` rows.
    explicit simulated_cache(std::size_t capacity)
        : capacity_(capacity),
          slot_of_(capacity, capacity, slot_table_kind::hashed) {}

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    /// Rows by slot: rows()[s] is in slot s.
    [[nodiscard]] std::span<const node_id> rows() const noexcept { return rows_; }
    [[nodiscard]] bool holds(node_id id) const noexcept { return slot_of_.find(id) != no_slot; }
    /// Number of `ids` in the cache.
    [[nodiscard]] std::uint64_t held(std::span<const node_id> ids) {
        found_.resize(ids.size());
        slot_of_.find(ids, found_);
        return ids.size() - static_cast<std::uint64_t>(std::ranges::count(found_, no_slot));
    }

    /// Puts rows into the first free slots. Throws errc::invalid_argument for more rows than slots or a row already
    /// cached.
    void fill(std::span<const node_id> ids) {
        for (const node_id id : ids) put(id, rows_.size());
    }
    /// Throws errc::invalid_argument for a change set that breaks the rule.
    void apply(const change_set& changes) {
        if (changes.out.size() > changes.in.size()) wrong("more rows leave than go in");
        freed_.clear();
        for (const node_id id : changes.out) {
            freed_.push_back(slot_of_.erase(id));
            if (freed_.back() == no_slot) wrong("a row leaves that is not there");
        }
        for (std::size_t i = 0; i < changes.in.size(); ++i)
            put(changes.in[i], i < freed_.size() ? freed_[i] : rows_.size());
    }

private:
    [[noreturn]] static void wrong(const char* what) { throw error(errc::invalid_argument, what); }

    void put(node_id id, std::size_t slot) {
        if (slot == capacity_) wrong("more rows than slots");
        if (holds(id)) wrong("a row goes in that is there");
        if (slot == rows_.size()) rows_.emplace_back();
        rows_[slot] = id;
        slot_of_.insert(id, static_cast<cache_slot>(slot));
    }

    std::size_t capacity_;
    slot_table slot_of_;
    std::vector<node_id> rows_;
    std::vector<cache_slot> freed_, found_;
};

/// Runs the next batch of a policy through a cache and adds to `counts`; reuses `changes`. Errors as `simulate`.
template <class Policy>
void simulate_batch(
    Policy& policy, std::span<const node_id> ids, simulated_cache& cache, change_set& changes, cache_counts& counts) {
    static_assert(
        cache_policy<Policy>, "simulate: Policy must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp");
    const std::uint64_t hits = cache.held(ids);
    counts.hits += hits;
    counts.misses += ids.size() - hits;
    policy.next(ids, changes);
    for (std::size_t i = 0; i < changes.in.size(); ++i)
        if (changes.in_position.size() != changes.in.size() || changes.in_position[i] >= ids.size() ||
            ids[changes.in_position[i]] != changes.in[i])
            throw error(errc::invalid_argument, "a row goes in that the batch does not have");
    cache.apply(changes);
    counts.admitted += changes.in.size();
}

/// Counts hits and misses of `policy` on `trace`; `cache` ends with the final contents. Cost: O(accesses), memory
/// O(slots).
/// Throws errc::invalid_argument if a change set breaks the rule, or admits a row that the batch does not have at that
/// position.
template <class Policy, class Trace>
cache_counts simulate(Policy& policy, Trace& trace, simulated_cache& cache) {
    static_assert(
        cache_policy<Policy>, "simulate: Policy must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp");
    static_assert(access_trace<Trace>, "simulate: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp");
    cache_counts counts;
    cache.fill(policy.initial());
    counts.fills = policy.initial().size();
    change_set changes;
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch)
        simulate_batch(policy, trace.read(batch, room), cache, changes, counts);
    return counts;
}
/// Simulates `policy` on a cache of its own.
template <class Policy, class Trace>
cache_counts simulate(Policy& policy, Trace& trace) {
    static_assert(
        cache_policy<Policy>, "simulate: Policy must be a gneiss::cache_policy, see gneiss/cache/concepts.hpp");
    static_assert(access_trace<Trace>, "simulate: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp");
    if constexpr (cache_policy<Policy> && access_trace<Trace>) {
        simulated_cache cache(policy.capacity());
        return simulate(policy, trace, cache);
    }
}

} // namespace gneiss
