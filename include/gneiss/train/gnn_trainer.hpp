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

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/gnn_memory.hpp>
#include <gneiss/train/gnn_trainer_options.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/tasks.hpp>

namespace gneiss {

/// MariusGNN's slots (EuroSys'23): rows and graph of the resident partitions. Hanoi's are the same without learned
/// rows.
template <class Task, class Sampler, class Head, class Features = buffered_features,
    class Embeddings = buffered_embeddings>
using mariusgnn_loop =
    train_loop<sampled_batches<Task, buffered_topology, Sampler>, Features, Embeddings, cpu_encoder_backend<Head>>;
/// `train_loop` with the slots of Hanoi.
using hanoi_loop = mariusgnn_loop<node_task, neighbor_sampler<>, classification_head, buffered_features, no_embeddings>;

/// Sources of the graph and of the first layer's input rows: learned rows, features, or both. Dense columns are the
/// learned ones, then the features.
struct graph_inputs {
    partition_buffer* rows = nullptr;   ///< learned; training steps them
    feature_buffer* features = nullptr; ///< fixed, of the resident partitions
    std::optional<feature_rows>
        stored_features{}; ///< in place of `features`: fixed, read row by row; both are an error
    graph_buffer& graph;   ///< graph of each state

    /// Returns the number of learned columns.
    [[nodiscard]] std::size_t learned() const noexcept { return rows == nullptr ? 0 : rows->dim(); }
    /// Returns the columns that an encoder takes.
    [[nodiscard]] input_columns columns() const noexcept {
        input_columns sum{.dense = learned(), .sparse = 0};
        if (features != nullptr)
            (features->store().sparse() ? sum.sparse : sum.dense) +=
                static_cast<std::size_t>(features->store().columns());
        if (stored_features) sum.dense += stored_features->columns;
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
    std::span<const class_id> labels; ///< one per node
    node_task::nodes_of_state nodes;  ///< appends the nodes that train in a state
    /// weights of the classes in the loss, as in `softmax_cross_entropy`; empty: all 1; only without a backend of your
    /// own
    std::vector<float> class_weights{};
};
/// A node task with rows of targets. Only without a backend of your own.
struct targeted_nodes {
    target_task task;                ///< what to predict
    node_task::nodes_of_state nodes; ///< appends the nodes that train in a state
};
/// Task of a `gnn_trainer`.
using gnn_task = std::variant<predicted_links, classified_nodes, targeted_nodes>;

/// Parts of a `gnn_trainer`; everything held by reference outlives the training.
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

/// Trains a GNN on sampled neighborhoods, for link prediction or node classification, in memory or out of core:
/// `train_loop` with the slots of MariusGNN (EuroSys'23, sections 3 to 5) or Hanoi.
///
///     gnn_trainer trainer({.batch = 1000, .neighbors = hops},
///         {.task = classified_nodes{labels, nodes_of_state}, .encode = encode, .weights = weights,
///             .optimizer = dense_optimizer(adam{}), .inputs = {.features = &features, .graph = graphs}},
///         executor, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(trainer.run(plan, e).model.mean_loss());
///
/// A batch: the seeds, which are the distinct nodes of a link batch or some training nodes; a sample of their
/// neighborhood in the graph of the batch's state; the rows of all its nodes. The compute stage runs the encoder
/// forward, the task's loss and the encoder backward, and steps dense parameters and relations. The update stage steps
/// the sample's learned rows, with bounded staleness.
/// Memory: `in_flight` batches, a sampler per sampling thread and the encoder, bounded by `bound_gnn_memory` and
/// charged to the budget, with stored features also the largest batch's rows before they are decoded and its lists of
/// the cache, whose rows have their own charge. Thread-safety: one driving thread.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp trainer
class gnn_trainer {
public:
    /// Precondition: executor and budget outlive this. Throws over_budget; errc::invalid_argument for parts that do not
    /// match.
    gnn_trainer(
        const gnn_trainer_options& options, const gnn_parts& parts, executor_ref executor, memory_budget& budget);
    ~gnn_trainer();

    /// Returns the number of batches in memory at once.
    [[nodiscard]] static std::size_t in_flight(const gnn_trainer_options& options) noexcept {
        return batches_in_flight(options.pipeline, options.batches_in_flight);
    }
    /// Returns upper bounds of a batch.
    [[nodiscard]] const batch_memory& bound_batch() const noexcept { return memory_.batch; }
    /// Draws the first `count` batches of a state of `states`, epoch 0, as training on the CPU would: for
    /// `sample_memory`, `row_memory` and `encoder_memory`. The state is the first of those with the largest batches, as
    /// far as the task knows before it draws. Memory: the state's graph, a sampler and a batch.
    [[nodiscard]] static batch_profile profile(const gnn_trainer_options& options, const gnn_task& task,
        const cpu_encoder& encode, graph_buffer& graph, const epoch_plan& states, std::uint64_t count,
        executor_ref executor, const std::stop_token& stop = {});

    /// Runs epoch `from.epoch` from batch `from.next` on, after `from.steps` steps: resumes. As `train_loop::run`;
    /// `observer.again` is for node tasks.
    training_epoch run(const epoch_plan& states, const resume_position& from, const training_observer& observer = {},
        const std::stop_token& stop = {}, const std::optional<buffer_state>& ahead = {});
    /// Runs epoch `epoch` from batch `from` on, after the steps so far. Errors as for the other `run`.
    training_epoch run(const epoch_plan& states, std::uint64_t epoch, batch_number from = {},
        const training_observer& observer = {}, const std::stop_token& stop = {},
        const std::optional<buffer_state>& ahead = {});
    /// As `train_loop::enter`.
    void enter(phase next);
    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept { return loop_.steps(); }
    /// As `train_loop::set_optimizers`; also sets the optimizer of relations.
    void set_optimizers(const any_row_optimizer& rows, const dense_optimizer& dense);
    [[nodiscard]] pipeline_statistics statistics() const { return loop_.statistics(); }
    /// Returns the staleness of rows (sampled); `statistics()` has that of batches.
    [[nodiscard]] staleness_histogram row_staleness() const {
        return buffered_ == nullptr ? staleness_histogram{} : buffered_->row_staleness();
    }

private:
    void check_relations(const any_row_optimizer& rows) const {
        if (relations_ != nullptr && relations_->rows() != 0)
            check_state_floats(rows, relations_->layout(), "relations");
    }

    [[nodiscard]] static std::uint32_t most_resident(
        const gnn_trainer_options& options, const graph_inputs& inputs) noexcept {
        return options.resident_partitions != 0 ? options.resident_partitions : inputs.graph.store().rows().partitions;
    }

    /// Returns the memory of the encoder [bytes].
    [[nodiscard]] static std::uint64_t encoder_memory(
        const gnn_trainer_options& options, const gnn_memory& bound) noexcept {
        return bound.encoders(options.encoder_memory).bytes;
    }
    /// Returns the memory of the largest batch while its stored features are gathered, in addition to the rows.
    [[nodiscard]] static memory_need gather_need(
        const gnn_trainer_options& options, const graph_inputs& inputs, const gnn_memory& bound);
    /// Checks that the parts fit, then bounds their memory.
    [[nodiscard]] static gnn_memory checked_memory(const gnn_trainer_options& options, const gnn_parts& parts);

    [[nodiscard]] static any_features make_features(const graph_inputs& inputs, executor_ref executor);
    [[nodiscard]] any_embeddings make_embeddings(partition_buffer& rows, bool frozen, executor_ref executor);

    [[nodiscard]] static any_backend make_backend(
        const gnn_trainer_options& options, const gnn_parts& parts, executor_ref executor);

    /// The task and the graph of batches.
    struct batch_sources {
        buffered_topology topology;
        std::optional<link_task<any_negatives>> links{};
        std::optional<node_task> nodes{};
    };
    /// \param on_device  neighborhoods are drawn by `device_sampler`
    [[nodiscard]] static any_batches make_batches(const gnn_trainer_options& options, const gnn_task& task,
        std::size_t outputs, graph_buffer& graph, batch_sources& from, bool on_device, executor_ref executor,
        memory_charge samplers);

    gnn_memory memory_;
    const embedding_table* relations_ = nullptr;
    std::unique_ptr<buffered_embeddings> buffered_;
    batch_sources sources_;
    any_features features_;
    any_embeddings embeddings_;
    any_backend backend_;
    any_batches batches_;
    memory_charge encoder_charge_, gather_charge_;
    any_train_loop loop_; // last: its threads use the rest
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/gnn_trainer.hpp>
#endif
