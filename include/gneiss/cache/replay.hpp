// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Cache policy that replays precomputed change sets of consecutive batches, from memory or a file.
///
///     memory_change_sets sets;
///     const auto append = [&](std::size_t, const change_set& changes) { sets.append(changes); };
///     const belady_outcome outcome = belady(trace, options, executor, append);
///     change_set_replay replay(options.capacity, outcome.fill.in, std::move(sets));
///
/// This is Ginex's executor; an inspector computes the change sets (cache/belady.hpp). Cost: O(changes) plus the
/// source.
/// Errors: errc::invalid_argument for more batches than change sets; errc::corrupt for a position beyond the batch;
/// errors of the source.
template <class Source>
class change_set_replay {
    static_assert(change_set_source<Source>,
        "change_set_replay: Source must be a gneiss::change_set_source, see gneiss/cache/concepts.hpp");

public:
    /// \param initial  rows in the cache before the first batch; more than `capacity` are errc::invalid_argument
    change_set_replay(std::size_t capacity, std::vector<node_id> initial, Source source)
        : capacity_(capacity),
          initial_(std::move(initial)),
          source_(std::move(source)) {
        if (initial_.size() > capacity_)
            throw error(errc::invalid_argument,
                std::to_string(initial_.size()) + " initial rows in a cache of " + std::to_string(capacity_) +
                    " slots");
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::span<const node_id> initial() const noexcept { return initial_; }
    void next(std::span<const node_id> ids, change_set& out) {
        if (!source_.next(out)) throw error(errc::invalid_argument, "there are more batches than change sets");
        if (out.out.size() > out.in_position.size()) throw error(errc::corrupt, "more rows leave a cache than go in");
        out.in.resize(out.in_position.size());
        for (std::size_t i = 0; i < out.in.size(); ++i) {
            if (out.in_position[i] >= ids.size())
                throw error(errc::corrupt, "a change set puts in a row beyond its batch");
            out.in[i] = ids[out.in_position[i]];
        }
    }

private:
    std::size_t capacity_;
    std::vector<node_id> initial_;
    Source source_;
};

/// Change sets in memory.
class memory_change_sets {
public:
    /// Appends the change set of the next batch.
    void append(change_set changes) { sets_.push_back(std::move(changes)); }
    bool next(change_set& out) {
        if (next_ == sets_.size()) return false;
        out = sets_[next_++];
        return true;
    }
    void rewind() noexcept { next_ = 0; }

private:
    std::vector<change_set> sets_;
    std::size_t next_ = 0;
};

static_assert(change_set_source<memory_change_sets> && cache_policy<change_set_replay<memory_change_sets>>);

} // namespace gneiss
