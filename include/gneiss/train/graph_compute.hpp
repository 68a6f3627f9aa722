// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/link_batch.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/train/batch_compute.hpp>

namespace gneiss {

/// What a batch gave. Sums over batches are associative.
struct graph_statistics {
    double loss = 0;    ///< links: as in `link_statistics`; nodes: Σ −log p(label)
    double penalty = 0; ///< links: as in `link_statistics`
    std::uint64_t examples = 0;  ///< edges, or nodes with a label
    std::uint64_t query_count = 0; ///< what the loss is a sum over: sides of edges, or nodes with a label
    std::uint64_t correct = 0;   ///< nodes
    std::uint64_t sampled_edges = 0, input_nodes = 0;

    [[nodiscard]] double mean_loss() const noexcept { return query_count == 0 ? 0 : loss / static_cast<double>(query_count); }
    [[nodiscard]] double accuracy() const noexcept {
        return examples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(examples);
    }
    void add(const classification_statistics& result) noexcept {
        loss += result.loss;
        correct += result.correct;
        examples += result.labeled;
        query_count += result.labeled;
    }
    graph_statistics& operator+=(const graph_statistics& other) noexcept {
        loss += other.loss;
        penalty += other.penalty;
        examples += other.examples;
        query_count += other.query_count;
        correct += other.correct;
        sampled_edges += other.sampled_edges;
        input_nodes += other.input_nodes;
        return *this;
    }
};

/// The key of a batch's dropout masks; layers add to it.
[[nodiscard]] inline random_key dropout_key(std::uint64_t seed, const batch_key& batch) noexcept {
    return random_key{seed, random_domain::dropout}.with(batch.epoch).with(batch.number.state).with(batch.number.pass)
        .with(batch.number.index);
}

/// A batch of a GNN as its computation sees it, all in the memory of the host. What is empty is not there.
struct computed_batch {
    batch_key key{};
    std::uint64_t step = 0; ///< t ≥ 1 of optimizers
    std::size_t slot = 0;   ///< which of the batches in flight: a device keeps its copies by it
    const layer_stack& layers; ///< none where the computation draws them
    std::span<const node_id> nodes;     ///< rows of the first layer's input, distinct
    std::span<const class_id> labels;   ///< node task, by seed
    const link_batch* links = nullptr;  ///< link task
    input_rows<float> in{};             ///< [nodes]; columns of rows that are kept are not set
    matrix_view<float> gradients{};     ///< [nodes, dense columns], written; empty: nothing is learned there, or rows are kept
    sparse_gradients* relation_gradients = nullptr; ///< memory of the link task
    graph_statistics& statistics;       ///< added to
};

/// What was drawn of a batch that a device keeps.
struct drawn_nodes {
    std::span<const node_id> nodes; ///< rows of the first layer's input, until the batch is over
    std::uint64_t edges = 0;
};

/// What the compute stage of a trainer of GNNs does, on whichever device: the network forward, the task's loss,
/// the network backward, and a step of what every batch uses, dense weights and relations.
class graph_compute : public batch_compute<computed_batch> {
public:
    /// Takes the parameters from the host. Optimizers as of the epoch.
    virtual void begin(const dense_optimizer& dense, const any_row_optimizer& rows) = 0;

    /// Whether neighborhoods are drawn here, too, in the graph of all nodes: then batches bring no layers.
    [[nodiscard]] virtual bool samples() const noexcept { return false; }
    /// Draws the neighborhood of distinct seeds into a batch's slot. Different slots may be drawn by different threads.
    [[nodiscard]] virtual drawn_nodes draw(const batch_key& /*batch*/, std::size_t /*slot*/, std::span<const node_id> /*seeds*/) { return {}; }
};

} // namespace gneiss
