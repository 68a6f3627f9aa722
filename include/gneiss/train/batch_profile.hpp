// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <stop_token>

#include <gneiss/train/slots.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// Sizes of some batches of an epoch: the most of each. Plans charge for such batches, with a margin, in place of upper
/// bounds; a larger one runs alone (`train_loop_options::sample_bytes`).
struct batch_profile {
    std::uint64_t batches = 0; ///< number of batches drawn
    std::uint64_t nodes = 0;   ///< rows that a batch reads
    std::uint64_t sample = 0;  ///< links, neighbors and layers [bytes]
    std::uint64_t compute = 0; ///< of a backend, without rows [bytes]

    /// Returns somewhat more rows than were seen: sizes are sums of draws, so eight square roots are far more than they
    /// differ by.
    [[nodiscard]] std::uint64_t nodes_with_margin() const {
        return nodes + nodes / 12 + static_cast<std::uint64_t>(8 * std::sqrt(static_cast<double>(nodes))) + 16;
    }
    /// Returns `bytes` of such batches, with the margin of their nodes.
    [[nodiscard]] std::uint64_t with_margin(std::uint64_t bytes) const {
        const double share =
            static_cast<double>(nodes_with_margin()) / static_cast<double>(std::max<std::uint64_t>(nodes, 1));
        return static_cast<std::uint64_t>(share * static_cast<double>(bytes)) + 65536;
    }
};

/// Draws the first `count` batches of the first state of an epoch, as training would, and drops them. The result
/// depends on the seed, the plan and the data alone. Memory: one batch.
///
/// \param memory_of  memory_of(batch) returns the bytes that a drawn batch takes in a backend
template <batch_producer Batches, std::invocable<const training_batch&> Compute>
[[nodiscard]] batch_profile profile_batches(Batches& batches, const epoch_start& start, std::uint64_t count,
    Compute&& memory_of, const std::stop_token& stop = {}) {
    batch_profile seen;
    batches.begin_epoch(start, stop);
    const auto work = std::make_shared<const state_work>(batches.acquire(start, 0));
    training_batch b;
    for (; seen.batches < std::min(count, work->batches); ++seen.batches) {
        b.key = {start.epoch, {0, 0, seen.batches}};
        b.work = work;
        batches.produce(b, stop);
        seen.nodes = std::max<std::uint64_t>(seen.nodes, b.nodes.size());
        seen.sample = std::max(seen.sample, b.sample_bytes());
        seen.compute = std::max<std::uint64_t>(seen.compute, memory_of(b));
    }
    return seen;
}

} // namespace gneiss
