// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/staged_batches.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/joestar_parts.hpp>
#include <gneiss/train/two_stage_batches.hpp>

namespace gneiss {

/// Joestar's batches: training nodes of a large batch, sampled within its macro-batch, on the host or on a device.
using joestar_batches = sampled_batches<node_task, staged_topology, second_stage_sampler>;
using joestar_device_batches = sampled_batches<node_task, staged_topology, any_device_sampler>;
/// Joestar's slots (thesis, chapter 5): the graph and the features of a macro-batch that is sampled; no row is learned.
using joestar_loop = train_loop<any_batches, staged_features, no_embeddings, any_backend, any_reducer>;
/// Trains a GNN on nodes with features, by large-batch sampling or by partitions with histories. An epoch has the
/// states of its `large_batches`, or of `macro_batches`.
using joestar_trainer = trainer<joestar_loop>;

/// Makes Joestar.
///
///     joestar_trainer training = make_joestar({.large_batch = 50'000, .seed = seed}, parts, executor, budget);
///     const auto epoch = [&](std::uint64_t e) { return large_batches(training_nodes, 50'000, seed, e).states(); };
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(training.run(epoch(e), e).model.mean_loss());
///
/// By partitions, with histories of the halo:
///
///     const auto border = std::make_shared<macro_batch_border>(parts, 128);
///     histories past(hidden_rows_of(encode), graph.nodes(), {}, executor, budget);
///     const any_sampler first(graph, [=] { return bordered_sampler(border, {.fanout = parse_fanout("all")}, seed); });
///     joestar_trainer training = make_joestar({.macro_batches = {.form = second_stage::lists}, .seed = seed},
///         {.first_stage = first, …, .border = border, .past = &past}, executor, budget);
///     training.run(macro_batches(128, 0, 16, seed, e).states, e);
///
/// One macro-batch of all neighbors, from which batches draw, trains as sampling in one stage does, bit for bit; so do
/// all partitions at once.
/// Memory: `macro_batch_buffer::need` and rows of `rows_in_flight` batches, charged to the budget; samples, samplers
/// and encoder are the caller's to charge. Throws errc::invalid_argument for links, a large batch that is less than a
/// batch, histories elsewhere than batches are computed, partitions with `second_stage::hops`, and parts that do not
/// fit together; over_budget. Source: Joestar, thesis, §5.2.
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
