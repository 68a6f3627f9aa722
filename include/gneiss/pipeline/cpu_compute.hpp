#pragma once

#include <cstdint>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/model/parameter.hpp>
#include <gneiss/pipeline/graph_compute.hpp>
#include <gneiss/pipeline/node_batches.hpp>

namespace gneiss {

using cpu_encoder = encoder<float, eigen_backend>;

/// Computes batches of classified nodes on the CPU. What is passed outlives this.
class cpu_node_compute final : public graph_compute {
public:
    cpu_node_compute(cpu_encoder& encode, dense_parameters<>& weights, std::uint64_t seed, executor_ref on)
        : encode_(encode), weights_(weights), seed_(seed), on_(on) {}

    void begin(const dense_optimizer& dense, const any_row_optimizer& /*rows*/) override { dense_ = dense; }
    void compute(const computed_batch& b) override {
        b.statistics.add(classifier_step{encode_, weights_, dense_, seed_}(b.key, b.step, b.layers, b.nodes, b.labels, b.in, b.gradients, on_));
    }

private:
    cpu_encoder& encode_;
    dense_parameters<>& weights_;
    dense_optimizer dense_{sgd{}};
    std::uint64_t seed_;
    executor_ref on_;
};

/// Computes batches of predicted edges on the CPU. What is passed outlives this.
class cpu_link_compute final : public graph_compute {
public:
    cpu_link_compute(cpu_encoder& encode, dense_parameters<>& weights, any_link_model& model, parameter& relations, std::uint64_t seed,
        executor_ref on)
        : encode_(encode), weights_(weights), model_(model), relations_(relations), seed_(seed), on_(on) {}

    void begin(const dense_optimizer& dense, const any_row_optimizer& rows) override {
        dense_ = dense;
        rows_ = rows;
    }
    void compute(const computed_batch& b) override {
        const auto out = encode_.forward(weights_, b.layers, b.in, {.training = dropout_key(seed_, b.key), .sources = {.ids = b.nodes}}, on_);
        const matrix_view<float> g(output_gradients_.at_least(out.rows() * out.columns()), out.rows(), out.columns());
        const link_statistics made = model_.forward_backward(*b.links, out, relations_.values(), g, *b.relation_gradients, on_);
        b.statistics.loss = made.loss;
        b.statistics.penalty = made.penalty;
        b.statistics.examples = made.positives;
        b.statistics.questions = made.questions;
        encode_.backward(weights_, g, b.gradients, on_);
        if (!b.relation_gradients->ids().empty())
            rows_.step_rows_at(relations_.table(), b.relation_gradients->ids(), b.relation_gradients->rows(), b.step, on_);
        dense_.step(weights_, b.step, 1, on_);
    }

private:
    cpu_encoder& encode_;
    dense_parameters<>& weights_;
    any_link_model& model_;
    parameter& relations_;
    dense_optimizer dense_{sgd{}};
    any_row_optimizer rows_{sgd{}};
    std::uint64_t seed_;
    executor_ref on_;
    growing_buffer<float> output_gradients_;
};

} // namespace gneiss
