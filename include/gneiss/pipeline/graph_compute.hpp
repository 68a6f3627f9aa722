#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/row_access.hpp>

namespace gneiss {

/// What a batch gave. Sums over batches are associative.
struct graph_statistics {
    double loss = 0;    ///< links: as in `link_statistics`; nodes: Σ −log p(label)
    double penalty = 0; ///< links: the decoder's regulariser
    std::uint64_t examples = 0;  ///< edges, or nodes with a label
    std::uint64_t questions = 0; ///< what the loss is a sum over: sides of edges, or nodes with a label
    std::uint64_t correct = 0;   ///< nodes
    std::uint64_t sampled_edges = 0, input_nodes = 0;

    [[nodiscard]] double mean_loss() const noexcept { return questions == 0 ? 0 : loss / static_cast<double>(questions); }
    [[nodiscard]] double accuracy() const noexcept {
        return examples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(examples);
    }
    void add(const classification_statistics& made) noexcept {
        loss += made.loss;
        correct += made.correct;
        examples += made.labelled;
        questions += made.labelled;
    }
    graph_statistics& operator+=(const graph_statistics& other) noexcept {
        loss += other.loss;
        penalty += other.penalty;
        examples += other.examples;
        questions += other.questions;
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

/// A batch of a graph network as its computation sees it, all in the memory of the host. What is empty is not there.
struct computed_batch {
    batch_key key{};
    std::uint64_t step = 0; ///< t ≥ 1 of optimisers
    std::size_t slot = 0;   ///< which of the batches in flight: a device keeps its copies by it
    const layer_stack& layers; ///< none where the computation draws them
    std::span<const node_id> nodes;     ///< rows of the first layer's input, distinct
    std::span<const class_id> labels;   ///< node task, by seed
    const link_batch* links = nullptr;  ///< link task
    input_rows<float> in{};             ///< [nodes]; columns of rows that are kept are not set
    matrix_view<float> gradients{};     ///< [nodes, dense columns], written; empty: nothing is learned there, or rows are kept
    row_gradients* relation_gradients = nullptr; ///< memory of the link task
    graph_statistics& statistics;       ///< added to
};

/// What was drawn of a batch that a device keeps.
struct drawn_nodes {
    std::span<const node_id> nodes; ///< rows of the first layer's input, until the batch is over
    std::uint64_t edges = 0;
};

/// What the compute stage of a trainer of graph networks does, on whichever device: the network forward, the task's loss,
/// the network backward, and a step of what every batch uses, dense weights and relations.
///
/// Meaning: between `begin` and `end` the parameters belong to this; before and after, the host's hold the truth. Batches
/// come in order. Where `transfers()`, `to_device` and `to_host` are pipeline stages of their own, each called by one thread,
/// for batch k + 1 while batch k is computed; the batch's memory stays until `to_host` has returned.
/// Errors: errc::not_finite for a loss that is no number, naming the batch; what a device throws.
class graph_compute {
public:
    graph_compute() = default;
    graph_compute(const graph_compute&) = delete;
    graph_compute& operator=(const graph_compute&) = delete;
    virtual ~graph_compute() = default;

    /// So many batches are in flight, their slots below that. Before the first, and whenever a trainer is made anew.
    virtual void prepare(std::size_t /*in_flight*/) {}
    /// Takes the parameters from the host. Optimisers as of the epoch.
    virtual void begin(const dense_optimizer& dense, const any_row_optimizer& rows) = 0;
    /// Gives them back. All batches were computed.
    virtual void end() {}

    /// Whether neighbourhoods are drawn here, too, in the graph of all nodes: then batches bring no layers.
    [[nodiscard]] virtual bool samples() const noexcept { return false; }
    /// Draws the neighbourhood of distinct seeds into a batch's slot. Different slots may be drawn by different threads.
    [[nodiscard]] virtual drawn_nodes draw(const batch_key& /*batch*/, std::size_t /*slot*/, std::span<const node_id> /*seeds*/) { return {}; }

    /// Whether rows of nodes live and step here while training: nobody else gathers or updates them, and batches bring none.
    [[nodiscard]] virtual bool keeps_rows() const noexcept { return false; }
    /// Takes all rows, value and state, before the first batch; gives them back when all batches were computed.
    virtual void take_rows(const resident_rows& /*from*/) {}
    virtual void give_rows(const resident_rows& /*to*/) {}

    /// Seconds that a device was at work for batches. Any thread may ask.
    [[nodiscard]] virtual double device_seconds() const noexcept { return 0; }

    [[nodiscard]] virtual bool transfers() const noexcept { return false; }
    virtual void to_device(const computed_batch& /*batch*/) {}
    virtual void compute(const computed_batch& batch) = 0;
    virtual void to_host(const computed_batch& /*batch*/) {}
};

} // namespace gneiss
