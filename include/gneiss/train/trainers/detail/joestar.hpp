// SPDX-License-Identifier: Apache-2.0
// The choices of Joestar: what fills each slot.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/detail/joestar_parts.hpp>
#include <gneiss/train/trainers/joestar.hpp>

namespace gneiss {

namespace detail {

struct joestar_slots {
    joestar_slots(const joestar_options& o, const joestar_parts& parts, executor_ref executor, memory_budget& budget)
        : source(o, parts),
          buffer(
              parts.first_stage, parts.features,
              [this](std::uint64_t epoch, std::uint64_t i, const buffer_state& state, std::vector<node_id>& to) {
                  source.begin(epoch, i, state, to);
              },
              staging_of(o, parts, source.all_nodes), executor, budget),
          topology(buffer),
          task(node_task_of(
              {o.batch, o.seed}, source.task_of(parts.task, topology), parts.encode.outputs(), {source.all_nodes, 1})),
          batches(batches_of(o, parts, executor)),
          features(buffer, topology),
          backend(backend_of(parts, o.seed, executor, hook_of(parts))),
          reducer(o.replicas.make_reducer()) {}

    [[nodiscard]] any_batches batches_of(const joestar_options& o, const joestar_parts& parts, executor_ref executor) {
        if (parts.second_on_device)
            return any_batches(
                std::in_place_type<joestar_device_batches>, task, topology,
                [by = *parts.second_on_device] { return by; }, executor);
        return any_batches(
            std::in_place_type<joestar_batches>, task, topology,
            [hops = o.second, seed = o.seed] { return second_stage_sampler(hops, seed); }, executor);
    }

    macro_batch_source source;
    macro_batch_buffer buffer;
    staged_topology topology;
    node_task task;
    any_batches batches;
    staged_features features;
    no_embeddings embeddings{};
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE joestar_trainer make_joestar(
    const joestar_options& options, const joestar_parts& parts, executor_ref executor, memory_budget& budget) {
    detail::check_task(parts);
    detail::check_partitions(options, parts);
    if (std::holds_alternative<features_on_device>(parts.features) ||
        std::holds_alternative<device_cached_rows>(parts.features))
        throw error(
            errc::invalid_argument, "macro-batches hold their rows: features of a device are for batches alone");
    auto slots = std::make_shared<detail::joestar_slots>(options, parts, executor, budget);
    const input_columns columns = slots->features.columns();
    if (parts.encode.inputs().total() != columns.total())
        throw error(errc::invalid_argument, "the encoder is made for other features");
    parts.encode.bound_memory(options.encoder_memory);
    return {std::move(slots), detail::loop_of_joestar(options, parts, columns.dense),
        {any_row_optimizer(sgd{}), parts.optimizer}, budget};
}

GNEISS_INLINE macro_batch_counts staged(const joestar_trainer& training) { return training.features().staged(); }

} // namespace gneiss
