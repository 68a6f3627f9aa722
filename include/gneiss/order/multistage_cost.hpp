// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace gneiss {

/// Bandwidths of the two memory tiers that feed batches [bytes/s]: the large one that holds everything, and the fast
/// one.
struct memory_tiers {
    double low = 0, high = 0; ///< bandwidth of each tier
};

/// Data movement per batch with one stage (sampled from the low tier through a cache) and with two (a large sample is
/// staged for many batches first). Model of the thesis, §3.2; sizes are working sets [bytes], costs are seconds per
/// batch.
struct multistage_cost {
    double batch = 0;         ///< C_S(B): data that a batch reads from the whole graph
    double miss_ratio = 1;    ///< β, of the cache in front of the low tier
    double staged_batch = 0;  ///< C_S2(B): data that a batch reads from the staged sample
    double macro_batch = 0;   ///< C_S1(B_K): the staged sample
    double batches_of_it = 1; ///< K

    /// Equation (3.1): one stage with a cache.
    [[nodiscard]] double single(const memory_tiers& at) const noexcept {
        return (1 - miss_ratio) / at.high * batch + miss_ratio / at.low * batch;
    }
    /// Equation (3.2): two stages.
    [[nodiscard]] double staged(const memory_tiers& at) const noexcept {
        return staged_batch / at.high + macro_batch / (at.low * batches_of_it);
    }
    /// Equation (3.3): cost of two stages relative to one, if the high tier costs nothing.
    [[nodiscard]] double ratio() const noexcept { return macro_batch / (miss_ratio * batches_of_it * batch); }
};

/// Maximum size of a macro-batch [bytes]. Two are in memory at once, one in training and one in transfer, in addition
/// to the hubs and the maximum of the stages. 0 if nothing remains.
[[nodiscard]] constexpr std::uint64_t macro_batch_bytes(
    std::uint64_t budget, std::uint64_t hubs, std::uint64_t stages) noexcept {
    return (budget - std::min(budget, hubs) - std::min(budget - std::min(budget, hubs), stages)) / 2;
}

} // namespace gneiss
