// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embedding_trainer.hpp>
#include <gneiss/train/sampled_batches.hpp>

namespace gneiss {

GNEISS_INLINE embedding_trainer::embedding_trainer(const embedding_trainer_options& options,
    const embedding_parts& parts, executor_ref executor, memory_budget& budget)
    : relations_(checked(parts)),
      task_(make_task(options, parts.edges, parts.rows.file().partitioning())),
      batches_(make_batches(task_, topology_, executor)),
      features_(std::in_place_type<no_features>),
      embeddings_(parts.rows,
          {.step_at = options.step_at,
              .relations = options.async_relations && !parts.frozen.relations ? &relations_ : nullptr,
              .frozen = parts.frozen.nodes},
          executor),
      any_embeddings_(std::ref(embeddings_)),
      backend_(parts.backend != nullptr
              ? *parts.backend
              : any_backend(std::in_place_type<cpu_embedding_backend<link_head>>,
                    link_head(parts.model, relations_, {.frozen = parts.frozen.relations}), executor)),
      loop_(train_loop_options{.pipeline = options.pipeline,
                .batches_in_flight = options.batches_in_flight,
                .replicas = options.replicas.count,
                .replica = options.replicas.only}
                .charging(bound_batch(options, parts.rows.file().layout(), parts.rows.rows(),
                              relations_.rows() * relations_.layout().dim),
                    options.row_memory),
          batches_, features_, any_embeddings_, backend_, {.rows = parts.optimizer}, budget,
          options.replicas.make_reducer()) {
    check_relations(parts.optimizer);
    if (parts.frozen.weights)
        throw error(errc::invalid_argument, "frozen weights are for an encoder, and embeddings train without one");
    if (parts.backend != nullptr && parts.frozen.any())
        throw error(errc::invalid_argument, "frozen parts are for the CPU: a device steps all of them");
    if (parts.backend != nullptr && options.async_relations)
        throw error(errc::invalid_argument, "asynchronous relations are stepped on the host: not with a device");
}

GNEISS_INLINE embedding_trainer::~embedding_trainer() = default;

GNEISS_INLINE embedding_table& embedding_trainer::checked(const embedding_parts& parts) {
    const auto need_floats = [](std::size_t model, std::size_t given, const char* what) {
        if (model != given)
            throw error(errc::invalid_argument,
                std::string(what) + " have " + std::to_string(given) + " floats, the model needs " +
                    std::to_string(model));
    };
    const any_link_model& model = parts.model;
    need_floats(model.dim(), parts.rows.dim(), "rows of nodes");
    if (model.relation_floats() != 0)
        need_floats(model.relation_floats(), parts.relations.layout().dim, "rows of relations");
    return parts.relations;
}

GNEISS_INLINE link_task<any_negatives> embedding_trainer::make_task(
    const embedding_trainer_options& options, edge_buffer& edges, const row_partitioning& rows) {
    return {{options.batch_edges, options.batch_from, options.negatives, options.seed},
        make_negatives(options.negatives, options.seed, options.own_negatives), edges, rows};
}

GNEISS_INLINE any_batches embedding_trainer::make_batches(
    link_task<any_negatives>& task, no_topology& topology, executor_ref executor) {
    return any_batches(std::in_place_type<sampled_batches<link_task<any_negatives>, no_topology, no_hops>>, task,
        topology, make_no_hops, executor);
}

GNEISS_INLINE batch_profile embedding_trainer::profile(const embedding_trainer_options& options, edge_buffer& edges,
    const row_partitioning& rows, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop) {
    const epoch_plan first{states.at(0)};
    link_task<any_negatives> task = make_task(options, edges, rows);
    no_topology topology;
    any_batches batches = make_batches(task, topology, executor);
    return profile_batches(
        batches, {.states = first}, count, [](const training_batch&) { return std::uint64_t{0}; }, stop);
}

GNEISS_INLINE training_epoch embedding_trainer::run(const epoch_plan& states, const resume_position& from,
    const training_observer& observer, const std::stop_token& stop) {
    return loop_.run(states, from, observer, stop);
}

GNEISS_INLINE training_epoch embedding_trainer::run(const epoch_plan& states, std::uint64_t epoch, batch_number from,
    const training_observer& observer, const std::stop_token& stop) {
    return loop_.run(states, epoch, from, observer, stop);
}

GNEISS_INLINE void embedding_trainer::set_optimizer(const any_row_optimizer& optimizer) {
    check_relations(optimizer);
    loop_.set_optimizers({.rows = optimizer});
}

} // namespace gneiss
