// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Trace in memory: the concatenated ids of all batches. Models `access_trace` without copying.
class memory_trace {
public:
    /// Appends the distinct ids of the next batch.
    void append(std::span<const node_id> ids) {
        ids_.insert(ids_.end(), ids.begin(), ids.end());
        starts_.push_back(ids_.size());
    }
    [[nodiscard]] std::size_t batches() const noexcept { return starts_.size() - 1; }
    /// Throws errc::out_of_range for a batch beyond the trace.
    [[nodiscard]] std::size_t size(std::size_t batch) const {
        check(batch);
        return starts_[batch + 1] - starts_[batch];
    }
    /// Throws errc::out_of_range for a batch beyond the trace.
    [[nodiscard]] std::span<const node_id> read(std::size_t batch, std::vector<node_id>& /*room*/) const {
        check(batch);
        return std::span(ids_).subspan(starts_[batch], starts_[batch + 1] - starts_[batch]);
    }

private:
    void check(std::size_t batch) const {
        if (batch >= batches())
            throw error(
                errc::out_of_range, "batch " + std::to_string(batch) + " of a trace of " + std::to_string(batches()));
    }

    std::vector<node_id> ids_;
    std::vector<std::size_t> starts_{0};
};

static_assert(access_trace<memory_trace> && access_trace<const memory_trace>);

/// Consecutive batches of a trace, renumbered from 0: the accesses of one superbatch. The trace must outlive it.
template <access_trace Trace>
class trace_part {
public:
    /// Selects batches [first, first + count) of `whole`, clipped to its end.
    trace_part(Trace& whole, std::size_t first, std::size_t count)
        : whole_(&whole),
          first_(std::min<std::size_t>(first, whole.batches())),
          count_(std::min<std::size_t>(count, whole.batches() - first_)) {}

    [[nodiscard]] std::size_t batches() const noexcept { return count_; }
    [[nodiscard]] std::size_t size(std::size_t batch) const { return whole_->size(first_ + batch); }
    [[nodiscard]] std::span<const node_id> read(std::size_t batch, std::vector<node_id>& room) {
        return whole_->read(first_ + batch, room);
    }

private:
    Trace* whole_;
    std::size_t first_, count_;
};

static_assert(access_trace<trace_part<const memory_trace>>);

} // namespace gneiss
