// SPDX-License-Identifier: Apache-2.0
// Checks and options of Joestar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/train/schedule_timer.hpp>
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

/// Throws errc::invalid_argument for partitions without histories, on a device, or with lists of each hop; for a
/// device's part of the work without its backend, or its copies.
inline void check_partitions(const joestar_options& options, const joestar_parts& parts) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    need((parts.border == nullptr) == (parts.past == nullptr && parts.past_on_device == nullptr),
        "a border and histories need each other");
    const bool on_device = options.macro_batches.device || parts.second_on_device;
    need(!on_device || !computes_on_cpu(parts.backend), "macro-batches of a device need its backend");
    need(options.macro_batches.device || !parts.second_on_device, "a device samples its copies of macro-batches");
    if (!parts.border) return;
    need(computes_on_cpu(parts.backend) ? parts.past_on_device == nullptr : parts.past == nullptr,
        "histories are where batches are computed: on the CPU, or on the device of their backend");
    need(options.ahead != sampled_ahead::exact || !parts.second_on_device,
        "batches that are drawn ahead are not drawn once more on a device");
    need(options.macro_batches.form ==
            (options.ahead == sampled_ahead::exact ? second_stage::drawn : second_stage::lists),
        "batches of partitions are drawn from whole lists of neighbors, second_stage::lists, or exactly ahead, "
        "second_stage::drawn");
}

/// The training nodes of macro-batches: large batches, or those of partitions.
struct macro_batch_source {
    macro_batch_source(const joestar_options& options, const joestar_parts& parts)
        : border(parts.border),
          entered_by_none(border ? std::optional(*border) : std::nullopt),
          all_inside(options.ahead == sampled_ahead::off),
          most(options.large_batch),
          seed(options.seed),
          all_nodes(with_nodes(parts.task, parts.nodes, [&](const auto& nodes, std::uint64_t all) {
              nodes(0, training);
              return all;
          })) {
        if (training.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
        if (border && border->nodes() != all_nodes)
            throw error(errc::invalid_argument,
                "partitions of " + std::to_string(border->nodes()) + " nodes for a graph of " +
                    std::to_string(all_nodes));
        if (!border && most < options.batch)
            throw error(errc::invalid_argument,
                "a large batch of " + std::to_string(most) + " nodes is less than a batch of " +
                    std::to_string(options.batch));
    }
    /// Writes the training nodes of a macro-batch, ascending.
    void choose(std::uint64_t epoch, std::uint64_t index, const buffer_state& state, std::vector<node_id>& to) const {
        if (!border) return large_batches(training, most, seed, epoch).choose(index, to);
        macro_batch_border inside = *entered_by_none; // several threads choose, while one enters `border`
        inside.enter(state.resident);
        to.clear();
        std::ranges::copy_if(training, std::back_inserter(to), [&](node_id v) { return inside[v]; });
        std::ranges::sort(to);
    }
    /// Writes the nodes whose sample is the macro-batch, ascending; none if it trains none. Called by the thread that
    /// samples within the border.
    void begin(std::uint64_t epoch, std::uint64_t index, const buffer_state& state, std::vector<node_id>& to) const {
        choose(epoch, index, state, to);
        if (!border) return;
        border->enter(state.resident);
        if (!all_inside || to.empty()) return;
        to.clear();
        for (std::uint64_t v = 0; v < all_nodes; ++v)
            if ((*border)[static_cast<std::size_t>(v)]) to.push_back(static_cast<node_id>(v));
    }
    /// Returns the task whose states are macro-batches, in the epoch that `graph` is in.
    [[nodiscard]] gnn_task task_of(const gnn_task& task, const staged_topology& graph) const {
        gnn_task result = task;
        with_nodes(result, 0, [&](node_task::nodes_of_state& nodes, std::uint64_t /*all*/) {
            nodes = [this, &graph](std::uint32_t state, std::vector<node_id>& to) {
                choose(graph.epoch(), state, graph.states().at(state), to);
            };
            return 0;
        });
        return result;
    }

    std::vector<node_id> training{};
    std::shared_ptr<macro_batch_border> border;
    std::optional<macro_batch_border> entered_by_none; ///< a copy of the border
    bool all_inside;
    std::uint64_t most, seed, all_nodes;
};

/// Returns the callbacks of batches on the CPU that read histories; none without partitions.
[[nodiscard]] inline std::function<encoder_hook<float>(training_batch&)> hook_of(const joestar_parts& parts) {
    if (parts.past == nullptr) return {};
    return [past = parts.past, inside = macro_batch_border(*parts.border), now = ~std::uint64_t{0}](
               training_batch& b) mutable {
        if (std::exchange(now, b.macro_batch) != b.macro_batch) inside.enter(b.inside);
        return past->begin(b, inside, b.macro_batch);
    };
}

[[nodiscard]] inline macro_batch_options staging_of(
    const joestar_options& options, const joestar_parts& parts, std::uint64_t all_nodes) {
    macro_batch_options result = options.macro_batches;
    if (parts.border) {
        result.outside = [border = parts.border](node_id v) { return !(*border)[v]; };
        history_keeper* const past = parts.past != nullptr ? parts.past : parts.past_on_device;
        result.halo_features = past->options().halo_features;
        if (past->on_disk())
            result.made = [border = parts.border, past](
                              std::uint64_t epoch, std::uint64_t index, const macro_batch& graph) {
                std::vector<node_id> halo;
                std::ranges::copy_if(graph.ids(), std::back_inserter(halo), [&](node_id v) { return !(*border)[v]; });
                past->expect(epoch, static_cast<std::uint32_t>(index), std::move(halo), *border);
            };
    }
    result.batch = options.batch;
    result.seed = options.seed;
    if (result.rows == 0) result.rows = (result.delta ? 1 : 2) * all_nodes;
    if (result.trace == nullptr) result.trace = options.trace;
    return result;
}

/// Returns the loop's options, for rows of `columns` floats.
[[nodiscard]] inline train_loop_options loop_of_joestar(
    const joestar_options& options, const joestar_parts& parts, std::size_t columns) {
    return {.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
                .drains_states = parts.past_on_device != nullptr && parts.past_on_device->on_disk(),
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
