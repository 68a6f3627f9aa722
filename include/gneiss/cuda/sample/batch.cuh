// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/sample/mini_batch.hpp>

// Inputs and outputs of samplers on devices.
namespace gneiss::cuda {

/// The batch to sample, in device memory: values that change between replays of a recorded sample, except the seed
/// nodes.
struct sample_request {
    std::uint64_t seed = 0;     ///< the run's seed
    batch_key batch{};          ///< the batch
    std::uint32_t seeds = 0;    ///< seed nodes
    std::uint32_t excluded = 0; ///< number of excluded edges
};

/// Layers of a sample with lists by source, which a backward pass reads.
enum class source_lists : std::uint8_t {
    none,    ///< forward passes only
    between, ///< all layers but the first: nothing below it is learned, and it has most of the edges
    all
};

/// Cause of a failed batch.
enum class sample_failure : std::uint32_t {
    none,
    too_many_seeds,
    seed_out_of_range,
    seed_repeated,
    too_many_edges,
    too_many_nodes,
    too_many_excluded
};

/// Maximum sizes of a sampler's batches: it reserves this room, and a batch that needs more fails. By default the room
/// covers any batch that fan-outs and graph allow: a hop that takes all neighbors has room for all edges of the graph
/// in its directions, so give a bound for it.
struct sample_capacity {
    std::uint32_t seeds = 0;                                         ///< seed nodes
    std::uint32_t nodes = std::numeric_limits<std::uint32_t>::max(); ///< maximum of a sample
    std::vector<std::uint32_t> edges{};                              ///< [hops] or empty: no bounds
    std::uint32_t excluded = 0;                                      ///< excluded edges
};

/// A batch exceeds a sampler's capacity, or its seeds are invalid; `batch()` is the first one since the host last
/// checked. Its layers were empty. `code()`: `errc::invalid_argument` for a repeated seed, else `errc::out_of_range`.
class sample_error : public error {
public:
    /// Makes an error for a batch that needs `needed` where there is room for `room`.
    sample_error(
        sample_failure what, const batch_key& batch, std::uint32_t hop, std::uint64_t needed, std::uint64_t room)
        : error(what == sample_failure::seed_repeated ? errc::invalid_argument : errc::out_of_range,
              describe(what, hop, needed, room) + " (" + to_string(batch) + ")"),
          what_(what),
          batch_(batch) {}

    /// Returns the cause.
    [[nodiscard]] sample_failure failure() const noexcept { return what_; }
    /// Returns the first batch that failed.
    [[nodiscard]] const batch_key& batch() const noexcept { return batch_; }

private:
    static std::string describe(sample_failure what, std::uint32_t hop, std::uint64_t needed, std::uint64_t room) {
        const std::string number = std::to_string(needed), most = std::to_string(room),
                          at = "hop " + std::to_string(hop) + " of a sample ";
        switch (what) {
        case sample_failure::seed_out_of_range: return "seed node " + number + " of a graph of " + most + " nodes";
        case sample_failure::seed_repeated: return "seed node " + number + " is given twice";
        case sample_failure::too_many_seeds: return number + " seed nodes, there is room for " + most;
        case sample_failure::too_many_excluded: return number + " excluded edges, there is room for " + most;
        case sample_failure::too_many_edges: return at + "draws " + number + " edges, there is room for " + most;
        default: return at + "reaches " + number + " nodes, there is room for " + most;
        }
    }

    sample_failure what_;
    batch_key batch_;
};

/// Sizes of a batch, on the host.
struct sample_sizes {
    std::vector<std::uint32_t> nodes; ///< [hops + 1] known before each hop, from the seeds to the whole sample
    std::vector<std::uint32_t> edges; ///< [hops]
};

} // namespace gneiss::cuda
