// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/sampling/batch_sampler.hpp>
#include <gneiss/sampling/link_batches.hpp>
#include <gneiss/sampling/node_batches.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/graph_compute.hpp>

namespace gneiss {

struct graph_training_options {
    std::uint64_t batch = 1000; ///< edges, or nodes, of a batch
    batch_scope batch_from = batch_scope::state;
    negative_options negatives{};
    neighbor_options neighbors{}; ///< a hop for each layer that takes one
    sampler_kind sampler = sampler_kind::dense;
    bool exclude_target_edges = false; ///< link task: neighbors are not reached over the edges that the batch predicts
    pipeline_options pipeline{};
    std::size_t batches_in_flight = 0; ///< 0: as many as the stages can use, at most staleness + 2
    std::uint32_t resident_partitions = 0; ///< of a state at most, to bound memory by; 0: all
    std::uint64_t batch_memory = 0;    ///< what a batch may take, more is an error [bytes]; 0: `graph_training::batch_bytes`
    std::uint64_t seed = 0;
    /// Told whose rows a batch takes, batch by batch in order, on the thread that gathers them: for profiles. Keep it short.
    std::function<void(std::span<const node_id>)> on_rows{};
};

/// Where the rows that go into the first layer and the graph come from. At least one of rows and features is there; dense
/// columns are the learned ones, then the features.
struct graph_inputs {
    partition_buffer* rows = nullptr;   ///< learned, stepped by the training
    feature_buffer* features = nullptr; ///< fixed
    graph_buffer& graph;

    [[nodiscard]] std::size_t learned() const noexcept { return rows == nullptr ? 0 : rows->dim(); }
    /// What an encoder is made for.
    [[nodiscard]] input_columns columns() const noexcept {
        input_columns sum{.dense = learned(), .sparse = 0};
        if (features != nullptr)
            (features->store().sparse() ? sum.sparse : sum.dense) += static_cast<std::size_t>(features->store().columns());
        return sum;
    }
};

/// Predict edges: a decoder compares the encoder's rows.
struct link_task {
    any_link_model& model;
    embedding_table& relations;
    edge_buffer& edges;
};

/// Predict classes: the encoder's outputs are their scores.
struct node_task {
    std::span<const class_id> labels; ///< of all nodes
    /// Appends the nodes that train in state `state` of the epoch's plan: resident ones, each in one state. Called on the
    /// driving thread.
    std::function<void(std::uint32_t state, std::vector<node_id>& out)> nodes;
};

using graph_task = std::variant<link_task, node_task>;

/// What the batches of one state share.
struct graph_state {
    std::shared_ptr<const resident_graph> graph;
    std::shared_ptr<const resident_features> features; ///< or null
    std::optional<link_state> links;                   ///< link task
    std::vector<edge_index> first_edge;                ///< hidden edges: number of each bucket's edge 0
    std::optional<node_batches> nodes;                 ///< node task

    [[nodiscard]] std::uint64_t size() const noexcept { return links ? links->size() : nodes->size(); }
};

/// A batch on its way through the stages.
struct graph_batch : driven_batch<graph_statistics, graph_state> {
    mini_batch_arena link_arena, sample_arena;
    std::optional<link_batch> links; ///< link task
    std::vector<class_id> labels;    ///< node task, by seed
    layer_stack layers;
    std::span<const node_id> nodes; ///< rows of the first layer's input, distinct
    std::shared_ptr<const resident_features> features; ///< until they are gathered, or null

    reusable_buffer<float> dense_memory, gradient_memory;
    matrix_view<float> dense;     ///< [nodes, dense columns]
    sparse_feature_rows sparse;   ///< [nodes], or empty
    matrix_view<float> gradients; ///< [nodes, dense columns], or empty: nothing is learned
    sparse_gradients relation_gradients;
};

/// Makes the sample of a batch: seeds, their neighborhood, and the layers' views. Scratch is kept: one per thread.
/// A pure function of (seed, key, state); the executor changes nothing.
class graph_sampler {
public:
    explicit graph_sampler(const graph_training_options& options)
        : hide_(options.exclude_target_edges), links_(options.negatives, options.seed), neighbors_(make(options)) {}

    /// \param labels  of all nodes, and how many classes there are: of the node task
    /// \param drawn_by  draws neighborhoods elsewhere, if it samples
    /// Throws errc::out_of_range for a label that is no class, naming the node; what samplers throw.
    void sample(graph_batch& b, std::span<const class_id> labels, std::size_t classes, executor_ref executor, graph_compute& drawn_by) {
        const graph_state& work = *b.work;
        if (work.links) {
            b.links = links_.sample(b.key, *work.links, b.link_arena);
            hide(work);
            draw(b, b.links->nodes, executor, drawn_by);
        } else {
            work.nodes->choose(b.key.number.index, seeds_, b.key.number.pass);
            labels_of(seeds_, labels, classes, b.labels);
            draw(b, seeds_, executor, drawn_by);
        }
    }

private:
    using any_sampler = std::variant<dense_sampler<>, neighbor_sampler<>>;
    [[nodiscard]] static any_sampler make(const graph_training_options& options) {
        if (options.sampler == sampler_kind::dense) return dense_sampler<>(options.neighbors, options.seed);
        return neighbor_sampler<>(options.neighbors, options.seed);
    }

    void hide(const graph_state& work) {
        excluded_.clear();
        if (!hide_) return;
        const auto at = links_.positions();
        for (std::size_t i = 0; i < at.size(); ++i) {
            const edge& e = links_.positives()[i];
            excluded_.push_back({e.source, e.destination, work.first_edge[at[i].bucket] + at[i].edge});
        }
    }

    void draw(graph_batch& b, std::span<const node_id> seeds, executor_ref executor, graph_compute& drawn_by) {
        if (drawn_by.samples()) {
            const drawn_nodes result = drawn_by.draw(b.key, b.slot, seeds);
            b.nodes = result.nodes;
            b.statistics.sampled_edges = result.edges;
            return;
        }
        std::visit(
            [&](auto& sampler) {
                const auto result = sampler.sample(b.key, *b.work->graph, seeds, executor, b.sample_arena, std::span<const excluded_edge<>>(excluded_));
                b.layers.assign(result, executor);
                b.statistics.sampled_edges = result.edges();
                if constexpr (requires { result.node_ids; }) b.nodes = result.node_ids;
                else b.nodes = result.nodes;
            },
            neighbors_);
    }

    bool hide_;
    link_sampler links_;
    any_sampler neighbors_;
    std::vector<node_id> seeds_;
    std::vector<excluded_edge<>> excluded_;
};

} // namespace gneiss
