// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/train/graph_compute.hpp>
#include <gneiss/train/link_compute.hpp>

namespace gneiss {

using cpu_encoder = encoder<float, eigen_backend>;

/// What trains the weights of a classifier.
struct classifier_step {
    encoder<float, eigen_backend>& encode;
    dense_parameters<>& weights;
    const dense_optimizer& dense;
    std::uint64_t seed;

    /// One batch: forward, softmax cross-entropy, backward, a step of the weights.
    /// \param nodes      of the first layer's input, distinct
    /// \param gradients  [nodes, dense columns], or empty: nothing is learned there
    classification_statistics operator()(const batch_key& key, std::uint64_t step, const layer_stack& layers,
        std::span<const node_id> nodes, std::span<const class_id> labels, const input_rows<float>& in, matrix_view<float> gradients,
        executor_ref executor) const {
        const auto scores = encode.forward(weights, layers, in, {.training = dropout_key(seed, key), .sources = {.ids = nodes}}, executor);
        const layer_options& last = encode.options(encode.layers() - 1);
        matrix_view<float> gradient = scores; // in place, unless the way back through the last activation reads them
        std::vector<float> copied;
        if (last.then != activation::none && !last.residual) {
            for (std::size_t i = 0; i < scores.rows(); ++i) copied.insert(copied.end(), scores[i].begin(), scores[i].end());
            gradient = {copied.data(), scores.rows(), scores.columns()};
        }
        const classification_statistics result = softmax_cross_entropy(gradient, labels, executor);
        encode.backward(weights, gradient, gradients, executor);
        dense.step(weights, step, 1, executor);
        return result;
    }
};

/// Computes batches of classified nodes on the CPU. What is passed outlives this.
class cpu_node_compute final : public graph_compute {
public:
    cpu_node_compute(cpu_encoder& encode, dense_parameters<>& weights, std::uint64_t seed, executor_ref executor)
        : encode_(encode), weights_(weights), seed_(seed), executor_(executor) {}

    void begin(const dense_optimizer& dense, const any_row_optimizer& /*rows*/) override { dense_ = dense; }
    void compute(const computed_batch& b) override {
        b.statistics.add(classifier_step{encode_, weights_, dense_, seed_}(b.key, b.step, b.layers, b.nodes, b.labels, b.in, b.gradients, executor_));
    }

private:
    cpu_encoder& encode_;
    dense_parameters<>& weights_;
    dense_optimizer dense_{sgd{}};
    std::uint64_t seed_;
    executor_ref executor_;
};

/// Computes batches of predicted edges on the CPU. What is passed outlives this.
class cpu_link_compute final : public graph_compute {
public:
    cpu_link_compute(cpu_encoder& encode, dense_parameters<>& weights, any_link_model& model, embedding_table& relations, std::uint64_t seed,
        executor_ref executor)
        : encode_(encode), weights_(weights), model_(model), relations_(relations), seed_(seed), executor_(executor) {}

    void begin(const dense_optimizer& dense, const any_row_optimizer& rows) override {
        dense_ = dense;
        rows_ = rows;
    }
    void compute(const computed_batch& b) override {
        const auto out = encode_.forward(weights_, b.layers, b.in, {.training = dropout_key(seed_, b.key), .sources = {.ids = b.nodes}}, executor_);
        const matrix_view<float> g(output_gradients_.at_least(out.rows() * out.columns()), out.rows(), out.columns());
        const link_statistics result = model_.forward_backward(*b.links, out, relations_.values(), g, *b.relation_gradients, executor_);
        b.statistics.loss = result.loss;
        b.statistics.penalty = result.penalty;
        b.statistics.examples = result.positives;
        b.statistics.query_count = result.query_count;
        encode_.backward(weights_, g, b.gradients, executor_);
        if (!b.relation_gradients->ids().empty())
            rows_.step_rows_at(relations_.table(), b.relation_gradients->ids(), b.relation_gradients->rows(), b.step, executor_);
        dense_.step(weights_, b.step, 1, executor_);
    }

private:
    cpu_encoder& encode_;
    dense_parameters<>& weights_;
    any_link_model& model_;
    embedding_table& relations_;
    dense_optimizer dense_{sgd{}};
    any_row_optimizer rows_{sgd{}};
    std::uint64_t seed_;
    executor_ref executor_;
    reusable_buffer<float> output_gradients_;
};

/// Computes batches of embeddings on the CPU. What is passed outlives this.
class cpu_embedding_compute final : public link_compute {
public:
    cpu_embedding_compute(any_link_model& model, embedding_table& relations, executor_ref executor) : model_(model), relations_(relations), executor_(executor) {}

    void begin(const any_row_optimizer& optimizer) override { optimizer_ = optimizer; }
    void compute(const computed_links& b) override {
        const bool own = b.relations.rows() == 0;
        b.statistics = model_.forward_backward(b.links, b.values, own ? relations_.values() : b.relations, b.gradients, b.relation_gradients, executor_);
        if (own && !b.relation_gradients.ids().empty())
            optimizer_.step_rows_at(relations_.table(), b.relation_gradients.ids(), b.relation_gradients.rows(), b.step, executor_);
    }

private:
    any_link_model& model_;
    embedding_table& relations_;
    any_row_optimizer optimizer_{sgd{}};
    executor_ref executor_;
};

} // namespace gneiss
