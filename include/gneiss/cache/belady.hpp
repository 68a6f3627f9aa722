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
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// What an optimal cache is made for.
struct belady_options {
    std::size_t capacity = 0;               ///< rows that the cache holds
    std::uint64_t nodes = 0;             ///< rows that there are, for an array over all of them; 0: a hash table
    std::span<const node_id> resident{}; ///< what the cache holds already, carried over; distinct, at most `capacity`
};

/// Most memory that a `belady_policy` takes [bytes], beside 20 for each row of the largest batch and 100 a batch.
/// \param rows  distinct rows of the trace, at most; hashed only
[[nodiscard]] constexpr std::uint64_t belady_bytes(
    std::uint64_t accesses, std::uint64_t rows, const belady_options& options) noexcept {
    const std::uint64_t table = options.nodes != 0 ? 4 * options.nodes : 36 * rows; // the old and the new one as it grows
    return 4 * accesses + table + 48 * std::uint64_t{options.capacity};
}

/// Belady's cache for a superbatch: all of whose batches are known. No policy, with or without bypass, reads fewer rows.
///
///     belady_policy best(trace, {.capacity = 1'000'000}, executor);
///     cache.fill(best.initial());
///     for (each batch) { gather(ids); best.next(ids, changes); cache.apply(changes, ids, gathered rows); }
///
/// After a batch, of the rows that are in the cache and those of the batch the `capacity` least by (next use, resident before
/// incoming, id) stay, where a row that is not used again is never let in; use by the batch itself does not count. Before the
/// first, rows that were carried over and are used stay, and the first used of the others fill the rest; each is then used
/// before any row is displaced, so that reads = fills + misses are the fewest there are.
///
/// Next uses come from one pass over the trace from its end; the rest is a simulation batch by batch. A row in the cache is
/// an entry in the list of the batch that will use it, so hits need no look-up and only the lists of the latest batches are
/// touched by eviction. A list that is cut in the middle becomes a heap.
///
/// Cost: O(accesses), and O(log) for each row that is evicted out of the middle of a list; the pass is shared by threads, some
/// 5 to 10 ns an access on one, the rest takes some 20 (bench/cache). Memory: 4 bytes an access, 16 to 48 a slot, and while it
/// is made 4 a node, or 12 to 24 a distinct row when hashed: `belady_bytes`. Results do not depend on the executor.
/// Thread-safety: `next` one at a time.
/// Errors: errc::out_of_range for 2³² accesses, or a row beyond `nodes`; errc::invalid_argument for more resident rows than slots,
/// batches other than the trace's, or a row that a batch asks for twice; what reading the trace throws.
/// Source: Belady, IBM Systems Journal 5(2), 1966; Ginex (VLDB'22), sections 3.3 and 3.4.
class belady_policy {
public:
    template <class Trace, executor E>
    belady_policy(Trace& trace, const belady_options& options, const E& executor)
        : capacity_(options.capacity),
          uses_(trace),
          lists_(uses_.batches() + 1),
          incoming_(uses_.batches() + 1) {
        static_assert(access_trace<Trace>, "belady_policy: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp");
        if (options.resident.size() > capacity_)
            throw error(errc::invalid_argument, std::to_string(options.resident.size()) + " resident rows in a cache of " +
                                                    std::to_string(capacity_) + " slots");
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
    /// Rows to read before the first batch, and resident ones that make room for them. Positions are those in `in`: it is to
    /// be applied like a change set of a batch that asked for `in`.
    [[nodiscard]] const change_set& fill() const noexcept { return fill_; }
    [[nodiscard]] std::span<const node_id> initial() const noexcept { return fill_.in; }

    /// Changes after the next batch; `out` ascends.
    void next(std::span<const node_id> ids, change_set& out) {
        if (now_ == batches() || ids.size() != uses_.size(now_))
            throw error(errc::invalid_argument, "batch " + std::to_string(now_) + " is not that of the trace");
        out.clear();
        mark_hits(now_);
        list_of_.resize(ids.size());
        std::size_t candidates = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const detail::access_number next = uses_.after(uses_.start(now_) + static_cast<detail::access_number>(i));
            const std::uint32_t list = uses_.batch_of(next);
            if (list == now_) throw error(errc::invalid_argument, "a batch asks for row " + std::to_string(ids[i]) + " twice");
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
            enter(list, {ids[i], place_in(list, uses_.after(uses_.start(now_) + static_cast<detail::access_number>(i)))});
        }
        ++now_;
    }

    /// What the cache holds now, in no particular order: to carry over. O(slots).
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
    /// Rows that one batch uses next.
    struct row_list {
        std::vector<entry> rows;
        bool heap = false;  ///< by id
        bool in_use = false; ///< is in `used_`
    };
    /// Incoming rows stay out from list `list` and id `id` on.
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

    /// Empties a batch's list and tells which of its positions are hits.
    void mark_hits(std::size_t batch) {
        hit_.assign(uses_.size(batch), 0);
        for (const entry& row : lists_[batch].rows) hit_[row.position] = 1;
        rows_ -= lists_[batch].rows.size();
        lists_[batch].rows = std::vector<entry>(); // its memory goes
    }

    /// Turns away the `excess` greatest rows by the key, incoming ones or resident ones, which go to `out`.
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
    /// The id before which `rank` of the incoming rows of a list come.
    [[nodiscard]] std::uint64_t id_of_rank(std::span<const node_id> ids, std::uint32_t list, std::size_t rank) {
        if (rank == 0) return 0;
        ranked_.clear();
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (list_of_[i] == list) ranked_.push_back(ids[i]);
        const auto at = ranked_.begin() + static_cast<std::ptrdiff_t>(rank);
        std::nth_element(ranked_.begin(), at, ranked_.end());
        return *at;
    }
    /// Removes the `count` greatest ids.
    void evict(row_list& from, std::size_t count, std::vector<node_id>& out) {
        auto& rows = from.rows;
        const std::size_t kept = rows.size() - count;
        if (count == 0) return;
        if (kept != 0 && count < kept / 16) {
            if (!std::exchange(from.heap, true)) std::make_heap(rows.begin(), rows.end());
            for (std::size_t i = 0; i < count; ++i) std::pop_heap(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(i));
        } else {
            from.heap = false;
            if (kept != 0) std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end());
        }
        for (std::size_t i = kept; i < rows.size(); ++i) out.push_back(rows[i].id);
        rows.resize(kept);
        rows_ -= count;
        if (kept < rows.capacity() / 4) rows.shrink_to_fit(); // rarely: as many rows were evicted since it grew
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
    /// Fills what is free, or held by rows that are not used, with the rows that are used first.
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
    std::size_t now_ = 0;  // the next batch
    std::size_t rows_ = 0; // in the cache: in all lists
    std::vector<row_list> lists_;         // [batches + 1]; the last: rows that are not used again
    std::priority_queue<std::uint32_t> used_; // lists that may have rows, or incoming ones
    std::vector<std::uint32_t> incoming_; // [batches + 1] rows of this batch that would go to each list
    std::vector<std::uint32_t> list_of_;  // of each incoming row of this batch; never() of all others
    std::vector<std::uint8_t> hit_;
    std::vector<node_id> ranked_;
    change_set fill_;
};

static_assert(cache_policy<belady_policy>);

/// What remains of `belady`.
struct belady_outcome {
    change_set fill;               ///< before the first batch; see `belady_policy::fill`
    std::vector<node_id> resident; ///< in the cache after the last batch: to carry over
};

/// All change sets of a superbatch, ahead of it: `visit(batch, change_set)` for each batch in order.
/// Reads the trace twice. Otherwise as `belady_policy`.
template <class Trace, executor E, class Visit>
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
