// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gneiss {

/// Statistics of a batch of classifications. Sums over batches are associative.
struct classification_statistics {
    double loss = 0;           ///< Σ −log p(label), each times the weight of its class if classes have weights
    std::uint64_t labeled = 0; ///< nodes with a label
    std::uint64_t correct = 0; ///< nodes classified correctly

    /// Returns the loss per labeled node; 0 without labels.
    [[nodiscard]] double mean_loss() const noexcept { return labeled == 0 ? 0 : loss / static_cast<double>(labeled); }
    /// Returns the share of correct classifications; 0 without labels.
    [[nodiscard]] double accuracy() const noexcept {
        return labeled == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labeled);
    }
    classification_statistics& operator+=(const classification_statistics& other) noexcept {
        loss += other.loss;
        labeled += other.labeled;
        correct += other.correct;
        return *this;
    }
    friend classification_statistics operator+(
        classification_statistics a, const classification_statistics& b) noexcept {
        return a += b;
    }
};

/// Statistics of a batch of targets. Sums over batches are associative.
struct target_statistics {
    double loss = 0;           ///< sum over the targets that are not missing
    std::uint64_t targets = 0; ///< number of these
    std::uint64_t rows = 0;    ///< rows with at least one of them

    /// Returns the loss per target; 0 without targets.
    [[nodiscard]] double mean_loss() const noexcept { return targets == 0 ? 0 : loss / static_cast<double>(targets); }
    target_statistics& operator+=(const target_statistics& other) noexcept {
        loss += other.loss;
        targets += other.targets;
        rows += other.rows;
        return *this;
    }
    friend target_statistics operator+(target_statistics a, const target_statistics& b) noexcept { return a += b; }
};

/// Statistics of a batch. Sums over batches are associative.
struct link_statistics {
    double loss = 0;               ///< Σ losses of queries, for any reduction, without the penalty
    double penalty = 0;            ///< reduced, as in the gradients
    std::uint64_t positives = 0;   ///< edges of the batch
    std::uint64_t query_count = 0; ///< queries: positives times sides
    std::uint64_t negatives = 0;   ///< (query, negative) pairs scored, including masked ones
    std::uint64_t masked = 0;      ///< known true answers among them, which were ignored

    /// Returns the loss per query; 0 without queries.
    [[nodiscard]] double mean_loss() const noexcept {
        return query_count == 0 ? 0 : loss / static_cast<double>(query_count);
    }
    link_statistics& operator+=(const link_statistics& other) noexcept {
        loss += other.loss;
        penalty += other.penalty;
        positives += other.positives;
        query_count += other.query_count;
        negatives += other.negatives;
        masked += other.masked;
        return *this;
    }
};

} // namespace gneiss
