// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/inspected_batches.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/tasks.hpp>

namespace gneiss {

/// Batches of a task in a graph in any store.
template <class Task>
using ginex_batches = sampled_batches<Task, no_topology, any_sampler>;
/// Ginex' slots (VLDB'22): batches from superbatches, features through a cache that change sets control.
template <class Task = node_task, class Head = classification_head>
using ginex_loop =
    train_loop<inspected_batches<ginex_batches<Task>>, cached_features, no_embeddings, cpu_encoder_backend<Head>>;

/// Input features: rows of a source, or all of them in memory, dense or sparse.
using feature_input = std::variant<feature_rows, std::shared_ptr<const resident_features>>;

/// Options of `superbatch_trainer`.
struct superbatch_trainer_options {
    std::uint64_t batch = 1000; ///< nodes
    std::uint64_t seed = 0;
    std::size_t rows_in_flight = 2; ///< batches with rows in memory: the one being computed, and those gathered ahead
    std::size_t sample_workers = 1; ///< for `conventional`
    /// nodes of a sample to reserve room for, `rows_in_flight` times; a larger one may run alone; 0: any number
    std::uint64_t batch_nodes = 0;
    std::uint64_t encoder_memory = 0; ///< of the encoder for a batch [bytes]; one of more runs alone; 0: no bound
    std::uint64_t spare_memory = 0;   ///< in addition, for a batch that runs alone [bytes]; more is an error
    trace_recorder* trace = nullptr;  ///< as `pipeline_options::trace`
    /// `cache_capacity` is set to the cache's if change sets control it; `trace` to this one
    superbatch_options superbatches{};
};

/// Parts of a `superbatch_trainer`; everything held by reference outlives the training.
struct superbatch_parts {
    any_sampler sampler;                 ///< samples the whole graph, made with the options' seed
    feature_input features;              ///< features of the nodes
    std::span<const class_id> labels;    ///< one per node
    std::vector<float> class_weights{};  ///< as in `classified_nodes`
    std::vector<node_id> training_nodes; ///< distinct
    cpu_encoder& encode;                 ///< the GNN
    dense_parameters<>& weights;         ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;           ///< steps the weights
    any_backend* backend = nullptr;      ///< computes batches in place of the CPU, with the same parameters
    std::function<void()> before_sampling{}, before_gathering{}; ///< `alternate`: caches take turns in memory
    std::optional<target_task> targets{}; ///< instead of labels; only without a backend of your own
    /// samples superbatches in place of `sampler`, on the same graph with its options
    superbatch_sampler* ahead = nullptr;
};

/// Busy seconds of each stage. `sample` and `change_set` are the inspector's; `switching` is the cost of turns:
/// loading, filling and releasing caches.
struct superbatch_times {
    /// Time of each stage.
    double sample = 0, change_set = 0, switching = 0, load = 0, gather = 0, update = 0, compute = 0, wait = 0;
};

/// Trains a GNN for node classification, with graph and features in any store: `train_loop` with the slots of Ginex
/// (VLDB'22).
///
///     constexpr std::uint64_t epochs = 10;
///     const neighbor_options hops{.fanout = parse_fanout("10,5")};
///     any_sampler sampler = make_sampler(graph, sampler_kind::neighbor, hops, seed); // of a disk_csc
///     superbatch_trainer training({.seed = seed, .superbatches = {.directory = "run", .epochs = epochs}},
///         {.sampler = sampler, .features = feature_rows{.source = rows, .cache = &cache, .columns = 128},
///             .labels = labels, .training_nodes = nodes, .encode = encoder, .weights = weights,
///             .optimizer = optimizer}, executor);
///     for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) loss.push_back(training.run(epoch).model.mean_loss());
///
/// Memory: rows of `rows_in_flight` batches, samples of `in_flight`, and the memory of samplers and encoder; the caller
/// charges it, as it knows the sizes from a profile.
/// Thread-safety: one driving thread. Source: Ginex, sections 3.1 and 3.3, Figures 7 to 9.
///
/// From examples/21_own_sampler.cpp:
/// \snippet 21_own_sampler.cpp trainer
class superbatch_trainer {
public:
    /// Throws errc::invalid_argument for parts that do not fit together, and for superbatches without a directory.
    superbatch_trainer(const superbatch_trainer_options& options, superbatch_parts parts, executor_ref executor);
    ~superbatch_trainer();

    /// Returns the number of batches in memory at once: those with rows, and one for each thread that samples or loads.
    [[nodiscard]] static std::size_t in_flight(const superbatch_trainer_options& o) noexcept {
        return std::max<std::size_t>(o.rows_in_flight, 1) + workers(o);
    }

    /// Runs epoch `from.epoch` from batch `from.next` on, after `from.steps` steps, as `train_loop::run`: resumes.
    training_epoch run(
        const resume_position& from, const training_observer& observer = {}, const std::stop_token& stop = {});
    /// Runs epoch `epoch` from batch `from` on, after the steps so far, as `train_loop::run`.
    training_epoch run(std::uint64_t epoch, batch_number from = {}, const training_observer& observer = {},
        const std::stop_token& stop = {});
    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept { return loop_.steps(); }
    /// Sets the optimizer from the next epoch on: for schedules. It must have the same number of state floats.
    void set_optimizer(const dense_optimizer& optimizer);

    [[nodiscard]] pipeline_statistics statistics() const { return loop_.statistics(); }
    /// Returns statistics of the inspector.
    [[nodiscard]] superbatch_statistics inspected() const { return batches_.inspected(); }
    /// Returns times so far.
    [[nodiscard]] superbatch_times times() const;

private:
    [[nodiscard]] static bool superbatches(const superbatch_trainer_options& o) noexcept {
        return o.superbatches.schedule != superbatch_schedule::conventional;
    }
    [[nodiscard]] static std::size_t workers(const superbatch_trainer_options& o) noexcept {
        return superbatches(o) ? 1 : std::max<std::size_t>(o.sample_workers, 1);
    }

    [[nodiscard]] static node_task make_task(const superbatch_trainer_options& options, superbatch_parts& parts);
    [[nodiscard]] static superbatch_options inspection_options(
        const superbatch_trainer_options& options, const superbatch_parts& parts);
    [[nodiscard]] any_features make_features(
        const superbatch_trainer_options& options, const superbatch_parts& parts, executor_ref executor);
    [[nodiscard]] static any_backend make_backend(
        const superbatch_trainer_options& options, const superbatch_parts& parts, executor_ref executor);

    memory_budget no_budget_; // the caller charges
    node_task task_;
    no_topology topology_; // the sampler has the graph
    ginex_batches<node_task> sampled_;
    inspected_batches<ginex_batches<node_task>> batches_;
    std::unique_ptr<cached_features> cached_;
    any_features features_;
    any_embeddings embeddings_;
    any_backend backend_;
    any_batches any_batches_;
    any_train_loop loop_; // last: its threads use the rest
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/superbatch_trainer.hpp>
#endif
