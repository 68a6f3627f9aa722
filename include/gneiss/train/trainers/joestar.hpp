// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>
#include <gneiss/train/two_stage_batches.hpp>

namespace gneiss {

/// Joestar's batches: training nodes of a large batch, sampled within its macro-batch.
using joestar_batches = sampled_batches<node_task, staged_topology, second_stage_sampler>;
/// Joestar's slots (thesis, chapter 5): the graph and the features of a macro-batch that is sampled; no row is learned.
using joestar_loop = train_loop<joestar_batches, staged_features, no_embeddings, any_backend, any_reducer>;
/// Trains a GNN on nodes with features, by large-batch sampling. An epoch has the states of its `large_batches`.
using joestar_trainer = trainer<joestar_loop>;

/// Options of Joestar.
struct joestar_options {
    std::uint64_t batch = 1000;          ///< nodes of a batch
    std::uint64_t large_batch = 100'000; ///< most nodes of a large batch, at least `batch`
    neighbor_options second{};           ///< neighbors that batches draw from `second_stage::lists`
    macro_batch_options macro_batches{}; ///< `rows` 0: as many as two macro-batches of all nodes have
    std::uint64_t seed = 0;              ///< of the order of nodes, both stages' samples and dropout
    std::size_t rows_in_flight = 2;      ///< batches with rows in memory: the one computed, and those gathered ahead
    std::size_t sample_workers = 1;      ///< threads of the second stage
    std::uint64_t batch_nodes = 0;       ///< as `ginex_options::batch_nodes`
    std::uint64_t encoder_memory = 0;    ///< as `ginex_options::encoder_memory`
    std::uint64_t spare_memory = 0;      ///< as `ginex_options::spare_memory`
    trace_recorder* trace = nullptr;     ///< as `pipeline_options::trace`
    replica_options replicas{};          ///< replicas of the parameters

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return std::max<std::size_t>(rows_in_flight, 1) + std::max<std::size_t>(sample_workers, 1);
    }
};

/// Parts of Joestar; everything held by reference outlives the training.
struct joestar_parts {
    any_sampler first_stage;        ///< draws `neighbor_sample`s of large batches, in any graph
    feature_input features;         ///< features of the nodes, without a cache
    gnn_task task;                  ///< nodes; `nodes(0, out)` appends all that train
    std::uint64_t nodes = 0;        ///< of the graph, if the task has no label or target for each
    cpu_encoder& encode;            ///< the GNN
    dense_parameters<>& weights;    ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;      ///< steps the weights
    any_backend* backend = nullptr; ///< as `gnn_parts::backend`
    frozen_parts frozen{};          ///< as `gnn_parts::frozen`
};

/// Makes Joestar.
///
///     joestar_trainer training = make_joestar({.large_batch = 50'000, .seed = seed}, parts, executor, budget);
///     const auto epoch = [&](std::uint64_t e) { return large_batches(training_nodes, 50'000, seed, e).states(); };
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(training.run(epoch(e), e).model.mean_loss());
///
/// One macro-batch of all neighbors, from which batches draw, trains as sampling in one stage does, bit for bit.
/// Memory: `macro_batch_buffer::need` and rows of `rows_in_flight` batches, charged to the budget; samples, samplers
/// and encoder are the caller's to charge. Throws errc::invalid_argument for links, a large batch that is less than a
/// batch, and parts that do not fit together; over_budget. Source: Joestar, thesis, §5.2.
[[nodiscard]] joestar_trainer make_joestar(
    const joestar_options& options, const joestar_parts& parts, executor_ref executor, memory_budget& budget);
/// Returns the macro-batches so far, and what was moved for them.
[[nodiscard]] macro_batch_counts staged(const joestar_trainer& training);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/joestar.hpp>
#else
namespace gneiss {
extern template class trainer<joestar_loop>;
} // namespace gneiss
#endif
