// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/model/layer/linear_aggregation.hpp>

namespace gneiss::cuda {

/// A x W, where A holds a weight per edge: common part of layers with linear aggregation, as on the host. Computes the
/// cheaper of (A x) W and A (x W) for the capacities; sparse rows are always multiplied first.
template <storage T>
class linear_aggregation {
public:
    /// `loops`: targets have self-loops.
    linear_aggregation(const layer_setup& with, const std::string& name, std::size_t width, edge_weight weight,
        bool loops, product_order order)
        : edges_(weight),
          loops_(loops),
          project_first_(
              order == product_order::cheaper ? projecting_is_cheaper(with, width) : order == product_order::first),
          weight_(with, !project_first_, name, width),
          rows_(project_first_ ? with.rows<T>(with.capacity.sources, width)
                               : with.rows<T>(with.capacity.targets, with.in.total())) {}

    /// True if rows are multiplied before they are aggregated.
    [[nodiscard]] bool project_first() const noexcept { return project_first_; }

    /// As of `graph_layer`: products are summed by source, and symmetric weights depend on the lengths of both lists.
    [[nodiscard]] bool needs_lists_by_source() const noexcept {
        return project_first_ || edges_ == edge_weight::symmetric;
    }

    /// out = A x W, before the epilogue.
    void forward(const layer_input<T>& in, rows_view<T> out, const epilogue& then) {
        if (project_first_) {
            weight_.multiply(in, rows_);
            aggregate<T>(in.stream, incoming(in.view, loops_), edges_, rows_, out);
            if (then.bias != nullptr || then.then != activation::none || then.dropout.drops())
                bias_activate<T>(in.stream, in.targets().count, in.view.target_capacity, then.bias, then.then, out, out,
                    then.dropout);
        } else {
            std::visit(
                [&]<class In>(rows_view<const In> x) {
                    aggregate<T, In>(in.stream, gathered(incoming(in.view, loops_), in.rows.ids), edges_, x, rows_);
                },
                in.rows.dense);
            weight_.multiply(of_sums(in), out, then);
        }
    }
    /// Adds to the gradient of W; grad_in = Aᵀ g W_denseᵀ if requested.
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) {
        const edge_lists by_source = outgoing(in.view, loops_);
        if (project_first_) {
            aggregate<T>(in.stream, by_source, edges_, g, rows_);
            weight_.backward(in, rows_, grad_in, false);
        } else {
            const layer_input<T> sums = of_sums(in);
            weight_.backward(sums, g, {}, false);
            if (grad_in.data == nullptr) return;
            weight_.input_gradient(in, in.targets(), g, rows_); // its values are no longer needed
            aggregate<T>(in.stream, by_source, edges_, rows_, grad_in);
        }
    }

private:
    /// A device's cores multiply some hundred times per value read from memory. The choice depends only on the widths
    /// and assumes two edges per source and few targets, as in samples: a choice by sizes would make results depend on
    /// earlier batches.
    [[nodiscard]] static bool projecting_is_cheaper(const layer_setup& with, std::size_t width) noexcept {
        constexpr double operations_per_gathered_value = 200;
        return with.in.sparse != 0 ||
            gneiss::detail::projecting_is_cheaper(with.in.total(), width, 1, 0, 2, operations_per_gathered_value);
    }
    /// Returns the layer of the sums: each target reads its own row of them.
    [[nodiscard]] layer_input<T> of_sums(const layer_input<T>& in) const {
        layer_input<T> sums = in;
        sums.rows = input_rows<T>::of(rows_);
        return sums;
    }

    edge_weight edges_;
    bool loops_, project_first_;
    layer_weight<T> weight_;
    rows_view<T> rows_; ///< products of the sources, or sums of the targets
};

} // namespace gneiss::cuda
