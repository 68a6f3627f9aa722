// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gneiss::detail {

/// Belady's cache in counts only: how many rows of each list stay, where a list is the rows that one batch uses next.
/// The identity of the rows does not affect the counts, so this runs before the rows are identified.
///
/// Cost of a batch: O(batches). Memory: 20 bytes per batch.
class belady_counts {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// Outcome after a batch.
    struct cut {
        std::uint32_t full_from = none; ///< lists from here on lose all their rows, including incoming ones
        std::uint32_t list = none;      ///< list that keeps only `kept` of its rows; none: every list is whole or empty
        std::uint32_t kept = 0;
        std::uint64_t wanted = 0; ///< resident or incoming rows with a further use, before the cut
    };

    /// held[b]: rows in the cache before the first batch whose first use is in batch b.
    belady_counts(std::size_t capacity, std::span<const std::uint32_t> held)
        : capacity_(capacity),
          rows_(held.begin(), held.end()) {
        for (const std::uint32_t count : held) sum_ += count;
        cuts_.reserve(rows_.size());
    }

    /// Adds the next batch: next[b] of its rows are used next by batch b.
    void batch(std::span<const std::uint32_t> next) {
        const std::size_t now = cuts_.size();
        sum_ -= rows_[now]; // these are hits; their next use counts them
        rows_[now] = 0;
        for (std::size_t b = now + 1; b < rows_.size(); ++b) {
            rows_[b] += next[b];
            sum_ += next[b];
        }
        cut result;
        result.wanted = sum_;
        for (std::size_t b = rows_.size(); sum_ > capacity_;) {
            --b;
            const auto dropped = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows_[b], sum_ - capacity_));
            rows_[b] -= dropped;
            sum_ -= dropped;
            if (rows_[b] == 0) {
                result.full_from = static_cast<std::uint32_t>(b);
            } else if (dropped != 0) {
                result.list = static_cast<std::uint32_t>(b);
                result.kept = rows_[b];
            }
        }
        cuts_.push_back(result);
    }

    [[nodiscard]] const std::vector<cut>& cuts() const noexcept { return cuts_; }

    /// least[level · batches + b] = the smallest `full_from` of the batches [b, b + 2^level), for `first_cut`.
    [[nodiscard]] std::vector<std::uint32_t> least_cuts() const {
        const std::size_t batches = cuts_.size();
        std::vector<std::uint32_t> least(batches);
        for (std::size_t b = 0; b < batches; ++b) least[b] = cuts_[b].full_from;
        for (std::size_t half = 1; 2 * half <= batches; half *= 2) {
            const std::size_t below = least.size() - batches;
            for (std::size_t b = 0; b < batches; ++b)
                least.push_back(std::min(least[below + b], least[below + std::min(b + half, batches - 1)]));
        }
        return least;
    }

private:
    std::uint64_t capacity_, sum_ = 0; ///< rows in all lists
    std::vector<std::uint32_t> rows_;
    std::vector<cut> cuts_;
};

} // namespace gneiss::detail
