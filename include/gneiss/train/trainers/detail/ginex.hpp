// SPDX-License-Identifier: Apache-2.0
// The choices of Ginex: what fills each slot.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/ginex.hpp>

namespace gneiss {

namespace detail {

struct ginex_slots {
    ginex_slots(const ginex_options& options, const ginex_parts& parts, executor_ref executor)
        : batches(batches_of(options, parts, executor)),
          features(features_of(options, parts, executor)),
          backend(backend_of(parts, options.seed, executor)),
          reducer(options.replicas.make_reducer()) {}

    [[nodiscard]] any_batches batches_of(
        const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
        const auto inspected = [&]<class Task>(Task& task, std::uint64_t nodes) {
            using sampled = sampled_batches<Task, no_topology, any_sampler>;
            const auto by =
                std::make_shared<sampled>(task, topology, [sampler = parts.sampler] { return sampler; }, executor);
            kept = by;
            return any_batches(std::in_place_type<ginex_batches<Task>>, *by, superbatches_of(options, parts), executor,
                inspection_parts{nodes, parts.before_sampling, parts.before_gathering, parts.ahead});
        };
        if (const auto* links = std::get_if<predicted_links>(&parts.task)) {
            relations = &links->relations;
            return inspected(
                edges.emplace(link_task_options{options.batch, batch_scope::state, options.negatives, options.seed},
                    make_negatives(options.negatives, options.seed, options.own_negatives), links->edges,
                    row_partitioning{parts.nodes, 1}),
                parts.nodes);
        }
        const auto* targets = std::get_if<targeted_nodes>(&parts.task);
        const auto* labels = std::get_if<classified_nodes>(&parts.task);
        const row_partitioning rows{targets != nullptr ? targets->task.targets.nodes
                : labels->labels.empty()               ? parts.nodes
                                                       : labels->labels.size(),
            1};
        const auto& training = targets != nullptr ? targets->nodes : labels->nodes;
        std::vector<node_id> list;
        training(0, list);
        if (list.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
        return inspected(
            nodes.emplace(node_task_of({options.batch, options.seed}, parts.task, parts.encode.outputs(), rows)),
            rows.nodes);
    }
    [[nodiscard]] static superbatch_options superbatches_of(const ginex_options& options, const ginex_parts& parts) {
        const auto* rows = std::get_if<feature_rows>(&parts.features);
        const bool changes = rows != nullptr && rows->cache != nullptr && rows->policy == nullptr;
        if (changes && !options.samples_ahead()) throw error(errc::invalid_argument, "change sets need superbatches");
        if (rows != nullptr && rows->extents != nullptr && !changes)
            throw error(errc::invalid_argument,
                "rows are dealt out to the batches of superbatches, by the change sets of a cache");
        superbatch_options result = options.superbatches;
        result.cache_capacity = changes ? rows->cache->capacity() : 0;
        result.keep_requests = rows != nullptr && rows->extents != nullptr;
        result.trace = options.trace;
        return result;
    }
    [[nodiscard]] static any_features features_of(
        const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
        if (const auto* all = std::get_if<std::shared_ptr<const resident_features>>(&parts.features))
            return any_features(std::in_place_type<features_in_memory>, *all, executor);
        const bool turns = options.superbatches.schedule == superbatch_schedule::alternate;
        return any_features(std::in_place_type<cached_features>, std::get<feature_rows>(parts.features),
            turns ? cache_between_superbatches::emptied : cache_between_superbatches::kept, executor);
    }

    memory_budget uncharged{}; // the caller charges
    embedding_table* relations = nullptr;
    std::optional<link_task<any_negatives>> edges{};
    std::optional<node_task> nodes{};
    no_topology topology{}; // the sampler has the graph
    std::shared_ptr<void> kept{};
    any_batches batches;
    any_features features;
    no_embeddings embeddings{};
    any_backend backend;
    any_reducer reducer;
};

/// Calls use(batches) with the batches of the trainer's task.
template <class Use>
auto with_batches(const ginex_trainer& training, Use&& use) {
    if (const auto* nodes = training.batches().get_if<ginex_batches<node_task>>()) return use(*nodes);
    return use(*training.batches().get_if<ginex_batches<link_task<any_negatives>>>());
}

} // namespace detail

GNEISS_INLINE ginex_trainer make_ginex(const ginex_options& options, const ginex_parts& parts, executor_ref executor) {
    detail::check_task(parts);
    auto slots = std::make_shared<detail::ginex_slots>(options, parts, executor);
    const input_columns columns = slots->features.columns();
    if (parts.encode.inputs().total() != columns.total())
        throw error(errc::invalid_argument, "the encoder is made for other features");
    parts.encode.bound_memory(options.encoder_memory);
    train_loop_options loop{.pipeline = {.staleness = std::max<std::size_t>(options.rows_in_flight, 1) - 1,
                                .deterministic = false,
                                .sample_workers = options.workers(),
                                .queues = {},
                                .trace = options.trace},
        .batches_in_flight = options.in_flight(),
        .row_bytes = options.rows_in_flight * options.batch_nodes * columns.dense * sizeof(float),
        .compute_bytes = options.encoder_memory,
        .spare_bytes = options.spare_memory,
        .replicas = options.replicas.count,
        .replica = options.replicas.only};
    memory_budget& uncharged = slots->uncharged;
    return {std::move(slots), std::move(loop), {parts.row_optimizer, parts.optimizer}, uncharged};
}

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
