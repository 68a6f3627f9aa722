// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/dist/assignment.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Nodes that a batch worker samples.
enum class construction : std::uint8_t {
    local, ///< those of its own partitions
    remote ///< those of all partitions that workers hold in the round: the owner of a node draws for it
};

/// Options of `worker_batches`.
struct worker_options {
    std::uint64_t batch = 1000; ///< nodes
    std::uint64_t seed = 0;     ///< of the order of nodes and of samples
    std::uint64_t run = 0;      ///< of `frame_id`
    /// Arguments of `batch_groups`: most batches that share rows, replicas, and the compute workers that they are on.
    std::uint32_t group = 1, replicas = 1, compute_workers = 1;
    /// Makes the empty cache of a compute worker; none: it has no cache. Features are then dense.
    std::function<delivery_planner()> cache{};
    std::uint64_t window = 100; ///< groups that are sampled ahead for the cache, at least the batches in flight
    sampler_kind sampler = sampler_kind::neighbor;
    neighbor_options neighbors{};
    construction construct = construction::local;
    /// For remote construction: sends questions to workers that are elsewhere, on behalf of one that is here. Called by
    /// the threads that make batches. Null: all workers are here, and answer at once.
    std::function<std::vector<owner_message>(const batch_key& key, std::span<const owner_message> questions)> ask{};
    bool all_features = false; ///< workers hold the features of all partitions of the round
    /// Returns the plans of an epoch, one for each worker: `assign_partitions`.
    std::function<std::vector<node_plan>(std::uint64_t epoch)> plans{};
    /// Appends the nodes that train in a state of a worker's plan, resident ones: `append_training_nodes`.
    std::function<void(const node_plan& plan, std::uint32_t state, std::vector<node_id>& out)> nodes{};
};

/// Frames of a group's batches, and of the rows that they share.
struct group_frames {
    std::vector<std::span<const std::byte>> frames; ///< in the order of the batches' numbers
    std::span<const std::byte> rows;                ///< empty: the group's only frame has its own
    std::vector<mini_batch_arena> memory;           ///< of the spans
};

} // namespace gneiss
