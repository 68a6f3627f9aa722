// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/gnn_trainer.hpp>
#include <gneiss/train/sampled_batches.hpp>

namespace gneiss {

GNEISS_INLINE gnn_trainer::gnn_trainer(
    const gnn_trainer_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget)
    : memory_(checked_memory(options, parts)),
      sources_{.topology = {parts.inputs.graph,
                   {.resident_partitions = most_resident(options, parts.inputs),
                       .whole_graph = options.device_sampler.has_value(),
                       .coverage = options.coverage_correction}}},
      features_(make_features(parts.inputs, executor)),
      embeddings_(parts.inputs.rows == nullptr ? any_embeddings(std::in_place_type<no_embeddings>)
                                               : make_embeddings(*parts.inputs.rows, parts.frozen.nodes, executor)),
      backend_(parts.backend != nullptr ? *parts.backend : make_backend(options, parts, executor)),
      batches_(make_batches(options, parts.task, parts.encode.outputs(), parts.inputs.graph, sources_,
          options.device_sampler.has_value(), executor,
          budget.charge(memory_.samplers(options.pipeline.sample_workers)))),
      encoder_charge_(budget.charge(memory_.encoders(options.encoder_memory))),
      gather_charge_(budget.charge(gather_need(options, parts.inputs, memory_))),
      loop_(train_loop_options{.pipeline = options.pipeline,
                .batches_in_flight = options.batches_in_flight,
                .most_batch_bytes = options.batch_memory != 0 ? options.batch_memory : memory_.batch.bytes(),
                .compute_bytes =
                    encoder_memory(options, memory_) < memory_.encoder ? encoder_memory(options, memory_) : 0,
                .spare_bytes = memory_.encoder - encoder_memory(options, memory_),
                .replicas = options.replicas.count,
                .replica = options.replicas.only,
                .on_rows = options.on_rows}
                .charging(memory_.batch, options.row_memory, options.sample_memory),
          batches_, features_, embeddings_, backend_, {parts.row_optimizer, parts.optimizer}, budget,
          options.replicas.make_reducer()) {
    if (const auto* links = std::get_if<predicted_links>(&parts.task)) relations_ = &links->relations;
    check_relations(parts.row_optimizer);
    parts.encode.bound_memory(encoder_memory(options, memory_));
}

GNEISS_INLINE gnn_trainer::~gnn_trainer() = default;

GNEISS_INLINE training_epoch gnn_trainer::run(const epoch_plan& states, const resume_position& from,
    const training_observer& observer, const std::stop_token& stop, const std::optional<buffer_state>& ahead) {
    return loop_.run(states, from, observer, stop, ahead ? &*ahead : nullptr);
}

GNEISS_INLINE training_epoch gnn_trainer::run(const epoch_plan& states, std::uint64_t epoch, batch_number from,
    const training_observer& observer, const std::stop_token& stop, const std::optional<buffer_state>& ahead) {
    return loop_.run(states, epoch, from, observer, stop, ahead ? &*ahead : nullptr);
}

GNEISS_INLINE void gnn_trainer::enter(phase next) { loop_.enter(next); }

GNEISS_INLINE void gnn_trainer::set_optimizers(const any_row_optimizer& rows, const dense_optimizer& dense) {
    check_relations(rows);
    loop_.set_optimizers({rows, dense});
}

GNEISS_INLINE memory_need gnn_trainer::gather_need(
    const gnn_trainer_options& options, const graph_inputs& inputs, const gnn_memory& bound) {
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

GNEISS_INLINE gnn_memory gnn_trainer::checked_memory(const gnn_trainer_options& options, const gnn_parts& parts) {
    const cpu_encoder& encode = parts.encode;
    const graph_inputs& inputs = parts.inputs;
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    const row_partitioning& partitioning = inputs.graph.store().rows();
    const input_columns columns = inputs.columns();
    need(inputs.features == nullptr || !inputs.stored_features, "features come from a buffer or row by row, not both");
    need(columns.total() != 0, "a GNN needs rows or features of nodes");
    validate(options.neighbors.fanout, encode.hops());
    need(encode.hops() != 0, "an encoder without a layer that reads neighbors needs no graph training");
    if (inputs.rows != nullptr)
        check_same_partitions(inputs.rows->file().partitioning(), "embeddings", partitioning, "the graph's lists");
    if (inputs.features != nullptr)
        check_same_partitions(inputs.features->store().rows(), "features", partitioning, "the graph's lists");
    need(!options.device_sampler || parts.backend != nullptr, "a device's sampler needs its backend");
    need(options.coverage_correction >= 0 && options.coverage_correction <= 1,
        "the coverage correction must be in [0, 1]");
    need(
        parts.backend == nullptr || options.coverage_correction == 0, "the coverage correction is computed on the CPU");
    if (const auto* nodes = std::get_if<classified_nodes>(&parts.task)) {
        need(nodes->labels.size() == partitioning.nodes, "every node needs a label, or unlabeled");
        need(nodes->class_weights.empty() || parts.backend == nullptr,
            "class weights are for the CPU's loss, not for another backend");
    }
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task)) {
        need(nodes->task.targets.columns == encode.outputs(),
            "the encoder gives another number of columns than there are targets");
        need(parts.backend == nullptr, "rows of targets are for the CPU's loss, not for another backend");
    }
    const auto* links = std::get_if<predicted_links>(&parts.task);
    need(links == nullptr || links->model.dim() == encode.outputs(),
        "the decoder's rows are not as wide as the encoder's outputs");
    need(parts.backend == nullptr || !parts.frozen.any(), "frozen parts are for the CPU: a device steps all of them");
    need(!parts.frozen.nodes || inputs.rows != nullptr, "frozen nodes are learned rows, and the inputs have none");
    need(!parts.frozen.relations || links != nullptr, "frozen relations are for link prediction");
    gnn_shape shape =
        state_sizes(inputs.graph.store(), inputs.features == nullptr ? nullptr : &inputs.features->store())
            .of(most_resident(options, inputs));
    shape.links = links != nullptr;
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task)) shape.targets = nodes->task.targets.columns;
    shape.columns = columns;
    shape.learned = inputs.learned();
    return bound_gnn_memory(options, shape, encode.factories());
}

GNEISS_INLINE any_features gnn_trainer::make_features(const graph_inputs& inputs, executor_ref executor) {
    if (inputs.stored_features)
        return any_features(
            std::in_place_type<cached_features>, *inputs.stored_features, cache_between_superbatches::kept, executor);
    if (inputs.features != nullptr)
        return any_features(std::in_place_type<buffered_features>, *inputs.features, executor);
    return any_features(std::in_place_type<no_features>);
}

GNEISS_INLINE any_embeddings gnn_trainer::make_embeddings(partition_buffer& rows, bool frozen, executor_ref executor) {
    buffered_ = std::make_unique<buffered_embeddings>(rows, buffered_embeddings::options{.frozen = frozen}, executor);
    return any_embeddings(std::ref(*buffered_));
}

GNEISS_INLINE any_backend gnn_trainer::make_backend(
    const gnn_trainer_options& options, const gnn_parts& parts, executor_ref executor) {
    cpu_encoder_backend_options frozen{.frozen = parts.frozen.weights};
    if (const auto* links = std::get_if<predicted_links>(&parts.task))
        return any_backend(std::in_place_type<cpu_encoder_backend<link_head>>, parts.encode, parts.weights,
            link_head(links->model, links->relations, {.frozen = parts.frozen.relations}), options.seed, executor,
            std::move(frozen));
    if (const auto* nodes = std::get_if<targeted_nodes>(&parts.task))
        return any_backend(std::in_place_type<cpu_encoder_backend<target_head>>, parts.encode, parts.weights,
            target_head{nodes->task.loss, nodes->task.positive_weights}, options.seed, executor, std::move(frozen));
    return any_backend(std::in_place_type<cpu_encoder_backend<classification_head>>, parts.encode, parts.weights,
        classification_head{std::get<classified_nodes>(parts.task).class_weights}, options.seed, executor,
        std::move(frozen));
}

GNEISS_INLINE batch_profile gnn_trainer::profile(const gnn_trainer_options& options, const gnn_task& task,
    const cpu_encoder& encode, graph_buffer& graph, const epoch_plan& states, std::uint64_t count,
    executor_ref executor, const std::stop_token& stop) {
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
    batch_sources from{.topology = {graph,
                           {.resident_partitions = static_cast<std::uint32_t>(first[0].resident.size()),
                               .coverage = options.coverage_correction}}};
    any_batches batches = make_batches(options, of_chosen, encode.outputs(), graph, from, false, executor, {});
    const auto memory_of = [&](const training_batch& b) {
        return encode.memory_of(b.layers, b.nodes.size(), !b.coverage.empty());
    };
    return profile_batches(batches, {.states = first}, count, memory_of, stop);
}

GNEISS_INLINE any_batches gnn_trainer::make_batches(const gnn_trainer_options& options, const gnn_task& task,
    std::size_t outputs, graph_buffer& graph, batch_sources& from, bool on_device, executor_ref executor,
    memory_charge samplers) {
    if (on_device && options.exclude_target_edges)
        throw error(
            errc::invalid_argument, "neighborhoods are drawn on a device, where edges of a batch are not hidden");
    if (on_device && options.own_sampler)
        throw error(errc::invalid_argument,
            "neighborhoods are drawn on a device by the library's samplers: a sampler of your own draws on the CPU");
    const row_partitioning& partitioning = graph.store().rows();
    const auto with = [&]<class Task>(std::optional<Task>& held, auto&&... arguments) {
        held.emplace(std::forward<decltype(arguments)>(arguments)...);
        const auto sampling = [&]<class Make>(Make make) {
            return any_batches(std::in_place_type<sampled_batches<Task, buffered_topology, std::invoke_result_t<Make>>>,
                *held, from.topology, std::move(make), executor, std::move(samplers));
        };
        if (on_device) return sampling([device = *options.device_sampler] { return device; });
        if (options.own_sampler) return sampling([own = *options.own_sampler] { return own; });
        const neighbor_options& hops = options.neighbors;
        const std::uint64_t seed = options.seed;
        if (options.sampler == sampler_kind::dense)
            return sampling([hops, seed] { return dense_sampler<>(hops, seed); });
        return sampling([hops, seed] { return neighbor_sampler<>(hops, seed); });
    };
    if (const auto* links = std::get_if<predicted_links>(&task))
        return with(from.links, link_task_options{options.batch, options.batch_from, options.negatives, options.seed},
            make_negatives(options.negatives, options.seed, options.own_negatives), links->edges, partitioning,
            options.exclude_target_edges ? &graph : nullptr);
    if (const auto* nodes = std::get_if<targeted_nodes>(&task))
        return with(from.nodes, node_task::options{options.batch, options.seed}, nodes->task.targets, partitioning,
            nodes->nodes);
    const auto& nodes = std::get<classified_nodes>(task);
    return with(
        from.nodes, node_task::options{options.batch, options.seed}, nodes.labels, outputs, partitioning, nodes.nodes);
}

} // namespace gneiss
