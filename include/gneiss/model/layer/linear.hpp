// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <gneiss/model/layer/graph_layer.hpp>

namespace gneiss {

/// out = x W + b of each row, without edges. Cost: 2 · rows · inputs · outputs operations, 4 in backward (6 with an
/// input gradient).
template <class T, gnn_kernels<T> Backend>
class linear_layer final : public graph_layer<T> {
public:
    /// Adds its arrays to `weights`.
    linear_layer(dense_parameters<T>& weights, const std::string& name, input_columns in, std::size_t width, bool bias,
        Backend by = {})
        : by_(by),
          in_(in),
          width_(width),
          weight_(weights.add(name + ".weight", in.total(), width, initializer::glorot(in.total(), width))) {
        if (bias) bias_ = weights.add_constant(name + ".bias", width);
    }

    [[nodiscard]] std::size_t outputs() const override { return width_; }

    void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) override {
        in.own_rows().multiply(by_, weights.value(weight_), out,
            {false, bias_ ? weights.list(*bias_) : std::span<const T>{}, then}, in.on);
    }
    void backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g,
        matrix_view<T> grad_in) override {
        if (bias_) by_.add_column_sums(g, weights.gradient_list(*bias_), in.on);
        in.own_rows().add_weight_gradient(by_, g, weights.gradient(weight_), in.on);
        if (!grad_in.empty())
            by_.multiply_nt(g, weights.value(weight_).middle_rows(0, in_.dense), grad_in, false, in.on);
    }

    [[nodiscard]] part_columns parts() const override { return {.own = width_}; }
    void prepare(const dense_parameters<T>& weights, const input_rows<T>& rows, std::span<const float>, matrix_view<T>,
        matrix_view<T> own, executor_ref executor) override {
        if (own.columns() != 0)
            rows.multiply(by_, weights.value(weight_), own,
                {false, bias_ ? weights.list(*bias_) : std::span<const T>{}}, executor);
    }
    void finish(const dense_parameters<T>&, matrix_view<const T> own, std::span<const std::uint32_t>, matrix_view<T>,
        activation then, matrix_view<T> out, executor_ref executor) override {
        detail::copy_rows<T>(own, out, executor);
        by_.bias_activate({}, then, out, executor);
    }

private:
    Backend by_;
    input_columns in_;
    std::size_t width_, weight_;
    std::optional<std::size_t> bias_;
};

} // namespace gneiss
