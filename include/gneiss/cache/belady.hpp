// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/id_table.hpp>
#include <gneiss/cache/detail/next_use.hpp>
#include <gneiss/cache/detail/repeated_row.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Options of an optimal cache.
struct belady_options {
    std::size_t capacity = 0;            ///< rows that the cache holds
    std::uint64_t nodes = 0;             ///< number of rows, for an array over all of them; 0: a hash table
    std::span<const node_id> resident{}; ///< rows already in the cache, carried over; distinct, at most `capacity`
};

/// Maximum memory of a `belady_policy`, plus 20 bytes per row of the largest batch and 100 per batch; not charged.
/// \param rows  distinct rows of the trace, at most; used only with the hash table
[[nodiscard]] inline memory_need belady_need(
    std::uint64_t accesses, std::uint64_t rows, const belady_options& options) {
    const std::uint64_t table = options.nodes != 0 ? 4 * options.nodes : 36 * rows; // old and new table during growth
    return {"change sets", 4 * accesses + table + 48 * std::uint64_t{options.capacity}};
}

/// Belady's optimal cache for a superbatch, whose batches are all known. No policy, with or without bypass, reads fewer
/// rows.
///
///     belady_policy best(trace, {.capacity = 1'000'000}, executor);
///     cache.fill(best.initial());
///     for (each batch) { gather(ids); best.next(ids, changes); cache.apply(changes, ids, gathered rows); }
///
/// After a batch the cache keeps, among its rows and those of the batch, the `capacity` smallest by (next use, resident
/// before incoming, id). The use by the batch itself does not count, and a row without further use is never admitted.
/// Before the first batch, carried-over rows with a use stay, and the remaining slots take the other rows in order of
/// first use. Each of these is used before any row is displaced, so reads = fills + misses is minimal.
///
/// Next uses come from one backward pass over the trace; the rest is a simulation batch by batch. A cached row is an
/// entry in the list of the batch that uses it next. Hits therefore need no lookup, and eviction touches only the lists
/// of the latest batches. A list that is cut in the middle becomes a heap.
///
/// Cost: O(accesses), and O(log) per row evicted from the middle of a list. The pass is parallel and takes some 5 to 10
/// ns per access on one thread; the rest takes some 20 (bench/cache). Memory: 4 bytes per access, 16 to 48 per slot,
/// and during construction 4 per node, or 12 to 24 per distinct row when hashed: `belady_need`. Results do not depend
/// on the executor.
/// Thread-safety: one call of `next` at a time.
/// Errors: errc::out_of_range for 2³² accesses or a row beyond `nodes`; errc::invalid_argument for more resident rows
/// than slots or one that is named twice, batches that differ from the trace (by a checksum of their ids, in order), or
/// a row requested twice by a batch; errors of reading the trace.
/// Source: Belady, IBM Systems Journal 5(2), 1966; Ginex (VLDB'22), sections 3.3 and 3.4.
///
/// From examples/17_belady.cpp:
/// \snippet 17_belady.cpp compare
class belady_policy {
public:
    /// Says what is missing: any other type.
    template <class Trace, class E>
    belady_policy(Trace& /*trace*/, const belady_options& /*options*/, const E& /*executor*/) : capacity_(0) {
        static_assert(
            access_trace<Trace>, "belady_policy: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp");
        static_assert(
            executor<E>, "belady_policy: E must be a gneiss::executor, see gneiss/core/executor/concepts.hpp");
    }
    /// Reads the trace and links the uses of each row.
    template <access_trace Trace, executor E>
    belady_policy(Trace& trace, const belady_options& options, const E& executor)
        : capacity_(options.capacity),
          uses_(trace),
          lists_(uses_.batches() + 1),
          incoming_(uses_.batches() + 1) {
        if (options.resident.size() > capacity_)
            throw error(errc::invalid_argument,
                std::to_string(options.resident.size()) + " resident rows in a cache of " + std::to_string(capacity_) +
                    " slots");
        if (const auto twice = detail::repeated_row(options.resident))
            throw error(errc::invalid_argument, "row " + std::to_string(*twice) + " is resident twice");
        const auto make = [&](auto last) {
            uses_.link(trace, last, executor);
            enter_resident(options.resident, last);
            enter_first_used(trace, last);
        };
        if (options.nodes != 0)
            make(detail::direct_table(options.nodes));
        else
            make(detail::id_table());
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::size_t batches() const noexcept { return uses_.batches(); }
    /// Rows to read before the first batch, and resident rows that make room for them. Positions index `in`: apply it
    /// like the change set of a batch that requested `in`.
    [[nodiscard]] const change_set& fill() const noexcept { return fill_; }
    [[nodiscard]] std::span<const node_id> initial() const noexcept { return fill_.in; }

    /// Writes the changes after the next batch; `out` ascends.
    void next(std::span<const node_id> ids, change_set& out) {
        if (now_ >= batches() || !uses_.matches(now_, ids))
            throw error(errc::invalid_argument, "batch " + std::to_string(now_) + " is not that of the trace");
        out.clear();
        mark_hits(now_);
        list_of_.resize(ids.size());
        std::size_t candidates = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const detail::access_number next = uses_.after(uses_.start(now_) + static_cast<detail::access_number>(i));
            const std::uint32_t list = uses_.batch_of(next);
            if (list == now_) {
                now_ = batches(); // half a batch was taken: no other may follow
                throw error(errc::invalid_argument, "a batch asks for row " + std::to_string(ids[i]) + " twice");
            }
            if (hit_[i]) {
                enter(list, {ids[i], place_in(list, next)});
                list_of_[i] = never();
            } else {
                list_of_[i] = list;
                if (list != never()) {
                    if (incoming_[list]++ == 0) use(list);
                    ++candidates;
                }
            }
        }
        const std::size_t wanted = rows_ + candidates;
        const cut border = make_room(wanted - std::min(wanted, capacity_), ids, out.out);
        std::ranges::sort(out.out);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const std::uint32_t list = list_of_[i];
            if (list == never()) continue;
            incoming_[list] = 0;
            if (list > border.list || (list == border.list && ids[i] >= border.id)) continue;
            out.in.push_back(ids[i]);
            out.in_position.push_back(static_cast<std::uint32_t>(i));
            enter(
                list, {ids[i], place_in(list, uses_.after(uses_.start(now_) + static_cast<detail::access_number>(i)))});
        }
        ++now_;
    }

    /// Rows in the cache now, unordered, for carrying over. O(slots).
    [[nodiscard]] std::vector<node_id> resident() const {
        std::vector<node_id> ids;
        ids.reserve(rows_);
        for (const row_list& one : lists_)
            for (const entry& row : one.rows) ids.push_back(row.id);
        return ids;
    }

private:
    struct entry {
        node_id id;
        std::uint32_t position; ///< in the batch that uses it next

        friend bool operator<(const entry& a, const entry& b) noexcept { return a.id < b.id; }
    };
    /// Rows that the same batch uses next.
    struct row_list {
        std::vector<entry> rows;
        bool heap = false;   ///< by id
        bool in_use = false; ///< is in `used_`
    };
    /// First incoming row that is rejected: list `list`, id `id`.
    struct cut {
        std::uint32_t list;
        std::uint64_t id;
    };

    [[nodiscard]] std::uint32_t never() const noexcept { return static_cast<std::uint32_t>(uses_.batches()); }
    [[nodiscard]] std::uint32_t place_in(std::uint32_t batch, detail::access_number access) const noexcept {
        return batch == never() ? 0 : access - uses_.start(batch);
    }

    void use(std::uint32_t number) {
        if (!std::exchange(lists_[number].in_use, true)) used_.push(number);
    }
    void enter(std::uint32_t number, entry row) {
        row_list& to = lists_[number];
        to.rows.push_back(row);
        if (to.heap) std::push_heap(to.rows.begin(), to.rows.end());
        use(number);
        ++rows_;
    }

    /// Empties a batch's list and marks which of its positions are hits.
    void mark_hits(std::size_t batch) {
        hit_.assign(uses_.size(batch), 0);
        for (const entry& row : lists_[batch].rows) hit_[row.position] = 1;
        rows_ -= lists_[batch].rows.size();
        lists_[batch].rows = std::vector<entry>(); // frees its memory
    }

    /// Drops the `excess` greatest rows by the key: rejects incoming rows, or evicts resident rows into `out`.
    cut make_room(std::size_t excess, std::span<const node_id> ids, std::vector<node_id>& out) {
        cut border{never(), 0};
        while (excess != 0) {
            const std::uint32_t last = used_.top();
            const std::size_t turned_away = std::min<std::size_t>(excess, incoming_[last]);
            const std::size_t evicted = std::min(excess - turned_away, lists_[last].rows.size());
            border = {last, turned_away == 0 ? end_of_ids : id_of_rank(ids, last, incoming_[last] - turned_away)};
            evict(lists_[last], evicted, out);
            excess -= turned_away + evicted;
            if (lists_[last].rows.empty() && turned_away == incoming_[last]) {
                lists_[last].in_use = false;
                used_.pop();
            }
        }
        return border;
    }
    /// The id preceded by `rank` incoming rows of a list.
    [[nodiscard]] std::uint64_t id_of_rank(std::span<const node_id> ids, std::uint32_t list, std::size_t rank) {
        if (rank == 0) return 0;
        ranked_.clear();
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (list_of_[i] == list) ranked_.push_back(ids[i]);
        const auto at = ranked_.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(ranked_.begin(), at, ranked_.end());
        return *at;
    }
    /// Evicts the `count` greatest ids.
    void evict(row_list& from, std::size_t count, std::vector<node_id>& out) {
        auto& rows = from.rows;
        const std::size_t kept = rows.size() - count;
        if (count == 0) return;
        if (kept != 0 && count < kept / 16) {
            if (!std::exchange(from.heap, true)) std::make_heap(rows.begin(), rows.end());
            for (std::size_t i = 0; i < count; ++i)
                std::pop_heap(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(i));
        } else {
            from.heap = false;
            if (kept != 0) std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end());
        }
        for (std::size_t i = kept; i < rows.size(); ++i) out.push_back(rows[i].id);
        rows.resize(kept);
        rows_ -= count;
        if (kept < rows.capacity() / 4)
            rows.shrink_to_fit(); // amortized: at least that many rows were evicted since it grew
    }

    template <class Table>
    void enter_resident(std::span<const node_id> resident, const Table& first) {
        std::vector<detail::access_number> use(resident.size());
        first.find(resident, use);
        for (std::size_t i = 0; i < resident.size(); ++i) {
            const std::uint32_t list = uses_.batch_of(use[i]);
            enter(list, {resident[i], place_in(list, use[i])});
        }
    }
    /// Fills free slots, and slots of rows without a use, with the rows used first.
    template <class Trace, class Table>
    void enter_first_used(Trace& trace, const Table& first) {
        const std::size_t free = capacity_ - rows_;
        std::vector<node_id> room;
        std::vector<detail::access_number> use;
        for (std::size_t batch = 0; batch < batches() && rows_ - lists_[never()].rows.size() < capacity_; ++batch) {
            const std::span<const node_id> ids = trace.read(batch, room);
            use.resize(ids.size());
            first.find(ids, use);
            hit_.assign(ids.size(), 0);
            for (const entry& row : lists_[batch].rows) hit_[row.position] = 1;
            list_of_.assign(ids.size(), never());
            std::size_t candidates = 0;
            for (std::size_t i = 0; i < ids.size(); ++i)
                if (!hit_[i] && use[i] == uses_.start(batch) + i) {
                    list_of_[i] = static_cast<std::uint32_t>(batch);
                    ++candidates;
                }
            const std::size_t wanted = capacity_ - (rows_ - lists_[never()].rows.size());
            const std::uint64_t border =
                candidates <= wanted ? end_of_ids : id_of_rank(ids, static_cast<std::uint32_t>(batch), wanted);
            for (std::size_t i = 0; i < ids.size(); ++i)
                if (list_of_[i] == batch && ids[i] < border) {
                    fill_.in_position.push_back(static_cast<std::uint32_t>(fill_.in.size()));
                    fill_.in.push_back(ids[i]);
                    enter(static_cast<std::uint32_t>(batch), {ids[i], static_cast<std::uint32_t>(i)});
                }
        }
        if (fill_.in.size() > free) evict(lists_[never()], fill_.in.size() - free, fill_.out);
        std::ranges::sort(fill_.out);
    }

    static constexpr std::uint64_t end_of_ids = std::uint64_t{1} << 32;

    std::size_t capacity_;
    detail::next_uses uses_;
    std::size_t now_ = 0;                     // next batch
    std::size_t rows_ = 0;                    // in the cache: sum over all lists
    std::vector<row_list> lists_;             // [batches + 1]; the last: rows without further use
    std::priority_queue<std::uint32_t> used_; // lists that may have resident or incoming rows
    std::vector<std::uint32_t> incoming_;     // [batches + 1] incoming rows of this batch per list
    std::vector<std::uint32_t> list_of_;      // list of each incoming row of this batch; never() for all others
    std::vector<std::uint8_t> hit_;
    std::vector<node_id> ranked_;
    change_set fill_;
};

static_assert(cache_policy<belady_policy>);

/// Result of `belady`.
struct belady_outcome {
    change_set fill;               ///< before the first batch; see `belady_policy::fill`
    std::vector<node_id> resident; ///< in the cache after the last batch, for carrying over
};

/// Computes all change sets of a superbatch in advance: calls `visit(batch, change_set)` for each batch in order. Reads
/// the trace twice. Otherwise like `belady_policy`.
template <access_trace Trace, executor E, class Visit>
belady_outcome belady(Trace& trace, const belady_options& options, const E& executor, Visit&& visit) {
    belady_policy policy(trace, options, executor);
    std::vector<node_id> room;
    change_set changes;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        policy.next(trace.read(batch, room), changes);
        visit(batch, std::as_const(changes));
    }
    return {policy.fill(), policy.resident()};
}

} // namespace gneiss
