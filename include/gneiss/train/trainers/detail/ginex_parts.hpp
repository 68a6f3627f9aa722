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
#include <gneiss/train/trainers/detail/gnn.hpp>
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

/// Throws errc::invalid_argument for parts that do not fit the task, and for a device's part of the work without its
/// backend, or of superbatches.
inline void check_parts(const ginex_options& options, const ginex_parts& parts) {
    check_task(parts);
    if (parts.on_device && (parts.backend == nullptr || options.samples_ahead()))
        throw error(errc::invalid_argument,
            "a device samples for its own backend, and on demand: superbatches are sampled on the CPU");
    const bool cached = std::holds_alternative<device_cached_rows>(parts.features);
    if ((cached || std::holds_alternative<features_on_device>(parts.features)) && parts.backend == nullptr)
        throw error(errc::invalid_argument, "features of a device need its backend");
    if (cached && options.replicas.only)
        throw error(errc::invalid_argument, "a device that caches rows computes all batches, those of each replica");
}

/// Returns options of superbatches for the cache. Throws errc::invalid_argument for a cache that they do not fit.
[[nodiscard]] inline superbatch_options superbatches_of(const ginex_options& options, const ginex_parts& parts) {
    const auto* there = std::get_if<device_cached_rows>(&parts.features);
    const auto* rows = there != nullptr ? &there->rows : std::get_if<feature_rows>(&parts.features);
    const bool changes = there != nullptr || (rows != nullptr && rows->cache != nullptr && rows->policy == nullptr);
    if (changes && !options.samples_ahead()) throw error(errc::invalid_argument, "change sets need superbatches");
    if (rows != nullptr && rows->extents != nullptr && !changes)
        throw error(
            errc::invalid_argument, "rows are dealt out to the batches of superbatches, by the change sets of a cache");
    superbatch_options result = options.superbatches;
    result.cache_capacity = there != nullptr ? there->slots : changes ? rows->cache->capacity() : 0;
    result.keep_requests = rows != nullptr && rows->extents != nullptr;
    result.trace = options.trace;
    return result;
}

/// Returns the slot of features.
[[nodiscard]] inline any_features features_of_ginex(
    const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
    if (const auto* all = std::get_if<std::shared_ptr<const resident_features>>(&parts.features))
        return any_features(std::in_place_type<features_in_memory>, *all, executor);
    if (const auto* there = std::get_if<features_on_device>(&parts.features))
        return any_features(std::in_place_type<features_on_device>, *there);
    if (const auto* cached = std::get_if<device_cached_rows>(&parts.features))
        return any_features(std::in_place_type<device_cached_features>, *cached, executor);
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

/// Returns use(batches) of the batches of the trainer's task; a default if a device samples them.
template <class Use>
auto with_batches(const ginex_trainer& training, Use&& use) {
    if (const auto* nodes = training.batches().get_if<ginex_batches<node_task>>()) return use(*nodes);
    if (const auto* edges = training.batches().get_if<ginex_batches<link_task<any_negatives>>>()) return use(*edges);
    return decltype(use(std::declval<const ginex_batches<node_task>&>())){};
}

/// True if a device samples the batches.
[[nodiscard]] inline bool samples_on_device(const ginex_trainer& training) {
    const auto& batches = training.batches();
    return batches.get_if<ginex_batches<node_task>>() == nullptr &&
        batches.get_if<ginex_batches<link_task<any_negatives>>>() == nullptr;
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
    auto spent = detail::with_batches(
        training, [&](const auto& of) { return std::pair(seconds(of.spent().sample), seconds(of.spent().load)); });
    if (detail::samples_on_device(training)) spent.first = stages.busy_seconds[static_cast<std::size_t>(stage::sample)];
    superbatch_times result{.sample = ahead.sample_seconds + spent.first,
        .change_set = ahead.change_set_seconds,
        .switching = ahead.switch_seconds,
        .load = spent.second,
        .gather = stages.busy_seconds[gather],
        .compute = stages.busy_seconds[compute],
        .wait = stages.wait_seconds[compute]};
    const auto take = [&](const cached_features::times& of) {
        result.switching += seconds(of.fill);
        result.gather = seconds(of.gather);
        result.update = seconds(of.update);
    };
    if (const auto* cached = training.features().get_if<cached_features>()) take(cached->spent());
    if (const auto* there = training.features().get_if<device_cached_features>()) take(there->spent());
    return result;
}

} // namespace gneiss
