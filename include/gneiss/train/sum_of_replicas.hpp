// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// Returns the memory of a reducer for so many gradients; 0 bytes if it has no `need`.
template <gradient_reducer R>
[[nodiscard]] memory_need reducer_need(const R& reducer, std::uint64_t gradients) {
    if constexpr (requires {
                      { reducer.need(gradients) } -> std::same_as<memory_need>;
                  })
        return reducer.need(gradients);
    else
        return {"reducer"};
}

/// Sums the gradients of replicas whose batches one loop computes, in the order of replicas.
///
///     train_loop loop({.replicas = 4}, batches, features, embeddings, backend, optimizers, budget, sum_of_replicas{});
///
/// Replicas in different processes, whose reducer sums in this order, train the same bits. Memory: `need`, which the
/// loop charges.
class sum_of_replicas {
public:
    /// Holds the sums until the last replica's turn, then moves them to `gradients`.
    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& /*stop*/) {
        if (turn.replica == 0) {
            std::size_t all = 0;
            for (const std::span<float> part : gradients) all += part.size();
            sums_.clear();
            sums_.reserve(all);
        }
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

    /// Returns the memory of the sums of so many gradients.
    [[nodiscard]] static memory_need need(std::uint64_t gradients) {
        return {"sums of replicas", gradients * sizeof(float)};
    }

private:
    std::vector<float> sums_;
};
static_assert(gradient_reducer<sum_of_replicas>);

} // namespace gneiss
