// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/sample/graph_lists.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/device_cached_features.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/inspected_batches.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainer.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

namespace gneiss {

/// Ginex' batches of a task: sampled in a graph in any store, ahead or on demand.
template <class Task>
using ginex_batches = inspected_batches<sampled_batches<Task, no_topology, any_sampler>>;
/// Ginex' batches of a task that a device samples, on demand.
template <class Task>
using ginex_device_batches = sampled_batches<Task, graph_in_memory<graph_lists>, any_device_sampler>;
/// Ginex' slots (VLDB'22): `ginex_batches` of nodes or links; features in memory, or through a cache that change sets
/// control.
using ginex_loop = train_loop<any_batches, any_features, no_embeddings, any_backend, any_reducer>;

/// Options of Ginex.
struct ginex_options {
    std::uint64_t batch = 1000;                   ///< nodes, or edges
    negative_options negatives{};                 ///< negatives of a batch of edges
    std::optional<any_negatives> own_negatives{}; ///< used in place of the library's; `negatives` bounds their lists
    std::uint64_t seed = 0;                       ///< of the order of nodes or edges, negatives and dropout
    std::size_t rows_in_flight = 2; ///< batches with rows in memory: the one being computed, and those gathered ahead
    std::size_t sample_workers = 1; ///< for `conventional`
    /// nodes of a sample to reserve room for, `rows_in_flight` times; a larger one may run alone; 0: any number
    std::uint64_t batch_nodes = 0;
    std::uint64_t encoder_memory = 0; ///< of the encoder for a batch [bytes]; one of more runs alone; 0: no bound
    std::uint64_t spare_memory = 0;   ///< in addition, for a batch that runs alone [bytes]; more is an error
    trace_recorder* trace = nullptr;  ///< as `pipeline_options::trace`
    replica_options replicas{};       ///< replicas of the parameters that every batch uses
    /// `cache_capacity` is set to the cache's if change sets control it; `trace` to this one
    superbatch_options superbatches{};

    /// True if batches are sampled ahead.
    [[nodiscard]] bool samples_ahead() const noexcept {
        return superbatches.schedule != superbatch_schedule::conventional;
    }
    /// Returns the number of threads that sample or load.
    [[nodiscard]] std::size_t workers() const noexcept {
        return samples_ahead() ? 1 : std::max<std::size_t>(sample_workers, 1);
    }
    /// Returns the number of batches in memory at once: those with rows, and one for each thread that samples or loads.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return std::max<std::size_t>(rows_in_flight, 1) + workers();
    }
};

/// A device's sampler and the graph that it copies.
struct device_draws {
    any_device_sampler sampler; ///< of the device that computes
    graph_lists graph;          ///< of all nodes
};

/// Parts of Ginex; everything held by reference outlives the training.
struct ginex_parts {
    any_sampler sampler;                    ///< samples the whole graph, made with the options' seed
    feature_input features;                 ///< features of the nodes
    gnn_task task;                          ///< what to predict; edges are in one partition
    std::uint64_t nodes = 0;                ///< of the graph, if the task has no label or target for each
    cpu_encoder& encode;                    ///< the GNN
    dense_parameters<>& weights;            ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;              ///< steps the weights
    any_row_optimizer row_optimizer{sgd{}}; ///< steps relations
    any_backend* backend = nullptr;         ///< as `gnn_parts::backend`
    std::function<void()> before_sampling{}, before_gathering{}; ///< `alternate`: caches take turns in memory
    /// samples superbatches in place of `sampler`, on the same graph with its options
    superbatch_sampler* ahead = nullptr;
    /// samples on the device of `backend` in place of `sampler`, on demand, the same neighborhoods of the same graph
    std::optional<device_draws> on_device{};
    frozen_parts frozen{}; ///< as `gnn_parts::frozen`
};

/// The plan of an epoch whose state holds a whole graph of one partition.
[[nodiscard]] inline epoch_plan whole_graph() { return {{.resident = {0}, .edge_buckets = {{0, 0}}}}; }

/// Busy seconds of each stage. `sample` and `change_set` are the inspector's; `switching` is the cost of turns:
/// loading, filling and releasing caches.
struct superbatch_times {
    /// Time of each stage.
    double sample = 0, change_set = 0, switching = 0, load = 0, gather = 0, update = 0, compute = 0, wait = 0;
};

/// Trains a GNN with graph and features in any store (VLDB'22, sections 3.1 and 3.3, Figures 7 to 9). An epoch has one
/// state: `training.run(whole_graph(), epoch)`.
using ginex_trainer = trainer<ginex_loop>;

/// Makes Ginex.
///
///     constexpr std::uint64_t epochs = 10;
///     const neighbor_options hops{.fanout = parse_fanout("10,5")};
///     any_sampler sampler = make_sampler(graph, sampler_kind::neighbor, hops, seed); // of a disk_csc
///     ginex_trainer training = make_ginex({.seed = seed, .superbatches = {.directory = "run", .epochs = epochs}},
///         {.sampler = sampler, .features = feature_rows{.source = rows, .cache = &cache, .columns = 128},
///             .task = classified_nodes{labels, nodes_of_state}, .encode = encoder, .weights = weights,
///             .optimizer = optimizer}, executor);
///     for (std::uint64_t e = 0; e < epochs; ++e) loss.push_back(training.run(whole_graph(), e).model.mean_loss());
///
/// Memory: rows of `rows_in_flight` batches, samples of `in_flight`, and the memory of samplers and encoder; the caller
/// charges it, as it knows the sizes from a profile. Throws errc::invalid_argument for parts that do not fit together,
/// for superbatches without a directory, or of a device's samples.
///
/// From examples/21_own_sampler.cpp:
/// \snippet 21_own_sampler.cpp trainer
[[nodiscard]] ginex_trainer make_ginex(const ginex_options& options, const ginex_parts& parts, executor_ref executor);

/// Returns statistics of the inspector.
[[nodiscard]] superbatch_statistics inspected(const ginex_trainer& training);
/// Returns times so far.
[[nodiscard]] superbatch_times times_of(const ginex_trainer& training);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/trainers/detail/ginex.hpp>
#else
namespace gneiss {
extern template class trainer<ginex_loop>;
} // namespace gneiss
#endif
