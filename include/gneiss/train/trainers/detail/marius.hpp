// SPDX-License-Identifier: Apache-2.0
// The choices of Marius: what fills each slot.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/marius.hpp>

namespace gneiss {

namespace detail {

struct marius_slots {
    marius_slots(const marius_options& options, const marius_parts& parts, executor_ref executor)
        : relations(&parts.relations),
          task(marius_task(options, parts.edges, parts.rows.file().partitioning())),
          batches(task, topology, make_no_hops, executor),
          embeddings(parts.rows,
              {.step_at = options.step_at,
                  .relations = options.async_relations && !parts.frozen.relations ? relations : nullptr,
                  .frozen = parts.frozen.nodes},
              executor),
          backend(parts.backend != nullptr
                  ? *parts.backend
                  : any_backend(std::in_place_type<cpu_embedding_backend<link_head>>,
                        link_head(parts.model, parts.relations, {.frozen = parts.frozen.relations}), executor)),
          reducer(options.replicas.make_reducer()) {}

    [[nodiscard]] static link_task<any_negatives> marius_task(
        const marius_options& options, edge_buffer& edges, const row_partitioning& rows) {
        return {{options.batch_edges, options.batch_from, options.negatives, options.seed},
            make_negatives(options.negatives, options.seed, options.own_negatives), edges, rows};
    }

    embedding_table* relations;
    link_task<any_negatives> task;
    no_topology topology{};
    marius_batches batches;
    no_features features{};
    buffered_embeddings embeddings;
    any_backend backend;
    any_reducer reducer;
};

/// Throws errc::invalid_argument for parts that do not match.
inline void check(const marius_options& options, const marius_parts& parts) {
    const auto refuse = [](bool wrong, const std::string& what) {
        if (wrong) throw error(errc::invalid_argument, what);
    };
    const auto need_floats = [&](std::size_t model, std::size_t given, const char* what) {
        refuse(model != given,
            std::string(what) + " have " + std::to_string(given) + " floats, the model needs " + std::to_string(model));
    };
    need_floats(parts.model.dim(), parts.rows.dim(), "rows of nodes");
    if (const std::size_t floats = parts.model.relation_floats(); floats != 0)
        need_floats(floats, parts.relations.layout().dim, "rows of relations");
    refuse(parts.frozen.weights, "frozen weights are for an encoder, and embeddings train without one");
    refuse(parts.backend != nullptr && parts.frozen.any(), "frozen parts are for the CPU: a device steps all of them");
    refuse(parts.backend != nullptr && options.async_relations,
        "asynchronous relations are stepped on the host: not with a device");
}

} // namespace detail

GNEISS_INLINE marius_trainer make_marius(
    const marius_options& options, const marius_parts& parts, executor_ref executor, memory_budget& budget) {
    detail::check(options, parts);
    const embedding_table& relations = parts.relations;
    train_loop_options loop{.pipeline = options.pipeline,
        .batches_in_flight = options.batches_in_flight,
        .replicas = options.replicas.count,
        .replica = options.replicas.only};
    loop = loop.charging(
        options.bound_batch(parts.rows.file().layout(), parts.rows.rows(), relations.rows() * relations.layout().dim),
        options.row_memory);
    return {std::make_shared<detail::marius_slots>(options, parts, executor), std::move(loop),
        {.rows = parts.optimizer}, budget};
}

GNEISS_INLINE batch_profile profile_marius(const marius_options& options, edge_buffer& edges,
    const row_partitioning& rows, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop) {
    const epoch_plan first{states.at(0)};
    link_task<any_negatives> task = detail::marius_slots::marius_task(options, edges, rows);
    no_topology topology;
    marius_batches batches(task, topology, make_no_hops, executor);
    return profile_batches(
        batches, {.states = first}, count, [](const training_batch&) { return std::uint64_t{0}; }, stop);
}

} // namespace gneiss
