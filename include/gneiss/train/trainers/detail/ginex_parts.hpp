// SPDX-License-Identifier: Apache-2.0
// Checks, options and statistics of Ginex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/trainers/ginex.hpp>

namespace gneiss {

namespace detail {

/// Returns the partition of all nodes. Throws errc::invalid_argument for a task on nodes without one to train.
[[nodiscard]] inline row_partitioning whole_partition(const ginex_parts& parts) {
    const auto* targets = std::get_if<targeted_nodes>(&parts.task);
    const auto* labels = std::get_if<classified_nodes>(&parts.task);
    if (targets == nullptr && labels == nullptr) return {parts.nodes, 1};
    std::vector<node_id> training;
    (targets != nullptr ? targets->nodes : labels->nodes)(0, training);
    if (training.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
    if (targets != nullptr) return {targets->task.targets.nodes, 1};
    return {labels->labels.empty() ? parts.nodes : labels->labels.size(), 1};
}

/// Returns options of superbatches for the cache. Throws errc::invalid_argument for a cache that they do not fit.
[[nodiscard]] inline superbatch_options superbatches_of(const ginex_options& options, const ginex_parts& parts) {
    const auto* rows = std::get_if<feature_rows>(&parts.features);
    const bool changes = rows != nullptr && rows->cache != nullptr && rows->policy == nullptr;
    if (changes && !options.samples_ahead()) throw error(errc::invalid_argument, "change sets need superbatches");
    if (rows != nullptr && rows->extents != nullptr && !changes)
        throw error(
            errc::invalid_argument, "rows are dealt out to the batches of superbatches, by the change sets of a cache");
    superbatch_options result = options.superbatches;
    result.cache_capacity = changes ? rows->cache->capacity() : 0;
    result.keep_requests = rows != nullptr && rows->extents != nullptr;
    result.trace = options.trace;
    return result;
}

/// Returns the slot of features.
[[nodiscard]] inline any_features features_of_ginex(
    const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
    if (const auto* all = std::get_if<std::shared_ptr<const resident_features>>(&parts.features))
        return any_features(std::in_place_type<features_in_memory>, *all, executor);
    const bool turns = options.superbatches.schedule == superbatch_schedule::alternate;
    return any_features(std::in_place_type<cached_features>, std::get<feature_rows>(parts.features),
        turns ? cache_between_superbatches::emptied : cache_between_superbatches::kept, executor);
}

/// Returns the loop's options, for rows of `columns` floats.
[[nodiscard]] inline train_loop_options loop_of_ginex(const ginex_options& options, std::size_t columns) {
    return {.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
                .deterministic = false,
                .sample_workers = options.workers(),
                .queues = {},
                .trace = options.trace},
        .batches_in_flight = options.in_flight(),
        .row_bytes = options.rows_in_flight * options.batch_nodes * columns * sizeof(float),
        .compute_bytes = options.encoder_memory,
        .spare_bytes = options.spare_memory,
        .replicas = options.replicas.count,
        .replica = options.replicas.only};
}

/// Calls use(batches) with the batches of the trainer's task.
template <class Use>
auto with_batches(const ginex_trainer& training, Use&& use) {
    if (const auto* nodes = training.batches().get_if<ginex_batches<node_task>>()) return use(*nodes);
    return use(*training.batches().get_if<ginex_batches<link_task<any_negatives>>>());
}

} // namespace detail

GNEISS_INLINE superbatch_statistics inspected(const ginex_trainer& training) {
    return detail::with_batches(training, [](const auto& of) { return of.inspected(); });
}

GNEISS_INLINE superbatch_times times_of(const ginex_trainer& training) {
    const superbatch_statistics ahead = inspected(training);
    const pipeline_statistics stages = training.statistics();
    const auto seconds = [](const std::atomic<std::int64_t>& ns) {
        return static_cast<double>(ns.load(std::memory_order_relaxed)) * 1e-9;
    };
    constexpr auto compute = static_cast<std::size_t>(stage::compute), gather = static_cast<std::size_t>(stage::gather);
    const auto [sample, load] = detail::with_batches(
        training, [&](const auto& of) { return std::pair(seconds(of.spent().sample), seconds(of.spent().load)); });
    superbatch_times result{.sample = ahead.sample_seconds + sample,
        .change_set = ahead.change_set_seconds,
        .switching = ahead.switch_seconds,
        .load = load,
        .gather = stages.busy_seconds[gather],
        .compute = stages.busy_seconds[compute],
        .wait = stages.wait_seconds[compute]};
    if (const auto* cached = training.features().get_if<cached_features>()) {
        result.switching += seconds(cached->spent().fill);
        result.gather = seconds(cached->spent().gather);
        result.update = seconds(cached->spent().update);
    }
    return result;
}

} // namespace gneiss
