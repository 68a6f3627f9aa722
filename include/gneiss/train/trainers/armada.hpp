// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/frame_replica.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/remote_batches.hpp>
#include <gneiss/train/summed_rows.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

/// Armada's slots (sections 3 and 5): batches arrive as frames of batch workers, in this process or in others, with the
/// features of their nodes; replicas share each step. Rows of nodes may be learned next to the features.
using armada_loop = train_loop<any_batches, frame_features, summed_rows, any_backend, any_reducer>;

/// Trains a GNN on nodes with features, and learned rows if there are some, from batches that workers construct.
using armada_trainer = trainer<armada_loop>;

/// Parts of Armada; everything held by reference outlives the training.
struct armada_parts {
    any_batches batches;                    ///< `remote_batches` of any source
    gnn_task task;                          ///< what to predict, of nodes; its nodes and labels are the batches' own
    cpu_encoder& encode;                    ///< made for the learned columns, if any, then those of the frames' rows
    dense_parameters<>& weights;            ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;              ///< steps the weights
    gnn_shape shape{};                      ///< most of a worker's state, whose columns and targets are set here
    any_backend* backend = nullptr;         ///< computes batches in place of the CPU, with the same parameters
    frozen_parts frozen{};                  ///< parts that are not trained
    std::size_t cached_rows = 0;            ///< capacity of the cache that the frames' deliveries are for
    embedding_table* rows = nullptr;        ///< learned rows of all nodes; null: none
    any_row_optimizer row_optimizer{sgd{}}; ///< steps them

    /// Returns the columns of learned rows.
    [[nodiscard]] std::size_t learned() const noexcept { return rows == nullptr ? 0 : rows->layout().dim; }
};

namespace detail {

/// Returns the columns of the frames' rows: an encoder's without the learned ones. Throws errc::invalid_argument for an
/// encoder that takes fewer.
[[nodiscard]] inline input_columns framed_columns(input_columns all, std::size_t learned) {
    if (learned > all.dense)
        throw error(errc::invalid_argument, "the encoder takes fewer columns than the learned rows have");
    all.dense -= learned;
    return all;
}
/// Throws errc::invalid_argument for learned rows that batches would read while others step them.
inline void check_learned(const gnn_options& options, const armada_parts& parts) {
    if (parts.rows != nullptr && options.pipeline.staleness != 0)
        throw error(errc::invalid_argument, "batches of a step read the rows of the step before: staleness is 0",
            {.field = "gnn_options::pipeline.staleness"});
}

} // namespace detail

/// Returns upper bounds of the memory of a batch with its frame, of a worker's sampling thread, and of the encoder.
/// `of` as `armada_parts::shape`, with its columns and learned ones. `layers` holds `layer_options` or an encoder's
/// `factories()`.
template <class Layers>
[[nodiscard]] gnn_memory bound_armada_memory(const gnn_options& options, const gnn_shape& of, const Layers& layers) {
    gnn_memory result = bound_gnn_memory(options, of, layers);
    const std::uint64_t sample = result.batch.sample;
    std::uint64_t rows = result.batch.rows; // of the frame: without learned ones, and without gradients
    if (of.learned != 0) rows = rows / (2 * of.columns.dense) * (of.columns.dense - of.learned);
    result.sampler += sample; // drawn before its frame is written
    result.batch.sample += rows + rows / 8 + (of.columns.sparse != 0 ? sample : 0) + 8192;
    return result;
}

/// Returns the task whose cutters label the batches of `worker_batches`, by labels or targets, which outlive it. Its
/// own states are not used. Throws errc::invalid_argument unless every node has a label or a row of targets.
[[nodiscard]] node_task make_worker_task(
    const gnn_task& task, std::size_t outputs, const row_partitioning& partitioning);

/// Makes Armada: `options.replicas` batches share a step. Memory: as `make_hanoi`, but for the workers' samplers, which
/// their source charges. Precondition: executor and budget outlive it. Throws over_budget; errc::invalid_argument for
/// parts that do not match, links, learned rows with a staleness, and a sampler of a device.
[[nodiscard]] armada_trainer make_armada(
    const gnn_options& options, const armada_parts& parts, executor_ref executor, memory_budget& budget);

/// Replicas of a classifier of nodes that a driver elsewhere steps.
using armada_replica = frame_replica<any_backend>;

/// Makes replicas of the model of `make_armada` that take frames by `from`: the same numbers, on the CPU.
///
/// \param cached_rows  as `armada_parts::cached_rows`
/// \param learned      columns of learned rows, which are elsewhere
/// Precondition:
/// `encode`, `weights` and the executor outlive it. Throws errc::invalid_argument for a task on links.
[[nodiscard]] std::unique_ptr<armada_replica> make_armada_replica(const gnn_options& options, const gnn_task& task,
    cpu_encoder& encode, dense_parameters<>& weights, const remote_options& from, executor_ref executor,
    std::size_t cached_rows = 0, std::size_t learned = 0);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/armada.hpp>
#else
namespace gneiss {
extern template class trainer<armada_loop>;
} // namespace gneiss
#endif
