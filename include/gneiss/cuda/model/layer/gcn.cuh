// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/model/layer/linear_aggregation.cuh>

namespace gneiss::cuda {

/// `gneiss::gcn_layer` on a device: out[t] = Σ over neighbors and t itself of weight · row, times W, plus b. Weights
/// are computed from list lengths during the walk.
template <storage T>
class gcn_layer final : public graph_layer<T> {
public:
    /// Finds the arrays and scratch of the layer.
    gcn_layer(const layer_setup& with, std::size_t width, const gcn_options& options)
        : linear_(with, "weight", width,
              options.normalize == gcn_normalization::row ? edge_weight::mean : edge_weight::symmetric, true,
              options.product),
          bias_(with, options.bias, width) {}

    [[nodiscard]] bool needs_lists_by_source() const noexcept override { return linear_.needs_lists_by_source(); }
    void forward(const layer_input<T>& in, activation then, const dropout_mask& dropout, rows_view<T> out) override {
        linear_.forward(in, out, {.bias = bias_.value(in.weights), .then = then, .dropout = dropout});
    }
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) override {
        bias_.add_gradient(in, g);
        linear_.backward(in, g, grad_in);
    }

private:
    linear_aggregation<T> linear_;
    layer_bias<T> bias_;
};

} // namespace gneiss::cuda
