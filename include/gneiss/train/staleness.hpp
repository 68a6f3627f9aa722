// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Histogram of the updates that each batch (or row) missed: counts for 0, 1, 2, … and a last bin for all more. Merges
/// by addition. `add` is O(1), the rest O(bins). Not thread-safe.
struct staleness_histogram {
    static constexpr std::size_t bins = 129; ///< number of counts
    std::array<std::uint64_t, bins> count{}; ///< batches by missed updates

    /// Counts `times` batches that missed `staleness` updates.
    void add(std::uint64_t staleness, std::uint64_t times = 1) noexcept {
        count[std::min<std::uint64_t>(staleness, bins - 1)] += times;
    }
    staleness_histogram& operator+=(const staleness_histogram& other) noexcept {
        for (std::size_t i = 0; i < bins; ++i) count[i] += other.count[i];
        return *this;
    }
    /// Returns the number of batches.
    [[nodiscard]] std::uint64_t total() const noexcept {
        std::uint64_t sum = 0;
        for (const std::uint64_t c : count) sum += c;
        return sum;
    }
    /// Returns the smallest staleness that at least `share` of all do not exceed. 0 when empty.
    [[nodiscard]] std::uint64_t quantile(double share) const noexcept {
        const double wanted = share * static_cast<double>(total());
        double seen = 0;
        for (std::size_t i = 0; i < bins; ++i) {
            seen += static_cast<double>(count[i]);
            if (seen > 0 && seen >= wanted) return i;
        }
        return 0;
    }
    /// Returns the most updates missed; 0 without batches.
    [[nodiscard]] std::uint64_t max() const noexcept {
        for (std::size_t i = bins; i-- > 0;)
            if (count[i] != 0) return i;
        return 0;
    }
};

/// Bound of the updates that reads may miss.
struct staleness_bound {
    std::uint64_t updates = 0; ///< maximum that a batch may miss
    bool exact = false;        ///< a batch misses exactly that many, except after a fence
};

/// Bounds how many updates a batch's read may miss: batch k gathers after batch k − 1 − updates was applied.
///
///     staleness_gate gate({.updates = 16});
///     gate.begin_read(k, fence, &missed); // gather the rows of batch k
///     gate.end_read(k);
///     gate.begin_update(k, last);         // apply the gradients of batch k
///     gate.end_update(k);
///
/// `updates` 0 is synchronous training: every batch sees all earlier updates, so results do not depend on timing. With
/// `exact`, batch k sees the updates *up to* k − 1 − updates and no later ones, which makes any bound deterministic.
/// The window is cut at fences (the end of a state of a plan), where everything is applied first.
///
/// Batches are numbered 0, 1, 2, … in the order of the plan; both calls come in that order, each from one thread.
/// `close`, from any thread, ends every wait, now and later. Cost: one lock per call.
/// Source: Marius, OSDI'21, §3.
class staleness_gate {
public:
    /// Gate with no batch read or applied.
    explicit staleness_gate(staleness_bound bound) : bound_(bound.updates), exact_(bound.exact) {}

    /// Blocks until batch `k` may read rows; sets `missed` to the number of updates it misses. Returns false if closed.
    bool begin_read(std::uint64_t k, std::uint64_t fence, std::uint64_t* missed) {
        std::unique_lock lock(mutex_);
        const std::uint64_t needed = std::max(k > bound_ ? k - bound_ : 0, exact_ ? fence : 0);
        changed_.wait(lock, [&] { return closed_ || applied_ >= needed; });
        *missed = k - applied_;
        return !closed_;
    }
    /// Marks the rows of batch `k` as read.
    void end_read(std::uint64_t k) {
        const std::scoped_lock lock(mutex_);
        read_ = k + 1;
        changed_.notify_all();
    }
    /// Blocks until the update of batch `k` may be applied; `last` is the last batch before the next fence. Returns
    /// false if closed.
    bool begin_update(std::uint64_t k, std::uint64_t last) {
        std::unique_lock lock(mutex_);
        const std::uint64_t needed = exact_ ? std::min(k + bound_, last) + 1 : k + 1;
        changed_.wait(lock, [&] { return closed_ || read_ >= needed; });
        return !closed_;
    }
    /// Marks the update of batch `k` as applied and wakes reads that wait for it.
    void end_update(std::uint64_t k) {
        const std::scoped_lock lock(mutex_);
        applied_ = k + 1;
        changed_.notify_all();
    }
    /// Waits until `count` batches are applied. Returns false if closed.
    bool wait_applied(std::uint64_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || applied_ >= count; });
        return !closed_;
    }
    /// Returns the number of batches applied.
    [[nodiscard]] std::uint64_t applied() const {
        const std::scoped_lock lock(mutex_);
        return applied_;
    }
    /// Ends all waits, now and later.
    void close() {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

private:
    const std::uint64_t bound_;
    const bool exact_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t read_ = 0;    // batches with their rows read
    std::uint64_t applied_ = 0; // batches with their update applied
    bool closed_ = false;
};

/// Measures how many updates *rows* miss: far fewer than batches do, since batches share few rows (Marius, §3).
///
/// Follows one row in 64, chosen by a hash of its id, exactly: a followed row misses one update for each unapplied
/// batch that also read it. O(followed rows of the batch). Thread-safe.
class row_staleness_sampler {
public:
    /// Records that the next batch is about to read the rows `ids`.
    void read(std::span<const node_id> ids) {
        std::vector<node_id> followed;
        for (const node_id id : ids)
            if (mix64(id) % 64 == 0) followed.push_back(id);
        const std::scoped_lock lock(mutex_);
        for (const node_id id : followed) histogram_.add(pending_[id]++);
        unapplied_.push_back(std::move(followed));
    }
    /// Records that the update of the next batch, in reading order, is applied.
    void applied() {
        const std::scoped_lock lock(mutex_);
        if (unapplied_.empty()) return;
        for (const node_id id : unapplied_.front())
            if (const auto row = pending_.find(id); --row->second == 0) pending_.erase(row);
        unapplied_.pop_front();
    }
    /// Returns the histogram of followed rows.
    [[nodiscard]] staleness_histogram histogram() const {
        const std::scoped_lock lock(mutex_);
        return histogram_;
    }

private:
    mutable std::mutex mutex_;
    std::deque<std::vector<node_id>> unapplied_;         // batches that have read, in order
    std::unordered_map<node_id, std::uint64_t> pending_; // unapplied batches that read the row
    staleness_histogram histogram_;
};

} // namespace gneiss
