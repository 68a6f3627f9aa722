// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <gneiss/order/batches.hpp>
#include <gneiss/sample/any_graph_sampler.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/negative.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_sampler.hpp>
#include <gneiss/train/training_pipeline.hpp>

namespace gneiss {

/// Options of MariusGNN and Hanoi.
struct gnn_options {
    std::uint64_t batch = 1000;                   ///< edges, or nodes, of a batch
    batch_scope batch_from = batch_scope::state;  ///< batches of edges end at buckets or at states
    negative_options negatives{};                 ///< negatives of a batch of edges
    std::optional<any_negatives> own_negatives{}; ///< used in place of the library's; `negatives` bounds their lists
    neighbor_options neighbors{};                 ///< one hop for each layer that takes one
    sampler_kind sampler = sampler_kind::dense;   ///< sampler of neighborhoods
    /// Draws neighborhoods in place of `sampler`, and excludes edges as `exclude_target_edges` says. `neighbors` bounds
    /// its samples: memory is planned for those of `sampler_kind::neighbor`, and a larger batch is an error
    /// (errc::over_budget).
    std::optional<any_graph_sampler> own_sampler{};
    /// Draws neighborhoods on a device in place of `sampler`, for the backend of that device.
    std::optional<any_device_sampler> device_sampler{};
    bool exclude_target_edges = false; ///< link task: samples exclude the edges that the batch predicts
    /// Share of the neighbors outside of the buffer that layers impute, see `missing_neighbors`; 0: none.
    double coverage_correction = 0;
    pipeline_options pipeline{};           ///< options of the pipeline
    replica_options replicas{};            ///< replicas of the parameters that every batch uses
    std::size_t batches_in_flight = 0;     ///< 0: the number that the stages can use, at most staleness + 2
    std::uint32_t resident_partitions = 0; ///< most of a state, to bound memory; 0: all
    /// maximum of a batch with its rows, more is an error [bytes]; 0: the upper bound, see `bound_gnn_memory`
    std::uint64_t batch_memory = 0;
    std::uint64_t row_memory = 0; ///< for rows of all batches, see `row_room` [bytes]; 0: enough for those in flight
    /// For the sample of a batch, and for the encoder [bytes]; a batch of more runs alone, in memory up to its bounds,
    /// which the caller keeps free. 0: the bounds.
    std::uint64_t sample_memory = 0, encoder_memory = 0;
    std::uint64_t seed = 0; ///< of the order of edges or nodes, negatives, samples and dropout
    /// As `train_loop_options::on_rows`.
    std::function<void(std::span<const node_id>)> on_rows{};

    /// Returns the number of batches in memory at once.
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return gneiss::batches_in_flight(pipeline, batches_in_flight);
    }
};

} // namespace gneiss
