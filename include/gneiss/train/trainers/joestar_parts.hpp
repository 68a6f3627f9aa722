// SPDX-License-Identifier: Apache-2.0
// Options and parts of Joestar.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/sample/neighbor_options.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/histories.hpp>
#include <gneiss/train/history_keeper.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>
#include <gneiss/train/two_stage_batches.hpp>

namespace gneiss {

/// Nodes of the macro-batch of partitions.
enum class sampled_ahead : std::uint8_t {
    off,   ///< all nodes of the partitions, and their halo
    reach, ///< those within the hops of its training nodes
    exact  ///< those that its batches draw, with `second_stage::drawn`
};

/// Options of Joestar.
struct joestar_options {
    std::uint64_t batch = 1000;          ///< nodes of a batch
    std::uint64_t large_batch = 100'000; ///< most nodes of a large batch, at least `batch`
    neighbor_options second{};           ///< neighbors that batches draw from `second_stage::lists`
    /// of partitions; `first_stage` samples all neighbors of one hop, or of as many as batches; exact: what batches
    /// draw
    sampled_ahead ahead = sampled_ahead::off;
    macro_batch_options macro_batches{}; ///< `rows` 0: as many as two macro-batches of all nodes have
    std::uint64_t seed = 0;              ///< of the order of nodes, both stages' samples and dropout
    std::size_t rows_in_flight = 2;      ///< batches with rows in memory: the one computed, and those gathered ahead
    std::size_t sample_workers = 1;      ///< threads of the second stage
    std::uint64_t batch_nodes = 0;       ///< as `ginex_options::batch_nodes`
    std::uint64_t encoder_memory = 0;    ///< as `ginex_options::encoder_memory`
    std::uint64_t spare_memory = 0;      ///< as `ginex_options::spare_memory`
    trace_recorder* trace = nullptr;     ///< as `pipeline_options::trace`
    replica_options replicas{};          ///< replicas of the parameters

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return std::max<std::size_t>(rows_in_flight, 1) + std::max<std::size_t>(sample_workers, 1);
    }
};

/// Parts of Joestar; everything held by reference outlives the training.
struct joestar_parts {
    any_sampler first_stage;        ///< draws `neighbor_sample`s of macro-batches, in any graph
    feature_input features;         ///< features of the nodes, without a cache
    gnn_task task;                  ///< nodes; `nodes(0, out)` appends all that train
    std::uint64_t nodes = 0;        ///< of the graph, if the task has no label or target for each
    cpu_encoder& encode;            ///< the GNN
    dense_parameters<>& weights;    ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;      ///< steps the weights
    any_backend* backend = nullptr; ///< as `gnn_parts::backend`
    frozen_parts frozen{};          ///< as `gnn_parts::frozen`
    /// partitions of the nodes, within whose border `first_stage` samples; null: macro-batches are of large batches
    std::shared_ptr<macro_batch_border> border{};
    histories* past = nullptr; ///< with a border: rows of its halo, which batches on the CPU push and read
    history_keeper* past_on_device = nullptr; ///< the same on the device of `backend`, which reads them by itself
    /// draws the second stage on the device of `backend`, from the copies of `macro_batch_options::device`, with the
    /// fan-outs that it was made for; none: `joestar_options::second` draws on the host
    std::optional<any_device_sampler> second_on_device{};
};

} // namespace gneiss
