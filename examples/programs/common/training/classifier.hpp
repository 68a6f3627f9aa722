#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/embedding/concepts.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/train/gnn_trainer.hpp>

#include "common/training/gnn_options.hpp"
#include "common/training/plan.hpp"

namespace trainers {

using graph_encoder = gneiss::encoder<float, gneiss::eigen_backend>;

/// The layers that it was made of.
[[nodiscard]] std::vector<gneiss::layer_options> layers_of(const graph_encoder& encode);

/// A GNN for node classification on given features. All that is trained are the layers' weights.
class classifier {
public:
    /// Throws usage_error for layers whose last gives another width than the classes.
    classifier(const gnn_options& how, const gneiss::dataset& data);

    gneiss::dense_parameters<> weights;
    graph_encoder encode;

    /// Writes and reads a checkpoint's sections: values and the optimizer's state.
    void put(gneiss::checkpoint& to) const;
    void take(const gneiss::checkpoint& from);
};

/// What a trained network is applied to.
struct classifier_source {
    const gnn_options& how;
    classifier& net;
    const gneiss::dataset& data;
    const gneiss::node_features& features;
    gneiss::engine_factory engines;
    std::filesystem::path scratch; ///< directory for rows that memory does not hold
    const gneiss::tbb_executor& on;
    std::uint64_t memory;          ///< bytes for the work and its result
    std::stop_token stop;
};

/// Visits the scores [nodes, classes] of all nodes, ascending, some at a time: by all neighbors in the whole graph, layer by
/// layer out of core. Throws over_budget, errc::canceled, errc::corrupt, io_error.
void for_each_block(const classifier_source& from, const gneiss::embedding_block_visitor& visit);

/// The least memory of an evaluation by the whole graph: that of inference, and 8 MiB for what is done with its rows [bytes].
/// \param rows  the partitions it will have; an estimate where edges are to be bucketed anew for them
[[nodiscard]] std::uint64_t least_evaluation(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, gneiss::neighbor_direction direction, const gneiss::row_partitioning& rows);
/// The part of a plan for it, where `lent` bytes of other parts are its own meanwhile; a little in any case.
[[nodiscard]] std::uint64_t evaluation_part(std::uint64_t least, std::uint64_t lent);
/// Has the buffers give up what they hold until training goes on, and returns what an evaluation may take then: its part and what
/// the other parts give up [bytes]. Precondition: no batch is in flight.
[[nodiscard]] std::uint64_t enter_evaluation(const training_plan& plan, gneiss::gnn_trainer& training);
/// Whether an evaluation within `memory` bytes has all that it works on in memory: it reads features and edges once.
[[nodiscard]] bool evaluates_in_memory(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, gneiss::neighbor_direction direction, std::uint64_t memory);
/// The least of given features; 0 with --no-eval.
[[nodiscard]] std::uint64_t least_evaluation(const gnn_options& how, const classifier& net,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets);

} // namespace trainers
