#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// Measures how many updates *rows* miss: far fewer than batches do, since batches share few rows (Marius, §3).
///
/// Follows one row in 64, chosen by a hash of its id, exactly: a followed row that a batch reads misses as many updates as
/// there are unapplied batches that also read it. O(followed rows of the batch). Thread-safe.
class row_staleness_sampler {
public:
    /// Batch `step` is about to read the rows `ids`.
    void read(std::uint64_t step, std::span<const node_id> ids) {
        std::vector<node_id> followed;
        for (const node_id id : ids)
            if (mix64(id) % 64 == 0) followed.push_back(id);
        const std::scoped_lock lock(mutex_);
        for (const node_id id : followed) histogram_.add(pending_[id]++);
        unapplied_.emplace(step, std::move(followed));
    }
    /// The update of batch `step` is applied.
    void applied(std::uint64_t step) {
        const std::scoped_lock lock(mutex_);
        const auto found = unapplied_.find(step);
        if (found == unapplied_.end()) return;
        for (const node_id id : found->second)
            if (const auto row = pending_.find(id); --row->second == 0) pending_.erase(row);
        unapplied_.erase(found);
    }
    [[nodiscard]] staleness_histogram histogram() const {
        const std::scoped_lock lock(mutex_);
        return histogram_;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::vector<node_id>> unapplied_;
    std::unordered_map<node_id, std::uint64_t> pending_; // unapplied batches that read the row
    staleness_histogram histogram_;
};

} // namespace gneiss
