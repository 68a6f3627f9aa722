// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>

#include "kit/gnn/node_metrics.hpp"
#include "network.hpp"

namespace mariusgnn {

/// Input of inference by a trained network.
struct inference_source {
    const options& how;
    network& net;
    const gneiss::bucket_store& buckets;
    const gneiss::node_features* features; ///< null: none are used
    gneiss::partition_buffer* rows;        ///< null: none are trained. No epoch of it is running
    gneiss::engine_factory engines;
    std::filesystem::path scratch; ///< directory for rows that exceed memory
    const gneiss::tbb_executor& on;
    std::uint64_t memory; ///< bytes for the work and its result
    std::stop_token stop;
};

/// Returns the shape of the input, for plans, without a way to read it.
[[nodiscard]] gneiss::layerwise_input input_shape(const options& how, const gneiss::input_columns& columns,
    const gneiss::node_features* features, const gneiss::row_partitioning& partitioning);

/// Outputs of the network for all nodes.
struct inferred_rows {
    std::unique_ptr<gneiss::memory_budget> budget; ///< holds the charge of the rows
    std::unique_ptr<gneiss::scratch_rows> rows;
    gneiss::memory_charge charge;

    [[nodiscard]] std::uint64_t bytes() const { return budget->used(); } ///< size of the rows
};

/// Full-graph layer-wise inference. Throws over_budget, errc::canceled, errc::corrupt, io_error.
[[nodiscard]] inferred_rows infer_full(const inference_source& from);

/// Buffers for sampling in resident states.
struct resident_source {
    gneiss::graph_buffer& graph;
    gneiss::feature_buffer* features;
    gneiss::epoch_plan states;
};

/// Returns sampling options for evaluation: `--eval-fanout`, or all neighbors.
[[nodiscard]] gneiss::gnn_options resident_sampling(const options& how);

/// Infers nodes with the neighbors resident in the first state that holds a node's partition.
/// \param wanted  requested nodes of a partition, ascending
/// \param visit   called with some nodes at a time and their rows [ids, outputs]; partition by partition
void infer_resident(const inference_source& from, const resident_source& by,
    const std::function<std::span<const gneiss::node_id>(gneiss::partition_id)>& wanted,
    const std::function<void(std::span<const gneiss::node_id>, gneiss::matrix_view<const float>)>& visit);

/// Infers all nodes in the same way.
[[nodiscard]] inferred_rows infer_resident(const inference_source& from, const resident_source& by);

using trainers::node_metrics;

} // namespace mariusgnn
