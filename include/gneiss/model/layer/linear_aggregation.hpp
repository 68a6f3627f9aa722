// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/product_order.hpp>

namespace gneiss {

/// A x W, where A [targets, sources] holds a weight for each edge: shared by layers with linear aggregation.
///
/// Computes the cheaper of (A x) W and A (x W): sparse rows are always multiplied first, dense ones if W shortens them
/// so much that the saved bytes of neighbors outweigh the products of all sources. The choice depends on the sizes
/// alone.
template <class T, gnn_kernels<T> Backend>
class linear_aggregation {
public:
    /// Throws `invalid_argument` if sparse rows are to be multiplied last.
    linear_aggregation(product_order order, input_columns in) : order_(order) { detail::check_order(order, in); }

    /// Frees memory kept for the next batch.
    void release() { buffer_ = {}; }

    /// Computes out = A x W, then the epilogue, which must not accumulate. `weights` [edges], or empty: all 1.
    void forward(const Backend& by, const layer_input<T>& in, const layer_view& view, std::span<const T> edge_weights,
        matrix_view<const T> w, matrix_view<T> out, const epilogue<T>& then) {
        project_first_ = projects_first(in.rows, view, w.columns());
        const edge_segments incoming{view.offsets, view.neighbors};
        if (project_first_) {
            const matrix_view<T> projected(buffer_.at_least(view.sources * w.columns()), view.sources, w.columns());
            in.rows.multiply(by, w, projected, {}, in.on);
            by.segment_sum(incoming, edge_weights, 1, projected, out, in.on);
            by.bias_activate(then.bias, then.then, out, in.on);
        } else {
            aggregated_ = {buffer_.at_least(view.targets * w.rows()), view.targets, w.rows()};
            by.segment_sum(incoming, edge_weights, 1, in.rows.dense, aggregated_, in.on);
            by.multiply(aggregated_, w, out, then, in.on);
        }
    }

    /// Adds (A x)ᵀ g to grad_w; sets grad_in = Aᵀ g W_denseᵀ unless it is empty.
    void backward(const Backend& by, const layer_input<T>& in, const layer_view& view, std::span<const T> edge_weights,
        matrix_view<const T> w, matrix_view<const T> g, matrix_view<T> grad_w, matrix_view<T> grad_in) {
        if (project_first_) {
            const matrix_view<T> projected(buffer_.at_least(view.sources * w.columns()), view.sources, w.columns());
            by.segment_sum(outgoing(view), edge_weights, 1, g, projected, in.on);
            in.rows.add_weight_gradient(by, projected, grad_w, in.on);
            if (!grad_in.empty()) by.multiply_nt(projected, w.middle_rows(0, grad_in.columns()), grad_in, false, in.on);
        } else {
            by.add_tn(aggregated_, g, grad_w, in.on);
            if (grad_in.empty()) return;
            by.multiply_nt(g, w, aggregated_, false, in.on); // its values are no longer needed
            by.segment_sum(outgoing(view), edge_weights, 1, aggregated_, grad_in, in.on);
        }
    }

    /// In the pass in parts: returns true if messages are rows times W, which is the case if those are shorter, or the
    /// rows sparse.
    [[nodiscard]] static bool sends_products(input_columns in, std::size_t width) noexcept {
        return in.sparse != 0 || width < in.total();
    }
    /// Returns the columns of messages and sums.
    [[nodiscard]] static std::size_t message_columns(input_columns in, std::size_t width) noexcept {
        return sends_products(in, width) ? width : in.total();
    }
    /// Writes messages [rows, message_columns].
    static void prepare(const Backend& by, const input_rows<T>& rows, matrix_view<const T> w, matrix_view<T> messages,
        executor_ref executor) {
        if (sends_products({rows.dense.columns(), rows.sparse.columns}, w.columns()))
            return rows.multiply(by, w, messages, {}, executor);
        detail::copy_rows<T>(rows.dense, messages, executor);
    }
    /// Computes out = sums, times W if the messages were not, and the epilogue.
    static void finish(const Backend& by, input_columns in, matrix_view<const T> sums, matrix_view<const T> w,
        matrix_view<T> out, const epilogue<T>& then, executor_ref executor) {
        if (!sends_products(in, w.columns())) return by.multiply(sums, w, out, then, executor);
        if (then.accumulate)
            by.add_rows(sums, out, executor);
        else
            detail::copy_rows<T>(sums, out, executor);
        by.bias_activate(then.bias, then.then, out, executor);
    }

private:
    [[nodiscard]] bool projects_first(
        const input_rows<T>& rows, const layer_view& view, std::size_t width) const noexcept {
        if (rows.has_sparse()) return true;
        if (order_ != product_order::cheaper) return order_ == product_order::first;
        constexpr double operations_per_gathered_value = 16; // for a core with neighbors' rows in memory
        return detail::projecting_is_cheaper(
            rows.columns(), width, view.sources, view.targets, view.edges(), operations_per_gathered_value);
    }

    product_order order_;
    bool project_first_ = false;
    reusable_buffer<T> buffer_;
    matrix_view<T> aggregated_{};
};

} // namespace gneiss
