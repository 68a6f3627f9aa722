// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/sample/link_batch.hpp>

namespace gneiss::cuda {

/// Values of a `link_batch_view` that change per batch, in device memory, so that a captured step serves any batch.
struct link_counts {
    std::uint32_t nodes = 0;     ///< distinct
    std::uint32_t positives = 0; ///< at least 1
    std::uint32_t relations = 0; ///< distinct
    std::uint32_t chunks = 0;    ///< chunks of positives
    std::uint32_t negatives = 0; ///< per list

    /// Returns the counts of a batch.
    [[nodiscard]] static link_counts of(const gneiss::link_batch& batch) noexcept {
        const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
        return {size(batch.nodes), size(batch.heads), size(batch.relations), batch.chunks, batch.negatives_per_list};
    }
};

/// Maximum sizes of a run's batches, and the number of sides.
struct link_capacities {
    /// Maximum counts; sides are exact.
    std::uint32_t nodes = 0, positives = 0, relations = 0, chunks = 1, negatives = 0, sides = 2;

    friend bool operator==(const link_capacities&, const link_capacities&) = default;

    /// Returns the number of lists of negatives.
    [[nodiscard]] GNEISS_HD constexpr std::uint32_t lists() const noexcept { return chunks * sides; }
    /// Returns the positives of a chunk: a batch has `chunks` chunks, or one per positive if there are fewer.
    [[nodiscard]] GNEISS_HD constexpr std::uint32_t list_positives() const noexcept {
        return positives / chunks + (positives % chunks != 0);
    }
    /// Returns the number of queries.
    [[nodiscard]] GNEISS_HD constexpr std::uint32_t query_list() const noexcept { return sides * positives; }
    /// Maximum of `occurrences`: threads of a grid number them by 32 bits, in blocks of at most 1024.
    static constexpr std::uint64_t most_occurrences = (std::uint64_t{1} << 32) - 1024;

    /// Returns the number of places of nodes in a batch.
    [[nodiscard]] GNEISS_HD constexpr std::uint64_t all_occurrences() const noexcept {
        return std::uint64_t{2} * positives + std::uint64_t{chunks} * sides * negatives;
    }
    /// Returns the same number. Precondition: it is at most `most_occurrences`.
    [[nodiscard]] GNEISS_HD constexpr std::uint32_t occurrences() const noexcept {
        return static_cast<std::uint32_t>(all_occurrences());
    }
};

/// `gneiss::link_batch` for devices: its arrays in device memory, with room for the capacities and filled up to the
/// counts. Everything except the counts is fixed for a run.
struct link_batch_view {
    const link_counts* counts = nullptr;                    ///< counts of the batch
    link_capacities capacity{};                             ///< maximum counts
    side sides[2] = {side::tail, side::head};               ///< the first capacity.sides are used
    const std::uint32_t* node_offsets = nullptr;            ///< [nodes + 1]
    const std::uint32_t* node_occurrences = nullptr;        ///< [occurrences]
    const std::uint32_t *heads = nullptr, *tails = nullptr; ///< [positives]
    const relation_id* relations = nullptr;                 ///< [relations]
    const std::uint32_t* relation_of = nullptr;             ///< [positives]
    const std::uint32_t* relation_offsets = nullptr;        ///< [relations + 1]
    const std::uint32_t* relation_occurrences = nullptr;    ///< [positives]
    const std::uint32_t* negatives = nullptr;               ///< [chunks, sides, negatives]
    const std::uint64_t* mask_offsets = nullptr;            ///< [sides · positives + 1]; null: nothing is masked
    const std::uint32_t* mask_columns = nullptr;            ///< masked columns of each query
    const negative_correction* corrections = nullptr;       ///< [sides · positives]; null: none

    friend bool operator==(const link_batch_view&, const link_batch_view&) = default;
};

} // namespace gneiss::cuda
