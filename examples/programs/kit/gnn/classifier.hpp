// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/inference/layerwise_plan.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/layer_schedule.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/embedding/concepts.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/train/trainer.hpp>

#include "kit/cli/machine.hpp"
#include "kit/gnn/gnn_options.hpp"
#include "kit/run/plan.hpp"

namespace trainers {

using graph_encoder = gneiss::encoder<float, gneiss::eigen_backend>;

/// Returns the options of the encoder's layers.
[[nodiscard]] std::vector<gneiss::layer_options> layers_of(const graph_encoder& encode);

/// A GNN for node classification on given features, or learned rows of nodes, or both. The layers' weights are trained,
/// and the rows.
class classifier {
public:
    /// \param columns   of learned rows of nodes, which `add_rows` makes; 0: none
    /// \param features  the dataset's are inputs
    /// Throws usage_error if the last layer's width is not the number of classes.
    classifier(const gnn_options& how, const gneiss::dataset& data, std::size_t columns = 0, bool features = true);
    virtual ~classifier() = default;

    gneiss::dense_parameters<> weights;
    graph_encoder encode;
    std::size_t learned = 0;      ///< columns of learned rows, in front of the features
    gneiss::embedding_table rows; ///< learned rows of all nodes, with the state of their optimizer; may be empty
    std::optional<bool>
        streams{}; ///< choice of the last inference that exceeded memory, so that the next need not count

    /// Drops the layers after the first ones, so that outputs are those of a hidden layer. The rest of the network is
    /// not trained after it. \param layers  1 … encode.layers()
    void keep_first(std::size_t layers);
    /// Makes the learned rows, of zeros, if the network has some.
    void add_rows(const gnn_options& how, std::uint64_t nodes);
    /// Draws the learned rows, if there are some.
    void initialize_rows(const gnn_options& how, const gneiss::tbb_executor& executor);
    /// Sets the orders of products of the layers. Throws errc::invalid_argument for another number of layers.
    void schedule(const gneiss::layer_schedule& products);
    /// Returns the memory of weights with gradients and state.
    [[nodiscard]] virtual gneiss::memory_need need() const { return {"weights", weights.size_bytes() + 4096}; }
    /// Returns the memory of learned rows, and of a copy while a checkpoint is written or read.
    [[nodiscard]] static gneiss::memory_need rows_need(
        const gnn_options& how, std::uint64_t nodes, std::size_t columns);
    /// Writes and reads a checkpoint's sections: values and optimizer states.
    virtual void put(gneiss::checkpoint& to) const;
    virtual void take(const gneiss::checkpoint& from);

protected:
    /// \param outputs     width of the last layer, unless the flags set another; `exact`: that is an error
    /// \param most_bytes  bound of weights and gradients; 0: none
    classifier(const gnn_options& how, std::size_t outputs, const gneiss::input_columns& in, bool exact,
        std::uint64_t most_bytes = 0);
};

/// Returns the columns of a dataset's features, and of learned rows in front of them; without `features`, of learned
/// rows alone.
[[nodiscard]] gneiss::input_columns input_of(
    const gneiss::dataset& data, std::size_t learned = 0, bool features = true);

/// Returns the input of a network's first layer: features, if there are some, after its learned rows.
/// \param engines  of readers; none for a plan
[[nodiscard]] gneiss::layerwise_input inputs_of(const classifier& net, const gneiss::node_features& features,
    const gneiss::row_partitioning& partitioning, const gneiss::engine_factory& engines = {});

/// Input of an evaluation of a trained network.
struct classifier_source {
    const gnn_options& how;
    classifier& net;
    const gneiss::dataset& data;
    const gneiss::node_features& features;
    gneiss::engine_factory engines;
    std::filesystem::path scratch; ///< directory for rows that exceed memory
    const gneiss::tbb_executor& on;
    std::uint64_t memory; ///< bytes for the work and its result
    std::stop_token stop;
};

/// Outputs of a network for all nodes.
struct network_outputs {
    std::unique_ptr<gneiss::memory_budget> budget; ///< holds the charge of the rows
    gneiss::layerwise_result result;

    [[nodiscard]] auto& rows() const { return *result.rows; }
    [[nodiscard]] std::uint64_t bytes() const { return budget->used(); } ///< size of the rows
};

/// Computes the outputs of all nodes: layer-wise out-of-core inference with all neighbors of the whole graph. Throws
/// over_budget, errc::canceled, errc::corrupt, io_error.
[[nodiscard]] network_outputs infer(const classifier_source& from);
/// Visits these outputs, the scores [nodes, classes], ascending, in blocks.
void for_each_block(const classifier_source& from, const gneiss::embedding_block_visitor& visit);

/// Returns the options of inference over the whole graph: direction and type of hidden rows by the flags. A plan needs
/// no more.
[[nodiscard]] gneiss::layerwise_options inference_options(const gnn_options& how, gneiss::engine_factory engines = {},
    std::filesystem::path scratch = ".", std::optional<bool> streamed = {});
/// Returns the least memory of a full-graph evaluation: that of inference, and 8 MiB for processing its rows [bytes].
/// \param rows  the partitions it will have; an estimate if edges are to be re-bucketed for them
[[nodiscard]] std::uint64_t least_evaluation(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options,
    const gneiss::row_partitioning& rows);
/// Returns the disk space of a full-graph evaluation in `memory` bytes: the rows of a layer and of the next; 0 if they
/// stay in memory. A run that streams may take more, if the disk has it.
/// \param rows  as for `least_evaluation`; if they are not the buckets' own, the evaluation is assumed to exceed memory
[[nodiscard]] std::uint64_t evaluation_files(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options, const gneiss::row_partitioning& rows,
    std::uint64_t memory);
/// Returns the evaluation's part of a plan, given `freed` bytes that other parts free meanwhile; always at least a
/// little.
[[nodiscard]] std::uint64_t evaluation_part(std::uint64_t least, std::uint64_t freed);
/// Frees batches until training continues, and the buffers unless the evaluation runs beside them. Returns the memory
/// of an evaluation [bytes]. Precondition: no batch is in flight.
template <class Loop>
[[nodiscard]] std::uint64_t enter_evaluation(const training_plan& plan, gneiss::trainer<Loop>& training, bool beside) {
    training.enter(beside ? gneiss::phase::between_epochs : gneiss::phase::evaluate);
    programs::trim_memory();
    return plan.evaluation_bytes + (beside ? 0 : plan.borrowable_bytes());
}
/// True if an evaluation within `memory` bytes fits in memory: it then reads features and edges once.
[[nodiscard]] bool evaluates_in_memory(const graph_encoder& encode, const gneiss::layerwise_input& input,
    const gneiss::bucket_store& buckets, const gneiss::layerwise_options& options, std::uint64_t memory);
/// Returns the least memory for the given features; 0 with --no-eval.
[[nodiscard]] std::uint64_t least_evaluation(const gnn_options& how, const classifier& net,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets);
/// Returns the disk space for the given features; 0 with --no-eval.
[[nodiscard]] std::uint64_t evaluation_files(const gnn_options& how, const classifier& net,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets, std::uint64_t memory);

} // namespace trainers
