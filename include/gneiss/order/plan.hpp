// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// An edge bucket: all edges from nodes of partition `first` to nodes of partition `second`.
using edge_bucket = std::pair<partition_id, partition_id>;

/// State of the buffer: the resident partitions, and the edge buckets trained while they are.
struct buffer_state {
    std::vector<partition_id> resident;      ///< ascending
    std::vector<edge_bucket> edge_buckets{}; ///< in training order; both partitions are resident

    friend bool operator==(const buffer_state&, const buffer_state&) = default;
};

/// One epoch: its states in order. Plain data, to print, cost, compare and replay.
using epoch_plan = std::vector<buffer_state>;

/// Number of a batch, fixed by the plan before any stage runs. Ordered like training.
struct batch_number {
    std::uint32_t state = 0; ///< position in the plan
    std::uint32_t pass = 0;  ///< repetition of the state (macro-batch reuse), 0 for Marius
    std::uint64_t index = 0; ///< within the pass

    friend auto operator<=>(const batch_number&, const batch_number&) = default;
    friend bool operator==(const batch_number&, const batch_number&) = default;
};

/// Position at which training resumes: exactly the batches before `next` in epoch `epoch` have been applied, in `steps`
/// steps.
struct resume_position {
    std::uint64_t epoch = 0; ///< number of the epoch
    batch_number next{};     ///< first batch not applied
    std::uint64_t steps = 0; ///< steps of the optimizers so far: t of the last one, which Adam's correction depends on

    friend bool operator==(const resume_position&, const resume_position&) = default;
};

} // namespace gneiss
