// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/model/statistics.hpp>

namespace gneiss {

/// Results of a batch, or sums of them over batches. Addition is associative.
struct training_statistics {
    double loss = 0;    ///< links: as in `link_statistics`; nodes: sum over nodes, as in `classification_statistics`
    double penalty = 0; ///< links: as in `link_statistics`
    std::uint64_t examples = 0;                       ///< edges, or nodes with a label or target
    std::uint64_t query_count = 0;                    ///< terms of the loss: sides of edges, or nodes with a label
    std::uint64_t correct = 0;                        ///< nodes
    std::uint64_t negatives = 0, masked = 0;          ///< links: as in `link_statistics`
    std::uint64_t sampled_edges = 0, input_nodes = 0; ///< sizes of the samples

    /// Returns the loss per query; 0 without queries.
    [[nodiscard]] double mean_loss() const noexcept {
        return query_count == 0 ? 0 : loss / static_cast<double>(query_count);
    }
    /// Returns the share of correct classifications; 0 without examples.
    [[nodiscard]] double accuracy() const noexcept {
        return examples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(examples);
    }
    /// Adds the results of a classification.
    void add(const classification_statistics& result) noexcept {
        loss += result.loss;
        correct += result.correct;
        examples += result.labeled;
        query_count += result.labeled;
    }
    /// Adds the results of rows of targets: the mean loss of a target, for each node that has one.
    void add(const target_statistics& result) noexcept {
        loss += result.mean_loss() * static_cast<double>(result.rows);
        examples += result.rows;
        query_count += result.rows;
    }
    /// Adds the results of link prediction.
    void add(const link_statistics& result) noexcept {
        loss += result.loss;
        penalty += result.penalty;
        examples += result.positives;
        query_count += result.query_count;
        negatives += result.negatives;
        masked += result.masked;
    }
    training_statistics& operator+=(const training_statistics& other) noexcept {
        loss += other.loss;
        penalty += other.penalty;
        examples += other.examples;
        query_count += other.query_count;
        correct += other.correct;
        negatives += other.negatives;
        masked += other.masked;
        sampled_edges += other.sampled_edges;
        input_nodes += other.input_nodes;
        return *this;
    }
};

} // namespace gneiss
