// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include <gneiss/train/slots.hpp>

namespace gneiss {

/// Sums the gradients of replicas whose batches one loop computes, in the order of replicas.
///
///     train_loop loop({.replicas = 4}, batches, features, embeddings, backend, optimizers, budget, sum_of_replicas{});
///
/// Replicas in different processes, whose reducer sums in this order, train the same bits. Memory: a float for each
/// parameter; not charged.
class sum_of_replicas {
public:
    /// Holds the sums until the last replica's turn, then moves them to `gradients`.
    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& /*stop*/) {
        if (turn.replica == 0) sums_.clear();
        std::size_t at = 0;
        for (const std::span<float> part : gradients) {
            if (turn.replica == 0)
                sums_.insert(sums_.end(), part.begin(), part.end());
            else
                for (std::size_t i = 0; i < part.size(); ++i) sums_[at + i] += part[i];
            if (turn.last)
                std::ranges::copy(std::span(sums_).subspan(at, part.size()), part.begin());
            else
                std::ranges::fill(part, 0.0F);
            at += part.size();
        }
    }

private:
    std::vector<float> sums_;
};
static_assert(gradient_reducer<sum_of_replicas>);

} // namespace gneiss
