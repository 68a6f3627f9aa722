// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/trainer.hpp>

namespace gneiss {

/// Marius' batches: edges and negatives, no neighbors.
using marius_batches = sampled_batches<link_task<any_negatives>, no_topology, no_hops>;
/// Marius' slots (OSDI'21): batches of edges, rows in a partition buffer, computed by the CPU or a device.
using marius_loop = train_loop<marius_batches, no_features, buffered_embeddings, any_backend, any_reducer>;

/// Options of Marius.
struct marius_options {
    std::uint64_t batch_edges = 1000;            ///< edges of a batch
    batch_scope batch_from = batch_scope::state; ///< batches end at buckets or at states
    negative_options negatives{};                ///< `filtered` masks negatives that are another true edge of the batch
    std::optional<any_negatives> own_negatives{}; ///< used in place of the library's; `negatives` bounds their lists
    step_place step_at = step_place::update;      ///< stage that steps the rows of nodes
    bool async_relations = false;                 ///< as `buffered_embeddings::options::relations`
    pipeline_options pipeline{};                  ///< options of the pipeline
    replica_options replicas{};                   ///< replicas of the parameters that every batch uses
    std::size_t batches_in_flight = 0;            ///< 0: the number that the stages can use, at most staleness + 2
    std::uint64_t row_memory = 0; ///< for rows of all batches, see `row_room` [bytes]; 0: enough for those in flight
    std::uint64_t state_nodes = 0, state_edges = 0; ///< most of a state, to bound memory; 0: all of the graph
    std::uint64_t seed = 0;                         ///< of the order of edges and the negatives

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return gneiss::batches_in_flight(pipeline, batches_in_flight);
    }
    /// Returns the bytes of a node's rows in a batch.
    [[nodiscard]] std::uint64_t row_bytes(const row_layout& layout) const noexcept {
        return ((step_at == step_place::compute ? layout.floats() : layout.dim) + layout.dim) * sizeof(float);
    }
    /// Returns upper bounds of a batch. `relation_floats`: values of all relations.
    [[nodiscard]] batch_memory bound_batch(
        const row_layout& layout, std::uint64_t nodes, std::uint64_t relation_floats) const noexcept {
        const auto at_most = [](std::uint64_t limit, std::uint64_t value) {
            return limit == 0 ? value : std::min(limit, value);
        };
        const link_batch_bound most = bound_link_batch(
            with_chunks(negatives, batch_edges), at_most(state_edges, batch_edges), at_most(state_nodes, nodes));
        return {.sample = most.bytes + 8 * most.nodes + (async_relations ? relation_floats * sizeof(float) : 0) + 65536,
            .rows = most.nodes * row_bytes(layout)};
    }
    /// Returns the options of the loop, whose `need` is what it charges for batches.
    [[nodiscard]] train_loop_options loop(
        const row_layout& layout, std::uint64_t nodes, std::uint64_t relation_floats) const {
        const train_loop_options result{.pipeline = pipeline,
            .batches_in_flight = batches_in_flight,
            .replicas = replicas.count,
            .replica = replicas.only};
        return result.charging(bound_batch(layout, nodes, relation_floats), row_memory);
    }
};

/// Parts of Marius; everything held by reference outlives the training.
struct marius_parts {
    any_link_model& model;          ///< decoder and loss
    any_row_optimizer optimizer;    ///< steps node rows and relations
    partition_buffer& rows;         ///< rows of nodes
    edge_buffer& edges;             ///< edges of the states
    embedding_table& relations;     ///< rows of relations
    any_backend* backend = nullptr; ///< computes batches in place of the CPU, with the same relations
    frozen_parts frozen{};          ///< nodes or relations that are not trained; `weights` is an error: there are none
};

/// Trains node embeddings and relations for link prediction through a partition buffer (OSDI'21, §3 and Algorithm 2).
using marius_trainer = trainer<marius_loop>;

/// Makes Marius.
///
///     marius_trainer training = make_marius(
///         {.batch_edges = 1000}, {model, adagrad{}, rows, edges, relations}, executor, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(training.run(plan, e).model.mean_loss());
///
/// Memory: in_flight · `bound_batch().sample` + `row_memory`, charged to the budget. Precondition: executor and budget
/// outlive it. Throws over_budget; errc::invalid_argument for parts that do not match.
///
/// From examples/07_observer.cpp:
/// \snippet 07_observer.cpp trainer
[[nodiscard]] marius_trainer make_marius(
    const marius_options& options, const marius_parts& parts, executor_ref executor, memory_budget& budget);

/// Draws the first `count` batches of the first state of `states`, epoch 0, as training would: for `row_memory`.
/// Memory: the state's edges and a batch.
[[nodiscard]] batch_profile profile_marius(const marius_options& options, edge_buffer& edges,
    const row_partitioning& rows, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop = {});

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/marius.hpp>
#else
namespace gneiss {
extern template class trainer<marius_loop>;
} // namespace gneiss
#endif
