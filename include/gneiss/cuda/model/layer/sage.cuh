// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/model/layer/linear_aggregation.cuh>

namespace gneiss::cuda {

/// `gneiss::sage_layer` on a device: out[t] = own[t] · W_own + reduce over neighbors · W + b. Cost: a gather of
/// neighbors' rows and two products; the second one finishes the rows.
template <storage T>
class sage_layer final : public graph_layer<T> {
public:
    /// Finds the arrays and scratch of the layer.
    sage_layer(const layer_setup& with, std::size_t width, const sage_options& options)
        : own_(with, true, "own", width),
          bias_(with, options.bias, width) {
        const std::string name = options.concat ? "neighbours" : "own";
        if (options.reduce != sage_reduction::max) {
            linear_.emplace(with, name, width,
                options.reduce == sage_reduction::mean ? edge_weight::mean : edge_weight::one, false, options.product);
            return;
        }
        neighbors_.emplace(with, true, name, width);
        best_ = with.rows<T>(with.capacity.targets, with.in.dense);
        winners_ = with.rows<std::uint32_t>(with.capacity.targets, with.in.dense);
    }

    [[nodiscard]] bool needs_lists_by_source() const noexcept override {
        return linear_ && linear_->needs_lists_by_source();
    }

    void forward(const layer_input<T>& in, activation then, const dropout_mask& dropout, rows_view<T> out) override {
        if (linear_) {
            linear_->forward(in, out, {});
        } else {
            std::visit(
                [&]<class In>(rows_view<const In> x) {
                    aggregate_max<T, In>(in.stream, gathered(incoming(in.view), in.rows.ids), x, best_, winners_);
                },
                in.rows.dense);
            neighbors_->multiply(of_best(in), out);
        }
        own_.multiply(in, out, {.accumulate = true, .bias = bias_.value(in.weights), .then = then, .dropout = dropout});
    }
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) override {
        if (linear_)
            linear_->backward(in, g, grad_in);
        else
            max_backward(in, g, grad_in);
        bias_.add_gradient(in, g);
        own_.backward(in, g, grad_in, true);
    }

private:
    void max_backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) {
        neighbors_->backward(of_best(in), g, {}, false);
        if (grad_in.data == nullptr) return;
        neighbors_->input_gradient(in, in.targets(), g, best_); // its values are no longer needed
        aggregate_max_backward<T>(in.stream, outgoing(in.view), best_, winners_, grad_in);
    }
    /// Returns the input with the largest values, of which each target reads its own.
    [[nodiscard]] layer_input<T> of_best(const layer_input<T>& in) const {
        layer_input<T> best = in;
        best.rows = input_rows<T>::of(best_);
        return best;
    }

    layer_weight<T> own_;
    layer_bias<T> bias_;
    std::optional<linear_aggregation<T>> linear_; ///< for mean and sum
    std::optional<layer_weight<T>> neighbors_;    ///< for maximum
    rows_view<T> best_{};
    rows_view<std::uint32_t> winners_{};
};

} // namespace gneiss::cuda
