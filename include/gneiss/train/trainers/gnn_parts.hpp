// SPDX-License-Identifier: Apache-2.0
// Parts of the trainers of a GNN on the graph of a state: MariusGNN and Hanoi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <variant>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/any_loss_head.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/tasks.hpp>
#include <gneiss/train/train_loop.hpp>

namespace gneiss {

/// Sources of the graph and of the first layer's input rows: learned rows, features, or both. Dense columns are the
/// learned ones, then the features.
struct graph_inputs {
    partition_buffer* rows = nullptr;   ///< learned; training steps them
    feature_buffer* features = nullptr; ///< fixed, of the resident partitions
    std::optional<feature_rows>
        stored_features{}; ///< in place of `features`: fixed, read row by row; both are an error
    std::optional<features_on_device> device_features{}; ///< in place of both: those of the backend's device
    graph_buffer& graph;                                 ///< graph of each state

    /// Returns the number of learned columns.
    [[nodiscard]] std::size_t learned() const noexcept { return rows == nullptr ? 0 : rows->dim(); }
    /// Returns the columns that an encoder takes.
    [[nodiscard]] input_columns columns() const noexcept {
        input_columns sum{.dense = learned(), .sparse = 0};
        if (features != nullptr)
            (features->store().sparse() ? sum.sparse : sum.dense) +=
                static_cast<std::size_t>(features->store().columns());
        if (stored_features) sum.dense += stored_features->columns;
        if (device_features) sum.dense += device_features->columns().dense;
        return sum;
    }
};

/// Link prediction: a decoder compares the encoder's outputs.
struct predicted_links {
    any_link_model& model;      ///< decoder and loss
    embedding_table& relations; ///< rows of relations
    edge_buffer& edges;         ///< edges of the states
};
/// Node classification: the encoder's outputs are class scores.
struct classified_nodes {
    std::span<const class_id> labels; ///< one per node; may be empty with `own_head`
    node_task::nodes_of_state nodes;  ///< appends the nodes that train in a state
    /// weights of the classes in the loss, as in `softmax_cross_entropy`; empty: all 1; only without a backend of your
    /// own
    std::vector<float> class_weights{};
    /// loss on the outputs in place of softmax cross-entropy; only without a backend of your own
    std::optional<any_loss_head> own_head{};
};
/// A node task with rows of targets. Only without a backend of your own.
struct targeted_nodes {
    target_task task;                ///< what to predict
    node_task::nodes_of_state nodes; ///< appends the nodes that train in a state
};
/// Task of a GNN.
using gnn_task = std::variant<predicted_links, classified_nodes, targeted_nodes>;

/// Parts of MariusGNN and Hanoi; everything held by reference outlives the training.
struct gnn_parts {
    gnn_task task;               ///< what to predict
    cpu_encoder& encode;         ///< made for inputs.columns(); its outputs are the decoder's rows, or class scores
    dense_parameters<>& weights; ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;   ///< steps the weights
    any_row_optimizer row_optimizer{sgd{}}; ///< steps learned rows and relations
    graph_inputs inputs;                    ///< where graph and rows come from
    any_backend* backend = nullptr;         ///< computes batches in place of the CPU, with the same parameters
    /// parts that are not trained; an error for those that there are none of: `nodes` without rows, `relations` of a
    /// node task
    frozen_parts frozen{};
};

/// Returns the CPU's backend for a task, as the trainers make it. What is passed by reference, and what the task refers
/// to, outlives it.
/// \param seed    of dropout
/// \param hook    as `cpu_encoder_backend_options::hook`
[[nodiscard]] any_backend cpu_backend_of(const gnn_task& task, cpu_encoder& encode, dense_parameters<>& weights,
    std::uint64_t seed, executor_ref executor, const frozen_parts& frozen = {},
    std::function<encoder_hook<float>(training_batch&)> hook = {});

/// Returns upper bounds of the memory of a batch and of the encoder. Throws errc::invalid_argument for parts that do
/// not match.
[[nodiscard]] gnn_memory bound_gnn_memory(const gnn_options& options, const gnn_parts& parts);

/// Returns the options of the loop of MariusGNN and Hanoi, whose `need` is what it charges for batches.
[[nodiscard]] train_loop_options loop_of_gnn(const gnn_options& options, const gnn_memory& bound);

/// Draws the first `count` batches of a state of `states`, epoch 0, as training on the CPU would: for `sample_memory`,
/// `row_memory` and `encoder_memory`. The state is the first of those with the largest batches, as far as the task
/// knows before it draws. Memory: the state's graph, a sampler and a batch.
[[nodiscard]] batch_profile profile_gnn(const gnn_options& options, const gnn_task& task, const cpu_encoder& encode,
    graph_buffer& graph, const epoch_plan& states, std::uint64_t count, executor_ref executor,
    const std::stop_token& stop = {});

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/gnn_parts.hpp>
#endif
