// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gneiss::detail {

/// Belady's cache in numbers alone: how many rows of each list stay, a list being the rows that one batch uses next. Which
/// rows they are decides nothing here, so this goes ahead of what tells them.
///
/// Cost of a batch: O(batches). Memory: 20 bytes a batch.
class belady_counts {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// What happens after a batch.
    struct cut {
        std::uint32_t full_from = none; ///< lists from here on lose all their rows, incoming ones too
        std::uint32_t list = none;      ///< that keeps some of its rows only, and how many; none: no list does
        std::uint32_t kept = 0;
        std::uint64_t wanted = 0;       ///< rows that are used again and there, or incoming, before the cut
    };

    /// held[b]: rows in the cache before the first batch that batch b uses first.
    belady_counts(std::size_t capacity, std::span<const std::uint32_t> held) : capacity_(capacity), rows_(held.begin(), held.end()) {
        for (const std::uint32_t count : held) sum_ += count;
        cuts_.reserve(rows_.size());
    }

    /// The next batch: next[b] of its rows are used next by batch b.
    void batch(std::span<const std::uint32_t> next) {
        const std::size_t now = cuts_.size();
        sum_ -= rows_[now]; // these are hits, and counted by their next use
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

    /// least[level · batches + b] = the least `full_from` of the batches [b, b + 2^level): for `first_cut`.
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
