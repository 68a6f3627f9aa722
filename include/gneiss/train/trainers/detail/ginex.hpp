// SPDX-License-Identifier: Apache-2.0
// The choices of Ginex: what fills each slot.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/trainers/detail/ginex_parts.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/ginex.hpp>

namespace gneiss {

namespace detail {

struct ginex_slots {
    ginex_slots(const ginex_options& options, const ginex_parts& parts, executor_ref executor)
        : batches(batches_of(options, parts, executor)),
          features(features_of_ginex(options, parts, executor)),
          backend(backend_of(parts, options.seed, executor)),
          reducer(options.replicas.make_reducer()) {}

    [[nodiscard]] any_batches batches_of(const ginex_options& o, const ginex_parts& parts, executor_ref executor) {
        const row_partitioning rows = whole_partition(parts);
        if (parts.on_device) whole.emplace(std::make_shared<const graph_lists>(parts.on_device->graph));
        const auto ahead = [&]<class Task>(Task& task) {
            if (whole)
                return any_batches(
                    std::in_place_type<ginex_device_batches<Task>>, task, *whole,
                    [by = parts.on_device->sampler] { return by; }, executor);
            using sampled = sampled_batches<Task, no_topology, any_sampler>;
            const auto drawn = std::make_shared<sampled>(task, topology, [by = parts.sampler] { return by; }, executor);
            on_demand = drawn;
            return any_batches(std::in_place_type<ginex_batches<Task>>, *drawn, superbatches_of(o, parts), executor,
                inspection_parts{rows.nodes, parts.before_sampling, parts.before_gathering, parts.ahead});
        };
        if (const auto* links = std::get_if<predicted_links>(&parts.task)) {
            relations = &links->relations;
            return ahead(edges.emplace(link_task_options{o.batch, batch_scope::state, o.negatives, o.seed},
                make_negatives(o.negatives, o.seed, o.own_negatives), links->edges, rows));
        }
        return ahead(nodes.emplace(node_task_of({o.batch, o.seed}, parts.task, parts.encode.outputs(), rows)));
    }

    memory_budget uncharged{}; // the caller charges
    embedding_table* relations = nullptr;
    std::optional<link_task<any_negatives>> edges{};
    std::optional<node_task> nodes{};
    no_topology topology{};                              // the sampler has the graph
    std::optional<graph_in_memory<graph_lists>> whole{}; // where a device samples
    std::shared_ptr<void> on_demand{};
    any_batches batches;
    any_features features;
    no_embeddings embeddings{};
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE ginex_trainer make_ginex(const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
    detail::check_parts(options, parts);
    auto slots = std::make_shared<detail::ginex_slots>(options, parts, executor);
    const input_columns columns = slots->features.columns();
    if (parts.encode.inputs().total() != columns.total())
        throw error(errc::invalid_argument, "the encoder is made for other features");
    parts.encode.bound_memory(options.encoder_memory);
    memory_budget& uncharged = slots->uncharged;
    return {std::move(slots), detail::loop_of_ginex(options, columns.dense), {parts.row_optimizer, parts.optimizer},
        uncharged};
}

} // namespace gneiss
