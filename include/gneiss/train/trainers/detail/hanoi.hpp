// SPDX-License-Identifier: Apache-2.0
// The choices of Hanoi: what fills each slot.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/hanoi.hpp>

namespace gneiss {

namespace detail {

struct hanoi_slots {
    hanoi_slots(const gnn_options& options, const gnn_parts& parts, const gnn_memory& bound, executor_ref executor,
        memory_budget& budget)
        : memory(options, parts, bound, budget),
          task(node_task_of(
              {options.batch, options.seed}, parts.task, parts.encode.outputs(), parts.inputs.graph.store().rows())),
          topology(topology_of(options, parts.inputs.graph, most_resident(options, parts.inputs))),
          batches(batches_of(options, task, topology, executor)),
          features(features_of(parts.inputs, executor)),
          backend(backend_of(parts, options.seed, executor)),
          reducer(options.replicas.make_reducer()) {}

    gnn_charges memory;
    node_task task;
    buffered_topology topology;
    any_batches batches;
    any_features features;
    no_embeddings embeddings{};
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE hanoi_trainer make_hanoi(
    const gnn_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget) {
    if (std::holds_alternative<predicted_links>(parts.task) || parts.inputs.rows != nullptr)
        throw error(
            errc::invalid_argument, "Hanoi is for tasks on nodes with features: for others there is make_mariusgnn");
    const gnn_memory bound = bound_gnn_memory(options, parts);
    auto slots = std::make_shared<detail::hanoi_slots>(options, parts, bound, executor, budget);
    parts.encode.bound_memory(bound.encoders(options.encoder_memory).bytes);
    return {std::move(slots), loop_of_gnn(options, bound), {parts.row_optimizer, parts.optimizer}, budget};
}

} // namespace gneiss
