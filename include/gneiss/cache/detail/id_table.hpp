// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Hash table from ids to 32-bit values: open addressing with linear probing, at most two thirds full. Removal shifts
/// later entries, so tombstones do not accumulate.
///
/// Memory: 12 bytes per id. Cost: O(1) expected; batched calls prefetch.
/// Thread-safety: concurrent reads are safe.
class id_table {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max(); ///< value of an absent id

    [[nodiscard]] static constexpr std::size_t capacity_for(std::size_t ids) noexcept { return ids + ids / 2 + 2; }
    [[nodiscard]] static constexpr std::uint64_t bytes_needed(std::size_t ids) noexcept {
        return capacity_for(ids) * sizeof(entry);
    }

    /// Constructs a table with room for `ids` ids.
    explicit id_table(std::size_t ids = 0) : table_(empty(capacity_for(ids))) {}

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    void clear() noexcept {
        std::memset(static_cast<void*>(table_.data()), 0xff, table_.size_bytes());
        size_ = 0;
    }

    [[nodiscard]] std::uint32_t find(node_id id) const noexcept {
        for (std::size_t at = home(id);; at = after(at)) {
            const entry there = table_[at];
            if (there.value == none || there.id == id) return there.value;
        }
    }
    void find(std::span<const node_id> ids, std::span<std::uint32_t> to) const noexcept {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ask(ids, i);
            to[i] = find(ids[i]);
        }
    }
    /// Sets the value of `id` and returns the previous one. Precondition: there is room.
    std::uint32_t exchange(node_id id, std::uint32_t value) noexcept {
        GNEISS_ASSERT(value != none && capacity_for(size_) <= table_.size());
        for (std::size_t at = home(id);; at = after(at)) {
            const entry there = table_[at];
            if (there.value != none && there.id != id) continue;
            table_[at] = {id, value};
            size_ += there.value == none;
            return there.value;
        }
    }
    /// Sets the value of ids[i] to first + i; previous[i] receives the old one. Precondition: distinct ids, room for
    /// all.
    template <executor E>
    void exchange(
        std::span<const node_id> ids, std::uint32_t first, std::span<std::uint32_t> previous, const E& executor) {
        constexpr std::size_t grain = 8192;
        if (executor.concurrency() == 1 || ids.size() <= grain) {
            for (std::size_t i = 0; i < ids.size(); ++i) {
                ask(ids, i);
                previous[i] = exchange(ids[i], first + static_cast<std::uint32_t>(i));
            }
            return;
        }
        size_ += parallel_reduce(executor, ids.size(), grain, std::size_t{0}, [&](std::size_t begin, std::size_t end) {
            std::size_t fresh = 0;
            for (std::size_t i = begin; i < end; ++i) {
                ask(ids, i);
                previous[i] = exchange_shared(ids[i], first + static_cast<std::uint32_t>(i));
                fresh += previous[i] == none;
            }
            return fresh;
        });
    }
    /// Removes `id` and returns its value.
    std::uint32_t erase(node_id id) noexcept {
        std::size_t hole = home(id);
        while (table_[hole].value != none && table_[hole].id != id) hole = after(hole);
        const std::uint32_t value = table_[hole].value;
        if (value == none) return none;
        for (std::size_t at = after(hole); table_[at].value != none; at = after(at)) {
            // An entry may fill the hole unless it would then precede its home, cyclically.
            if (distance(home(table_[at].id), at) < distance(hole, at)) continue;
            table_[hole] = table_[at];
            hole = at;
        }
        table_[hole] = free_entry;
        --size_;
        return value;
    }
    /// Makes room for `ids` ids in total, at least doubling. Memory: the old and the new table.
    void reserve(std::size_t ids) {
        if (capacity_for(ids) <= table_.size()) return;
        const auto old = std::exchange(table_, empty(std::max(capacity_for(ids), 2 * table_.size())));
        constexpr std::size_t ahead = 16;
        for (std::size_t i = 0; i < old.size(); ++i) {
            if (i + ahead < old.size()) prefetch(&table_[home(old[i + ahead].id)]);
            if (old[i].value == none) continue;
            std::size_t at = home(old[i].id);
            while (table_[at].value != none) at = after(at);
            table_[at] = old[i];
        }
    }

private:
    struct alignas(8) entry {
        node_id id;
        std::uint32_t value;
    };
    static constexpr entry free_entry{none, none}; // all bits set, as in `empty`

    [[nodiscard]] static aligned_buffer<entry> empty(std::size_t capacity) {
        aligned_buffer<entry> result(capacity);
        advise_huge_pages(result.data(), result.size_bytes());
        std::memset(static_cast<void*>(result.data()), 0xff, result.size_bytes());
        return result;
    }
    [[nodiscard]] std::size_t home(node_id id) const noexcept {
        return static_cast<std::size_t>(multiply_high(id * 0x9e3779b97f4a7c15ULL, table_.size()));
    }
    [[nodiscard]] std::size_t after(std::size_t at) const noexcept { return at + 1 == table_.size() ? 0 : at + 1; }
    [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
        return to >= from ? to - from : to + table_.size() - from;
    }
    void ask(std::span<const node_id> ids, std::size_t i) const noexcept {
        constexpr std::size_t ahead = 24;
        if (i + ahead < ids.size()) prefetch(&table_[home(ids[i + ahead])]);
    }
    /// Concurrent `exchange` of distinct ids. The position of an entry then depends on timing; lookup results do not.
    std::uint32_t exchange_shared(node_id id, std::uint32_t value) noexcept {
        constexpr auto relaxed = std::memory_order_relaxed; // the executor orders the batches
        for (std::size_t at = home(id);; at = after(at)) {
            std::atomic_ref shared(table_[at]);
            entry there = shared.load(relaxed);
            if (there.value == none && shared.compare_exchange_strong(there, {id, value}, relaxed)) return none;
            if (there.id != id) continue;
            shared.store({id, value}, relaxed); // its only writer in this batch
            return there.value;
        }
    }

    aligned_buffer<entry> table_;
    std::size_t size_ = 0;
};

} // namespace gneiss::detail
