// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

/// MariusGNN's slots (EuroSys'23): the graph of the resident partitions, and rows that are learned, fixed or both.
/// Task, sampler and inputs are chosen at run time.
using mariusgnn_loop = any_train_loop;

/// Trains a GNN on sampled neighborhoods, for link prediction or node classification, in memory or out of core
/// (EuroSys'23, sections 3 to 5).
///
/// A batch: the seeds, which are the distinct nodes of a link batch or some training nodes; a sample of their
/// neighborhood in the graph of the batch's state; the rows of all its nodes. The compute stage runs the encoder
/// forward, the task's loss and the encoder backward, and steps dense parameters and relations. The update stage steps
/// the sample's learned rows, with bounded staleness.
using mariusgnn_trainer = trainer<mariusgnn_loop>;

/// Makes MariusGNN.
///
///     mariusgnn_trainer training = make_mariusgnn({.batch = 1000, .neighbors = hops},
///         {.task = classified_nodes{labels, nodes_of_state}, .encode = encode, .weights = weights,
///             .optimizer = dense_optimizer(adam{}), .inputs = {.features = &features, .graph = graphs}},
///         executor, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(training.run(plan, e).model.mean_loss());
///
/// Memory: `in_flight` batches, a sampler per sampling thread and the encoder, bounded by `bound_gnn_memory` and
/// charged to the budget, with stored features also the largest batch's rows before they are decoded and its lists of
/// the cache, whose rows have their own charge. Precondition: executor and budget outlive it. Throws over_budget;
/// errc::invalid_argument for parts that do not match.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp trainer
[[nodiscard]] mariusgnn_trainer make_mariusgnn(
    const gnn_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/mariusgnn.hpp>
#else
namespace gneiss {
extern template class trainer<mariusgnn_loop>;
} // namespace gneiss
#endif
