// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainers/detail/gnn.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

GNEISS_INLINE any_backend cpu_backend_of(const gnn_task& task, cpu_encoder& encode, dense_parameters<>& weights,
    std::uint64_t seed, executor_ref executor, const frozen_parts& frozen,
    std::function<encoder_hook<float>(training_batch&)> hook) {
    cpu_encoder_backend_options options{.frozen = frozen.weights, .hook = std::move(hook)};
    if (const auto* links = std::get_if<predicted_links>(&task))
        return any_backend(std::in_place_type<cpu_encoder_backend<link_head>>, encode, weights,
            link_head(links->model, links->relations, {.frozen = frozen.relations}), seed, executor,
            std::move(options));
    if (const auto* nodes = std::get_if<targeted_nodes>(&task))
        return any_backend(std::in_place_type<cpu_encoder_backend<target_head>>, encode, weights,
            target_head{nodes->task.loss, nodes->task.positive_weights}, seed, executor, std::move(options));
    const auto& nodes = std::get<classified_nodes>(task);
    if (nodes.own_head) return nodes.own_head->backend(encode, weights, seed, executor, std::move(options));
    return any_backend(std::in_place_type<cpu_encoder_backend<classification_head>>, encode, weights,
        classification_head{nodes.class_weights}, seed, executor, std::move(options));
}

GNEISS_INLINE gnn_memory bound_gnn_memory(const gnn_options& options, const gnn_parts& parts) {
    const cpu_encoder& encode = parts.encode;
    const graph_inputs& inputs = parts.inputs;
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    const row_partitioning& partitioning = inputs.graph.store().rows();
    const input_columns columns = inputs.columns();
    need((inputs.features != nullptr) + inputs.stored_features.has_value() + inputs.device_features.has_value() <= 1,
        "features come from a buffer, row by row or from a device, not from several of them");
    need(!inputs.device_features || parts.backend != nullptr, "features of a device need its backend");
    need(columns.total() != 0, "a GNN needs rows or features of nodes");
    validate(options.neighbors.fanout, encode.hops());
    need(encode.hops() != 0, "an encoder without a layer that reads neighbors needs no graph training");
    if (inputs.rows != nullptr)
        check_same_partitions(inputs.rows->file().partitioning(), "embeddings", partitioning, "the graph's lists");
    if (inputs.features != nullptr)
        check_same_partitions(inputs.features->store().rows(), "features", partitioning, "the graph's lists");
    need(!options.device_sampler || parts.backend != nullptr, "a device's sampler needs its backend");
    need(!options.device_sampler || !options.own_sampler,
        "neighborhoods are drawn on a device by the library's samplers: a sampler of your own draws on the CPU");
    need(options.coverage_correction >= 0 && options.coverage_correction <= 1,
        "the coverage correction must be in [0, 1]");
    need(detail::computes_on_cpu(parts.backend) || options.coverage_correction == 0,
        "the coverage correction is computed on the CPU");
    if (const auto* nodes = std::get_if<classified_nodes>(&parts.task))
        need(nodes->labels.size() == partitioning.nodes || (nodes->own_head && nodes->labels.empty()),
            "every node needs a label, or unlabeled");
    detail::check_task(parts);
    need(!parts.frozen.nodes || inputs.rows != nullptr, "frozen nodes are learned rows, and the inputs have none");
    const bool links = std::holds_alternative<predicted_links>(parts.task);
    gnn_shape shape =
        state_sizes(inputs.graph.store(), inputs.features == nullptr ? nullptr : &inputs.features->store())
            .of(detail::most_resident(options, inputs));
    shape.links = links;
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task)) shape.targets = nodes->task.targets.columns;
    shape.columns = columns;
    shape.learned = inputs.learned();
    return bound_gnn_memory(options, shape, encode.factories());
}

GNEISS_INLINE train_loop_options loop_of_gnn(const gnn_options& options, const gnn_memory& bound) {
    const std::uint64_t encoder = bound.encoders(options.encoder_memory).bytes;
    const train_loop_options loop{.pipeline = options.pipeline,
        .batches_in_flight = options.batches_in_flight,
        .most_batch_bytes = options.batch_memory != 0 ? options.batch_memory : bound.batch.bytes(),
        .compute_bytes = encoder < bound.encoder ? encoder : 0,
        .spare_bytes = bound.encoder - encoder,
        .replicas = options.replicas.count,
        .replica = options.replicas.only,
        .on_rows = options.on_rows};
    return loop.charging(bound.batch, options.row_memory, options.sample_memory);
}

GNEISS_INLINE batch_profile profile_gnn(const gnn_options& options, const gnn_task& task, const cpu_encoder& encode,
    graph_buffer& graph, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop) {
    // Batches of a state have equal sizes, so those of a state with few training nodes may be half as large as
    // another's.
    std::uint32_t chosen = 0;
    const auto choose = [&](const node_task::nodes_of_state& nodes) {
        std::uint64_t largest = 0;
        for (std::uint32_t s = 0; s < states.size() && largest < options.batch; ++s) {
            std::vector<node_id> trained;
            nodes(s, trained);
            if (trained.empty()) continue;
            const std::uint64_t batch =
                ceil_div<std::uint64_t>(trained.size(), ceil_div<std::uint64_t>(trained.size(), options.batch));
            if (batch > largest) chosen = s;
            largest = std::max(largest, batch);
        }
    };
    gnn_task of_chosen = task;
    std::visit(
        [&](auto& of) {
            if constexpr (requires { of.nodes; }) {
                choose(of.nodes);
                of.nodes = [nodes = of.nodes, chosen](
                               std::uint32_t /*state*/, std::vector<node_id>& out) { nodes(chosen, out); };
            }
        },
        of_chosen);
    const epoch_plan first{states.at(chosen)};
    buffered_topology topology =
        detail::topology_of(options, graph, static_cast<std::uint32_t>(first[0].resident.size()));
    const auto sampler = [&] { return detail::sampler_of_options(options); };
    const auto memory_of = [&](const training_batch& b) {
        return encode.memory_of(b.layers, b.nodes.size(), !b.coverage.empty());
    };
    const auto draw = [&](auto&& of_task) {
        sampled_batches batches(of_task, topology, sampler, executor);
        return profile_batches(batches, {.states = first}, count, memory_of, stop);
    };
    if (const auto* links = std::get_if<predicted_links>(&of_chosen))
        return draw(detail::link_task_of(options, *links, graph));
    return draw(detail::node_task_of({options.batch, options.seed}, of_chosen, encode.outputs(), graph.store().rows()));
}

} // namespace gneiss
