// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/cuda/model/layer/graph_layer.cuh>

namespace gneiss::cuda {

/// `gneiss::linear_layer` on a device: out = x W + b per row, in one product.
template <storage T>
class linear_layer final : public graph_layer<T> {
public:
    /// Finds the arrays of the layer.
    linear_layer(const layer_setup& with, std::size_t width, bool bias)
        : weight_(with, true, "weight", width),
          bias_(with, bias, width) {}

    [[nodiscard]] bool needs_lists_by_source() const noexcept override { return false; }
    void forward(const layer_input<T>& in, activation then, const dropout_mask& dropout, rows_view<T> out) override {
        weight_.multiply(in, out, {.bias = bias_.value(in.weights), .then = then, .dropout = dropout});
    }
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) override {
        bias_.add_gradient(in, g);
        weight_.backward(in, g, grad_in, false);
    }

private:
    layer_weight<T> weight_;
    layer_bias<T> bias_;
};

} // namespace gneiss::cuda
