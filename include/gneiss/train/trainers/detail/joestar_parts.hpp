// SPDX-License-Identifier: Apache-2.0
// Checks and options of Joestar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/joestar.hpp>

namespace gneiss::detail {

/// Calls use(nodes, all) with the function that appends training nodes and the number of all nodes. Throws
/// errc::invalid_argument for links.
template <class Task, class Use>
auto with_nodes(Task& task, std::uint64_t nodes, Use&& use) {
    if (auto* targets = std::get_if<targeted_nodes>(&task)) return use(targets->nodes, targets->task.targets.nodes);
    auto* labels = std::get_if<classified_nodes>(&task);
    if (labels == nullptr) throw error(errc::invalid_argument, "Joestar is for tasks on nodes");
    return use(labels->nodes, labels->labels.empty() ? nodes : std::uint64_t{labels->labels.size()});
}

/// The large batches of a task's training nodes.
struct large_batch_source {
    large_batch_source(const joestar_options& options, const joestar_parts& parts)
        : most(options.large_batch),
          seed(options.seed),
          all_nodes(with_nodes(parts.task, parts.nodes, [&](const auto& nodes, std::uint64_t all) {
              nodes(0, training);
              return all;
          })) {
        if (training.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
        if (most < options.batch)
            throw error(errc::invalid_argument,
                "a large batch of " + std::to_string(most) + " nodes is less than a batch of " +
                    std::to_string(options.batch));
    }
    void choose(std::uint64_t epoch, std::uint64_t index, std::vector<node_id>& to) const {
        large_batches(training, most, seed, epoch).choose(index, to);
    }
    /// Returns the task whose states are large batches, in the epoch that `graph` is in.
    [[nodiscard]] gnn_task task_of(const gnn_task& task, const staged_topology& graph) const {
        gnn_task result = task;
        with_nodes(result, 0, [&](node_task::nodes_of_state& nodes, std::uint64_t /*all*/) {
            nodes = [this, &graph](std::uint32_t state, std::vector<node_id>& to) { choose(graph.epoch(), state, to); };
            return 0;
        });
        return result;
    }

    std::vector<node_id> training{};
    std::uint64_t most, seed, all_nodes;
};

[[nodiscard]] inline macro_batch_options staging_of(const joestar_options& options, std::uint64_t all_nodes) {
    macro_batch_options result = options.macro_batches;
    if (result.rows == 0) result.rows = (result.delta ? 1 : 2) * all_nodes;
    if (result.trace == nullptr) result.trace = options.trace;
    return result;
}

/// Returns the loop's options, for rows of `columns` floats.
[[nodiscard]] inline train_loop_options loop_of_joestar(const joestar_options& options, std::size_t columns) {
    return {.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
                .sample_workers = options.sample_workers,
                .trace = options.trace},
        .batches_in_flight = options.in_flight(),
        .row_bytes = options.rows_in_flight * options.batch_nodes * columns * sizeof(float),
        .compute_bytes = options.encoder_memory,
        .spare_bytes = options.spare_memory,
        .replicas = options.replicas.count,
        .replica = options.replicas.only};
}

} // namespace gneiss::detail
