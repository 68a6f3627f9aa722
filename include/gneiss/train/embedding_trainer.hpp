// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/tasks.hpp>

namespace gneiss {

/// Marius' slots: batches of edges, rows in a partition buffer (OSDI'21).
using link_batches = sampled_batches<link_task<>, no_topology, no_hops>;
/// `train_loop` with the slots of Marius.
using marius_loop = train_loop<link_batches, no_features, buffered_embeddings, cpu_embedding_backend<link_head>>;

/// Options of `embedding_trainer`.
struct embedding_trainer_options {
    std::uint64_t batch_edges = 1000;            ///< edges of a batch
    batch_scope batch_from = batch_scope::state; ///< batches end at buckets or at states
    negative_options negatives{};                ///< `filtered` masks negatives that are another true edge of the batch
    std::optional<any_negatives> own_negatives{}; ///< used in place of the library's; `negatives` bounds their lists
    step_place step_at = step_place::update;      ///< stage that steps the rows of nodes
    bool async_relations = false;                 ///< as `buffered_embeddings::options::relations`
    pipeline_options pipeline{};                  ///< options of the pipeline
    replica_options replicas{};                   ///< replicas of the parameters that every batch uses
    std::size_t batches_in_flight = 0;            ///< 0: the number that the stages can use, at most staleness + 2
    std::uint64_t row_memory = 0; ///< for rows of all batches, see `row_room` [bytes]; 0: enough for those in flight
    std::uint64_t state_nodes = 0, state_edges = 0; ///< most of a state, to bound memory; 0: all of the graph
    std::uint64_t seed = 0;                         ///< of the order of edges and the negatives
};

/// Parts of an `embedding_trainer`; everything held by reference outlives the training.
struct embedding_parts {
    any_link_model& model;          ///< decoder and loss
    any_row_optimizer optimizer;    ///< steps node rows and relations
    partition_buffer& rows;         ///< rows of nodes
    edge_buffer& edges;             ///< edges of the states
    embedding_table& relations;     ///< rows of relations
    any_backend* backend = nullptr; ///< computes batches in place of the CPU, with the same relations
    frozen_parts frozen{};          ///< nodes or relations that are not trained; `weights` is an error: there are none
};

/// Trains node embeddings and relations for link prediction through a partition buffer: `train_loop` with the slots of
/// Marius (OSDI'21, §3 and Algorithm 2).
///
///     embedding_trainer trainer({.batch_edges = 1000}, {model, adagrad{}, rows, edges, relations}, executor, budget);
///     for (std::uint64_t e = 0; e < 10; ++e) loss.push_back(trainer.run(plan, e).model.mean_loss());
///
/// Memory: in_flight · `bound_batch().sample` + `row_memory`, charged to the budget. Thread-safety: one driving thread.
///
/// From examples/07_observer.cpp:
/// \snippet 07_observer.cpp trainer
class embedding_trainer {
public:
    /// Precondition: executor and budget outlive this. Throws over_budget; errc::invalid_argument for parts that do not
    /// match.
    embedding_trainer(const embedding_trainer_options& options, const embedding_parts& parts, executor_ref executor,
        memory_budget& budget);
    ~embedding_trainer();

    /// Returns the number of batches in memory at once.
    [[nodiscard]] static std::size_t in_flight(const embedding_trainer_options& options) noexcept {
        return batches_in_flight(options.pipeline, options.batches_in_flight);
    }
    /// Returns upper bounds of a batch. `relation_floats`: values of all relations.
    [[nodiscard]] static batch_memory bound_batch(const embedding_trainer_options& options, const row_layout& layout,
        std::uint64_t nodes, std::uint64_t relation_floats) noexcept {
        const auto at_most = [](std::uint64_t limit, std::uint64_t value) {
            return limit == 0 ? value : std::min(limit, value);
        };
        const link_batch_bound most = bound_link_batch(with_chunks(options.negatives, options.batch_edges),
            at_most(options.state_edges, options.batch_edges), at_most(options.state_nodes, nodes));
        return {.sample = most.bytes + 8 * most.nodes +
                (options.async_relations ? relation_floats * sizeof(float) : 0) + 65536,
            .rows = most.nodes * row_bytes(options, layout)};
    }
    /// Returns the bytes of a node's rows in a batch.
    [[nodiscard]] static std::uint64_t row_bytes(
        const embedding_trainer_options& options, const row_layout& layout) noexcept {
        const std::uint64_t read = options.step_at == step_place::compute ? layout.floats() : layout.dim;
        return (read + layout.dim) * sizeof(float);
    }
    /// Draws the first `count` batches of the first state of `states`, epoch 0, as training would: for `row_memory`.
    /// Memory: the state's edges and a batch.
    [[nodiscard]] static batch_profile profile(const embedding_trainer_options& options, edge_buffer& edges,
        const row_partitioning& rows, const epoch_plan& states, std::uint64_t count, executor_ref executor,
        const std::stop_token& stop = {});

    /// Runs epoch `from.epoch` from batch `from.next` on, after `from.steps` steps: resumes. As `train_loop::run`; so
    /// `observer.again` is errc::invalid_argument, as is `observer.checkpoint_due` without `observer.checkpoint`.
    training_epoch run(const epoch_plan& states, const resume_position& from, const training_observer& observer = {},
        const std::stop_token& stop = {});
    /// Runs epoch `epoch` from batch `from` on, after the steps so far. Errors as for the other `run`.
    training_epoch run(const epoch_plan& states, std::uint64_t epoch, batch_number from = {},
        const training_observer& observer = {}, const std::stop_token& stop = {});
    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept { return loop_.steps(); }
    /// Sets the optimizer of rows and relations from the next epoch on: for schedules. Throws errc::invalid_argument
    /// for one with a different number of state floats.
    void set_optimizer(const any_row_optimizer& optimizer);
    [[nodiscard]] pipeline_statistics statistics() const { return loop_.statistics(); }
    /// Returns the staleness of rows (sampled); `statistics()` has that of batches.
    [[nodiscard]] staleness_histogram row_staleness() const { return embeddings_.row_staleness(); }

private:
    /// Returns the relations. Throws errc::invalid_argument for parts that do not match.
    [[nodiscard]] static embedding_table& checked(const embedding_parts& parts);
    [[nodiscard]] static link_task<any_negatives> make_task(
        const embedding_trainer_options& options, edge_buffer& edges, const row_partitioning& rows);
    [[nodiscard]] static any_batches make_batches(
        link_task<any_negatives>& task, no_topology& topology, executor_ref executor);

    void check_relations(const any_row_optimizer& optimizer) const {
        if (relations_.rows() != 0) check_state_floats(optimizer, relations_.layout(), "relations");
    }

    embedding_table& relations_;
    link_task<any_negatives> task_;
    no_topology topology_;
    any_batches batches_;
    any_features features_;
    buffered_embeddings embeddings_;
    any_embeddings any_embeddings_;
    any_backend backend_;
    any_train_loop loop_; // last: its threads use the rest
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/embedding_trainer.hpp>
#endif
