// SPDX-License-Identifier: Apache-2.0
// What the trainers of a GNN have in common: checks, memory, and the slots that a choice at run time fills.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layerwise.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/schedule_timer.hpp>
#include <gneiss/train/train_loop.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

namespace detail {

[[nodiscard]] inline std::uint32_t most_resident(const gnn_options& options, const graph_inputs& inputs) noexcept {
    return options.resident_partitions != 0 ? options.resident_partitions : inputs.graph.store().rows().partitions;
}

/// Returns the memory of the largest batch while its stored features are gathered, in addition to the rows.
[[nodiscard]] inline memory_need gather_need(
    const gnn_options& options, const graph_inputs& inputs, const gnn_memory& bound) {
    memory_need need{"gathered rows"};
    if (!inputs.stored_features) return need;
    const feature_rows& stored = *inputs.stored_features;
    const std::uint64_t rows =
        options.row_memory == 0 ? bound.batch.rows : std::min(options.row_memory, bound.batch.rows);
    const std::uint64_t nodes = rows / (inputs.columns().dense * sizeof(float) * (inputs.learned() != 0 ? 2 : 1));
    const std::uint64_t row = stored.type == feature_type::f32 ? 0 : row_bytes(stored.type, stored.columns);
    const std::uint64_t lists =
        (stored.cache == nullptr ? 0U : 12U) + (stored.policy == nullptr ? 0U : 12U); // lookup, change set
    need.bytes = nodes * (row + row / 8 + lists); // buffers grow by an eighth more than requested
    return need;
}

[[nodiscard]] inline any_features features_of(const graph_inputs& inputs, executor_ref executor) {
    if (inputs.device_features) return any_features(std::in_place_type<features_on_device>, *inputs.device_features);
    if (inputs.stored_features)
        return any_features(
            std::in_place_type<cached_features>, *inputs.stored_features, cache_between_superbatches::kept, executor);
    if (inputs.features != nullptr)
        return any_features(std::in_place_type<buffered_features>, *inputs.features, executor);
    return any_features(std::in_place_type<no_features>);
}

/// Throws errc::invalid_argument for a task that encoder, backend or frozen parts do not fit.
template <class Parts>
void check_task(const Parts& parts) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    const bool on_cpu = computes_on_cpu(parts.backend);
    if (const auto* nodes = std::get_if<classified_nodes>(&parts.task)) {
        need(nodes->class_weights.empty() || on_cpu, "class weights are for the CPU's loss, not for another backend");
        need(!nodes->own_head || on_cpu, "a loss of your own is for the CPU, not for another backend");
        need(
            !nodes->own_head || nodes->class_weights.empty(), "class weights are for the library's loss, not your own");
    }
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task)) {
        need(nodes->task.targets.columns == parts.encode.outputs(),
            "the encoder gives another number of columns than there are targets");
        need(on_cpu, "rows of targets are for the CPU's loss, not for another backend");
    }
    const auto* links = std::get_if<predicted_links>(&parts.task);
    need(links == nullptr || links->model.dim() == parts.encode.outputs(),
        "the decoder's rows are not as wide as the encoder's outputs");
    need(on_cpu || !parts.frozen.any(), "frozen parts are for the CPU: a device steps all of them");
    need(!parts.frozen.relations || links != nullptr, "frozen relations are for link prediction");
}
/// Returns the backend of the parts: theirs, or the CPU's for their task, with `hook`.
template <class Parts>
[[nodiscard]] any_backend backend_of(const Parts& parts, std::uint64_t seed, executor_ref executor,
    std::function<encoder_hook<float>(training_batch&)> hook = {}) {
    if (parts.backend != nullptr) return *parts.backend;
    return cpu_backend_of(parts.task, parts.encode, parts.weights, seed, executor, parts.frozen, std::move(hook));
}

/// Returns the node task of a GNN.
[[nodiscard]] inline node_task node_task_of(const node_task::options& settings, const gnn_task& task,
    std::size_t outputs, const row_partitioning& partitioning) {
    if (const auto* nodes = std::get_if<targeted_nodes>(&task))
        return {settings, nodes->task.targets, partitioning, nodes->nodes};
    const auto& nodes = std::get<classified_nodes>(task);
    return {settings, nodes.labels, outputs, partitioning, nodes.nodes};
}
/// Returns the link task of a GNN.
[[nodiscard]] inline link_task<any_negatives> link_task_of(
    const gnn_options& options, const predicted_links& links, graph_buffer& graph) {
    return {{options.batch, options.batch_from, options.negatives, options.seed},
        make_negatives(options.negatives, options.seed, options.own_negatives), links.edges, graph.store().rows(),
        options.exclude_target_edges ? &graph : nullptr};
}
[[nodiscard]] inline buffered_topology topology_of(
    const gnn_options& options, graph_buffer& graph, std::uint32_t resident) {
    return {graph, {.resident_partitions = resident, .coverage = options.coverage_correction}};
}
/// Returns the sampler that the options name, for the CPU.
[[nodiscard]] inline any_graph_sampler sampler_of_options(const gnn_options& options) {
    if (options.own_sampler) return *options.own_sampler;
    const neighbor_options& hops = options.neighbors;
    const std::uint64_t seed = options.seed;
    if (options.sampler == sampler_kind::dense) return [hops, seed] { return dense_sampler<>(hops, seed); };
    if (options.sampler == sampler_kind::layerwise) return [hops, seed] { return layerwise_sampler<>(hops, seed); };
    return [hops, seed] { return neighbor_sampler<>(hops, seed); };
}
/// Returns batches of a task that are sampled in the graph of their state, on the device or the CPU.
template <class Task>
[[nodiscard]] any_batches batches_of(
    const gnn_options& options, Task& task, buffered_topology& topology, executor_ref executor) {
    const auto sampled = [&]<class Make>(Make make) {
        return any_batches(std::in_place_type<sampled_batches<Task, buffered_topology, std::invoke_result_t<Make>>>,
            task, topology, std::move(make), executor);
    };
    if (options.device_sampler) return sampled([device = *options.device_sampler] { return device; });
    return sampled([by = sampler_of_options(options)] { return by; });
}
/// Memory of a GNN beyond that of the loop.
struct gnn_charges {
    gnn_charges(const gnn_options& options, const gnn_parts& parts, const gnn_memory& bound, memory_budget& budget)
        : samplers(budget.charge(bound.samplers(options.pipeline.sample_workers))),
          encoder(budget.charge(bound.encoders(options.encoder_memory))),
          gathered(budget.charge(gather_need(options, parts.inputs, bound))) {}
    memory_charge samplers, encoder, gathered;
};

} // namespace detail

} // namespace gneiss
