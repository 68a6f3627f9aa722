// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace gneiss {

/// Bandwidths of the two tiers that batches are made from [bytes/s]: the one that holds everything, and the one at hand.
struct memory_tiers {
    double low = 0, high = 0;
};

/// What a batch moves when it is sampled straight from the low tier through a cache, and when a large sample is staged
/// for many batches first. The model of the thesis, §3.2; sizes are working sets [bytes], costs are seconds a batch.
struct multistage_cost {
    double batch = 0;         ///< C_S(B): what a batch reads of the whole graph
    double miss_ratio = 1;    ///< β, of the cache before the low tier
    double staged_batch = 0;  ///< C_S2(B): what a batch reads of the staged sample
    double macro_batch = 0;   ///< C_S1(B_K): the staged sample
    double batches_of_it = 1; ///< K

    /// Equation (3.1): one stage, a cache.
    [[nodiscard]] double single(const memory_tiers& at) const noexcept {
        return (1 - miss_ratio) / at.high * batch + miss_ratio / at.low * batch;
    }
    /// Equation (3.2): two stages.
    [[nodiscard]] double staged(const memory_tiers& at) const noexcept {
        return staged_batch / at.high + macro_batch / (at.low * batches_of_it);
    }
    /// Equation (3.3): what is left of the cost of one stage, where the high tier costs nothing.
    [[nodiscard]] double ratio() const noexcept { return macro_batch / (miss_ratio * batches_of_it * batch); }
};

/// What a macro-batch may take: two are in memory at once, one trained on, one on its way, beside the hubs and what the
/// stages need at most [bytes]. 0 where nothing is left.
[[nodiscard]] constexpr std::uint64_t macro_batch_bytes(std::uint64_t budget, std::uint64_t hubs, std::uint64_t stages) noexcept {
    return (budget - std::min(budget, hubs) - std::min(budget - std::min(budget, hubs), stages)) / 2;
}

} // namespace gneiss
