// SPDX-License-Identifier: Apache-2.0
// The choices of Marius: what fills each slot.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/train/trainers/detail/marius_parts.hpp>
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

    embedding_table* relations;
    link_task<any_negatives> task;
    no_topology topology{};
    marius_batches batches;
    no_features features{};
    buffered_embeddings embeddings;
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE marius_trainer make_marius(
    const marius_options& options, const marius_parts& parts, executor_ref executor, memory_budget& budget) {
    detail::check(options, parts);
    const embedding_table& relations = parts.relations;
    return {std::make_shared<detail::marius_slots>(options, parts, executor),
        options.loop(parts.rows.file().layout(), parts.rows.rows(), relations.rows() * relations.layout().dim),
        {.rows = parts.optimizer}, budget};
}

} // namespace gneiss
