// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/sample/mini_batch.hpp>

// What samplers on devices are told, and what they tell.
namespace gneiss::cuda {

/// Which batch is sampled, in device memory: what differs from one replay of a recorded sample to the next, beside the seed
/// nodes.
struct sample_request {
    std::uint64_t seed = 0; ///< of the run
    batch_key batch{};
    std::uint32_t seeds = 0;  ///< seed nodes
    std::uint32_t excluded = 0; ///< edges that are not walked
};

/// Why a batch could not be sampled.
enum class sample_failure : std::uint32_t { none, too_many_seeds, seed_out_of_range, seed_repeated, too_many_edges, too_many_nodes, too_many_excluded };

/// How large the batches of a sampler may be: it keeps room for so much, and a batch that needs more fails. Where nothing else is said
/// there is room for whatever fan-outs and graph allow: a hop that takes all neighbors has room for all edges of the graph in its
/// directions, and so is best bounded.
struct sample_capacity {
    std::uint32_t seeds = 0;
    std::uint32_t nodes = std::numeric_limits<std::uint32_t>::max(); ///< of a sample
    std::vector<std::uint32_t> edges{};                              ///< [hops] or empty: no bounds
    std::uint32_t excluded = 0;                                        ///< edges that are not walked
};

/// A batch did not fit what a sampler keeps room for, or its seeds cannot be used; `batch()` is the first one since the host last
/// looked. Its layers were empty. `code()`: `errc::invalid_argument` for a seed given twice, else `errc::out_of_range`.
class sample_error : public error {
public:
    sample_error(sample_failure what, const batch_key& batch, std::uint32_t hop, std::uint64_t needed, std::uint64_t room)
        : error(what == sample_failure::seed_repeated ? errc::invalid_argument : errc::out_of_range,
              describe(what, hop, needed, room) + " (" + to_string(batch) + ")"),
          what_(what), batch_(batch) {}

    [[nodiscard]] sample_failure failure() const noexcept { return what_; }
    [[nodiscard]] const batch_key& batch() const noexcept { return batch_; }

private:
    static std::string describe(sample_failure what, std::uint32_t hop, std::uint64_t needed, std::uint64_t room) {
        const std::string number = std::to_string(needed), most = std::to_string(room), at = "hop " + std::to_string(hop) + " of a sample ";
        switch (what) {
        case sample_failure::seed_out_of_range: return "seed node " + number + " of a graph of " + most + " nodes";
        case sample_failure::seed_repeated: return "seed node " + number + " is given twice";
        case sample_failure::too_many_seeds: return number + " seed nodes, there is room for " + most;
        case sample_failure::too_many_excluded: return number + " hidden edges, there is room for " + most;
        case sample_failure::too_many_edges: return at + "draws " + number + " edges, there is room for " + most;
        default: return at + "reaches " + number + " nodes, there is room for " + most;
        }
    }

    sample_failure what_;
    batch_key batch_;
};

/// What a batch came to, on the host.
struct sample_sizes {
    std::vector<std::uint32_t> nodes; ///< [hops + 1] known before each hop, from the seeds to all of the sample
    std::vector<std::uint32_t> edges; ///< [hops]
};

} // namespace gneiss::cuda
