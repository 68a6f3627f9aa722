// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gneiss {

/// Position of a true answer among its candidates.
struct rank_counts {
    std::uint64_t greater = 0; ///< candidates with a higher score
    std::uint64_t ties = 0;    ///< other candidates with an equal score

    /// Rank 1 + greater + ties / 2: the expected position if ties are broken at random. A model that gives all nodes
    /// equal scores therefore ranks in the middle, not first (Sun et al., "A Re-evaluation of Knowledge Graph
    /// Completion Methods", ACL 2020).
    [[nodiscard]] constexpr double rank() const noexcept { return static_cast<double>(twice_rank()) / 2; }
    /// Returns twice the rank, with ties at the mean of their ranks.
    [[nodiscard]] constexpr std::uint64_t twice_rank() const noexcept { return 2 + 2 * greater + ties; }

    friend bool operator==(const rank_counts&, const rank_counts&) = default;
};

/// Mean reciprocal rank, Hits@k and mean rank of many ranks.
///
/// Sums are integers, 1/rank in units of 2⁻⁶⁴: the result is independent of the order and grouping of `add` and `+=`,
/// bit for bit. Exact up to 2⁶³ ranks and a sum of ranks below 2⁶³. All means are 0 if nothing was ranked.
class rank_metrics {
public:
    /// Adds a rank.
    constexpr void add(const rank_counts& counts) noexcept {
        const std::uint64_t twice = counts.twice_rank();
        ++count_;
        twice_ranks_ += twice;
        reciprocals_ += (wide{1} << 65) / twice;
        hits_1_ += twice <= 2;
        hits_3_ += twice <= 6;
        hits_10_ += twice <= 20;
    }

    constexpr rank_metrics& operator+=(const rank_metrics& other) noexcept {
        count_ += other.count_;
        twice_ranks_ += other.twice_ranks_;
        reciprocals_ += other.reciprocals_;
        hits_1_ += other.hits_1_;
        hits_3_ += other.hits_3_;
        hits_10_ += other.hits_10_;
        return *this;
    }
    friend constexpr rank_metrics operator+(rank_metrics a, const rank_metrics& b) noexcept { return a += b; }
    friend bool operator==(const rank_metrics&, const rank_metrics&) = default;

    /// Returns the number of ranks.
    [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }
    /// Returns the mean reciprocal rank.
    [[nodiscard]] constexpr double mrr() const noexcept { return mean(static_cast<double>(reciprocals_) * 0x1p-64); }
    /// Returns the mean rank.
    [[nodiscard]] constexpr double mean_rank() const noexcept { return mean(static_cast<double>(twice_ranks_) / 2); }
    /// Fraction of ranks that are at most k; a rank of 1.5 does not count for hits@1.
    [[nodiscard]] constexpr double hits_at_1() const noexcept { return mean(static_cast<double>(hits_1_)); }
    /// Returns the share of ranks up to 3.
    [[nodiscard]] constexpr double hits_at_3() const noexcept { return mean(static_cast<double>(hits_3_)); }
    /// Returns the share of ranks up to 10.
    [[nodiscard]] constexpr double hits_at_10() const noexcept { return mean(static_cast<double>(hits_10_)); }

private:
    __extension__ using wide = unsigned __int128;

    [[nodiscard]] constexpr double mean(double sum) const noexcept {
        return count_ == 0 ? 0 : sum / static_cast<double>(count_);
    }

    std::uint64_t count_ = 0;
    std::uint64_t twice_ranks_ = 0;
    wide reciprocals_ = 0; // Σ ⌊2⁶⁴ / rank⌋
    std::uint64_t hits_1_ = 0, hits_3_ = 0, hits_10_ = 0;
};

/// Metrics of a link-prediction evaluation: every edge is ranked among heads and among tails.
struct link_metrics {
    rank_metrics head; ///< ranks of true heads
    rank_metrics tail; ///< ranks of true tails

    /// Metrics over both sides, as published for "the" MRR.
    [[nodiscard]] constexpr rank_metrics both() const noexcept { return head + tail; }

    constexpr link_metrics& operator+=(const link_metrics& other) noexcept {
        head += other.head;
        tail += other.tail;
        return *this;
    }
    friend bool operator==(const link_metrics&, const link_metrics&) = default;
};

} // namespace gneiss
