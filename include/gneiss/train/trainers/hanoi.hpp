// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/sample/any_graph_sampler.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

/// Hanoi's batches: training nodes of a macro-batch, whose neighborhoods are sampled within it.
using hanoi_batches = sampled_batches<node_task, buffered_topology, any_graph_sampler>;
/// Hanoi's slots (thesis, chapter 4): graph and features of a macro-batch of partitions; no row is learned.
using hanoi_loop = train_loop<hanoi_batches, any_features, no_embeddings, any_backend, any_reducer>;

/// Trains a GNN on nodes with features, macro-batch by macro-batch.
using hanoi_trainer = trainer<hanoi_loop>;

/// Makes Hanoi. As `make_mariusgnn`, for tasks on nodes; errc::invalid_argument for links, learned rows, or a device's
/// sampler.
[[nodiscard]] hanoi_trainer make_hanoi(
    const gnn_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/hanoi.hpp>
#else
namespace gneiss {
extern template class trainer<hanoi_loop>;
} // namespace gneiss
#endif
