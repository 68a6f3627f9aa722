// SPDX-License-Identifier: Apache-2.0
// The choices of Joestar: what fills each slot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/joestar.hpp>

namespace gneiss {

namespace detail {

/// Calls use(nodes, all) with the function that appends training nodes and the number of all nodes. Throws
/// errc::invalid_argument for links.
template <class Task, class Use>
auto with_nodes(Task& task, std::uint64_t nodes, Use&& use) {
    if (auto* targets = std::get_if<targeted_nodes>(&task)) return use(targets->nodes, targets->task.targets.nodes);
    auto* labels = std::get_if<classified_nodes>(&task);
    if (labels == nullptr) throw error(errc::invalid_argument, "Joestar is for tasks on nodes");
    return use(labels->nodes, labels->labels.empty() ? nodes : std::uint64_t{labels->labels.size()});
}

struct joestar_slots {
    joestar_slots(const joestar_options& o, const joestar_parts& parts, executor_ref executor, memory_budget& budget)
        : options(o),
          all_nodes(with_nodes(parts.task, parts.nodes,
              [&](const auto& nodes, std::uint64_t all) {
                  nodes(0, training);
                  return all;
              })),
          buffer(
              parts.first_stage, parts.features,
              [this](std::uint64_t epoch, std::uint64_t index, std::vector<node_id>& to) { choose(epoch, index, to); },
              staging(), executor, budget),
          topology(buffer),
          task(node_task_of({o.batch, o.seed}, by_large_batch(parts), parts.encode.outputs(), {all_nodes, 1})),
          batches(
              task, topology, [hops = o.second, seed = o.seed] { return second_stage_sampler(hops, seed); }, executor),
          features(buffer, topology),
          backend(backend_of(parts, o.seed, executor)),
          reducer(o.replicas.make_reducer()) {}

    void choose(std::uint64_t epoch, std::uint64_t index, std::vector<node_id>& to) const {
        large_batches(training, options.large_batch, options.seed, epoch).choose(index, to);
    }
    [[nodiscard]] macro_batch_options staging() const {
        if (training.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
        if (options.large_batch < options.batch)
            throw error(errc::invalid_argument,
                "a large batch of " + std::to_string(options.large_batch) + " nodes is less than a batch of " +
                    std::to_string(options.batch));
        macro_batch_options result = options.macro_batches;
        if (result.rows == 0) result.rows = (result.delta ? 1 : 2) * all_nodes;
        if (result.trace == nullptr) result.trace = options.trace;
        return result;
    }
    /// Returns the task whose states are large batches.
    [[nodiscard]] gnn_task by_large_batch(const joestar_parts& parts) {
        gnn_task result = parts.task;
        with_nodes(result, parts.nodes, [&](node_task::nodes_of_state& nodes, std::uint64_t /*all*/) {
            nodes = [this](std::uint32_t state, std::vector<node_id>& to) { choose(topology.epoch(), state, to); };
            return 0;
        });
        return result;
    }

    joestar_options options;
    std::vector<node_id> training{};
    std::uint64_t all_nodes;
    macro_batch_buffer buffer;
    staged_topology topology;
    node_task task;
    joestar_batches batches;
    staged_features features;
    no_embeddings embeddings{};
    any_backend backend;
    any_reducer reducer;
};

} // namespace detail

GNEISS_INLINE joestar_trainer make_joestar(
    const joestar_options& options, const joestar_parts& parts, executor_ref executor, memory_budget& budget) {
    detail::check_task(parts);
    auto slots = std::make_shared<detail::joestar_slots>(options, parts, executor, budget);
    const input_columns columns = slots->features.columns();
    if (parts.encode.inputs().total() != columns.total())
        throw error(errc::invalid_argument, "the encoder is made for other features");
    parts.encode.bound_memory(options.encoder_memory);
    return {std::move(slots),
        {.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
             .sample_workers = options.sample_workers,
             .trace = options.trace},
            .batches_in_flight = options.in_flight(),
            .row_bytes = options.rows_in_flight * options.batch_nodes * columns.dense * sizeof(float),
            .compute_bytes = options.encoder_memory,
            .spare_bytes = options.spare_memory,
            .replicas = options.replicas.count,
            .replica = options.replicas.only},
        {any_row_optimizer(sgd{}), parts.optimizer}, budget};
}

GNEISS_INLINE macro_batch_counts staged(const joestar_trainer& training) {
    return training.features().staged();
}

} // namespace gneiss
