// SPDX-License-Identifier: Apache-2.0
// The choices of Armada: what fills each slot.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/armada.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>

namespace gneiss {

namespace detail {

struct armada_slots {
    armada_slots(const gnn_options& options, const armada_parts& parts, const gnn_memory& bound, executor_ref executor,
        memory_budget& budget)
        : encoder(budget.charge(bound.encoders(options.encoder_memory))),
          batches(parts.batches),
          features(framed_columns(parts.encode.inputs(), parts.learned()), parts.cached_rows),
          embeddings(parts.rows == nullptr ? summed_rows() : summed_rows(*parts.rows, executor)),
          backend(backend_of(parts, options.seed, executor)),
          reducer(options.replicas.make_reducer()) {}

    memory_charge encoder;
    any_batches batches;
    frame_features features;
    summed_rows embeddings;
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE node_task make_worker_task(
    const gnn_task& task, std::size_t outputs, const row_partitioning& partitioning) {
    if (std::holds_alternative<predicted_links>(task))
        throw error(errc::invalid_argument, "Armada's workers make batches of nodes, not of links");
    return detail::node_task_of({}, task, outputs, partitioning);
}

GNEISS_INLINE std::unique_ptr<armada_replica> make_armada_replica(const gnn_options& options, const gnn_task& task,
    cpu_encoder& encode, dense_parameters<>& weights, const remote_options& from, executor_ref executor,
    std::size_t cached_rows, std::size_t learned) {
    if (std::holds_alternative<predicted_links>(task))
        throw error(errc::invalid_argument, "Armada's replicas compute batches of nodes, not of links");
    const struct {
        const gnn_task& task;
        cpu_encoder& encode;
        dense_parameters<>& weights;
        any_backend* backend = nullptr;
        frozen_parts frozen{};
    } parts{task, encode, weights};
    return std::make_unique<armada_replica>(detail::backend_of(parts, options.seed, executor),
        detail::framed_columns(encode.inputs(), learned), from, executor, cached_rows, learned);
}

GNEISS_INLINE armada_trainer make_armada(
    const gnn_options& options, const armada_parts& parts, executor_ref executor, memory_budget& budget) {
    if (std::holds_alternative<predicted_links>(parts.task) || parts.frozen.nodes || options.device_sampler ||
        options.own_sampler || options.coverage_correction != 0)
        throw error(errc::invalid_argument,
            "Armada is for tasks on nodes with features, sampled by workers with the library's samplers");
    detail::check_learned(options, parts);
    validate(options.neighbors.fanout, parts.encode.hops());
    detail::check_task(parts);
    gnn_shape shape = parts.shape;
    shape.columns = parts.encode.inputs();
    shape.learned = parts.learned();
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task)) shape.targets = nodes->task.targets.columns;
    const gnn_memory bound = bound_armada_memory(options, shape, parts.encode.factories());
    auto slots = std::make_shared<detail::armada_slots>(options, parts, bound, executor, budget);
    parts.encode.bound_memory(bound.encoders(options.encoder_memory).bytes);
    return {std::move(slots), loop_of_gnn(options, bound), {parts.row_optimizer, parts.optimizer}, budget};
}

} // namespace gneiss
