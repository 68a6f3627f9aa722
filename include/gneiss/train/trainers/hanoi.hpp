// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

/// Hanoi's slots (thesis, chapter 4): training nodes of a macro-batch of partitions, whose neighborhoods are sampled
/// within it, on the CPU or a device; its graph and features; no row is learned.
using hanoi_loop = train_loop<any_batches, any_features, no_embeddings, any_backend, any_reducer>;

/// Trains a GNN on nodes with features, macro-batch by macro-batch.
using hanoi_trainer = trainer<hanoi_loop>;

/// Makes Hanoi. As `make_mariusgnn`, for tasks on nodes; errc::invalid_argument for links and learned rows.
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
