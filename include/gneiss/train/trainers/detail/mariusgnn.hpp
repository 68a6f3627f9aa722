// SPDX-License-Identifier: Apache-2.0
// The choices of MariusGNN: what fills each slot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

namespace gneiss {

namespace detail {

struct mariusgnn_slots {
    mariusgnn_slots(const gnn_options& options, const gnn_parts& parts, const gnn_memory& bound, executor_ref executor,
        memory_budget& budget)
        : memory(options, parts, bound, budget),
          topology(topology_of(options, parts.inputs.graph, most_resident(options, parts.inputs))),
          batches(batches_of_task(options, parts, executor)),
          features(features_of(parts.inputs, executor)),
          embeddings(parts.inputs.rows == nullptr
                  ? any_embeddings(std::in_place_type<no_embeddings>)
                  : any_embeddings(std::in_place_type<buffered_embeddings>, *parts.inputs.rows,
                        buffered_embeddings::options{.frozen = parts.frozen.nodes}, executor)),
          backend(backend_of(parts, options.seed, executor)),
          reducer(options.replicas.make_reducer()) {}

    [[nodiscard]] any_batches batches_of_task(
        const gnn_options& options, const gnn_parts& parts, executor_ref executor) {
        const auto drawn = [&](auto& task) { return batches_of(options, task, topology, executor); };
        if (const auto* predicted = std::get_if<predicted_links>(&parts.task)) {
            relations = &predicted->relations;
            return drawn(links.emplace(link_task_of(options, *predicted, parts.inputs.graph)));
        }
        return drawn(nodes.emplace(node_task_of(
            {options.batch, options.seed}, parts.task, parts.encode.outputs(), parts.inputs.graph.store().rows())));
    }

    gnn_charges memory;
    embedding_table* relations = nullptr;
    std::optional<link_task<any_negatives>> links{};
    std::optional<node_task> nodes{};
    buffered_topology topology;
    any_batches batches;
    any_features features;
    any_embeddings embeddings;
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE mariusgnn_trainer make_mariusgnn(
    const gnn_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget) {
    const gnn_memory bound = bound_gnn_memory(options, parts);
    auto slots = std::make_shared<detail::mariusgnn_slots>(options, parts, bound, executor, budget);
    parts.encode.bound_memory(bound.encoders(options.encoder_memory).bytes);
    return {std::move(slots), loop_of_gnn(options, bound), {parts.row_optimizer, parts.optimizer}, budget};
}

} // namespace gneiss
