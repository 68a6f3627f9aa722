// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/linear_aggregation.hpp>
#include <gneiss/model/layer/missing_neighbors.hpp>

namespace gneiss {

/// Reduction over neighbors.
enum class sage_reduction : std::uint8_t { mean, sum, max };

/// Options of `sage_layer`.
struct sage_options {
    sage_reduction reduce = sage_reduction::mean; ///< reduction over neighbors
    bool concat = true; ///< separate weights for own and neighbors' rows, as if concatenated; else one W for their sum
    bool bias = true;   ///< adds b
    product_order product = product_order::cheaper; ///< order of product and sums; a maximum always comes first
};

/// GraphSAGE: out[t] = own[t] · W_own + reduce over neighbors · W + b. The reduction is 0 for a target without
/// neighbors.
///
/// Means impute neighbors that are not resident, see `missing_neighbors`.
///
/// Score: 1, or 1 / neighbors for the mean. Aggregate: the sum or the maximum of neighbors' rows. Update: the two
/// products.
/// Cost: one row read per edge and 4 · targets · inputs · outputs operations, twice that in backward (three times with
/// an input gradient). Source: Hamilton, Ying and Leskovec, NeurIPS 2017, Algorithm 1.
template <class T, gnn_kernels<T> Backend>
class sage_layer final : public graph_layer<T> {
public:
    /// Adds its arrays to `weights`. Throws `invalid_argument` for the maximum of sparse rows, and for an order that
    /// sparse rows or the maximum do not allow.
    sage_layer(dense_parameters<T>& weights, const std::string& name, input_columns in, std::size_t width,
        const sage_options& options, Backend by = {})
        : by_(by),
          options_(options),
          in_(in),
          width_(width),
          linear_(options.product, in) {
        if (options.reduce == sage_reduction::max && in.sparse != 0)
            throw error(
                errc::invalid_argument, "the maximum of sparse rows is not offered: put a linear layer in front");
        if (options.reduce == sage_reduction::max && options.product == product_order::first)
            throw error(errc::invalid_argument, "the maximum is that of rows: leave out product=first");
        const initializer first = initializer::glorot(in.total(), width);
        own_ = weights.add(name + ".own", in.total(), width, first);
        neighbors_ = options.concat ? weights.add(name + ".neighbours", in.total(), width, first) : own_;
        if (options.bias) bias_ = weights.add_constant(name + ".bias", width);
    }

    [[nodiscard]] std::size_t outputs() const override { return width_; }

    void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) override {
        score(in);
        aggregate(weights, in, out);
        if (imputes(in)) {
            missing_.assign(in.view, in.coverage);
            missing_.forward(by_, out, in.on);
        }
        update(weights, in, then, out);
    }

    void release() override {
        linear_.release();
        shares_ = {};
        best_memory_ = {};
        winner_memory_ = {};
        missing_ = {};
    }

    void backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g,
        matrix_view<T> grad_in) override {
        aggregate_backward(weights, in, imputes(in) ? missing_.backward(by_, g, in.on) : g, grad_in);
        update_backward(weights, in, g, grad_in);
    }

    [[nodiscard]] part_columns parts() const override {
        const std::size_t columns = is_max() ? in_.dense : linear::message_columns(in_, width_);
        return {.messages = columns,
            .own = width_,
            .sums = columns,
            .copies = is_max() || !linear::sends_products(in_, width_)};
    }
    void prepare(const dense_parameters<T>& weights, const input_rows<T>& rows, std::span<const float>,
        matrix_view<T> messages, matrix_view<T> own, executor_ref executor) override {
        if (messages.columns() != 0) {
            if (is_max())
                detail::copy_rows<T>(rows.dense, messages, executor);
            else
                linear::prepare(by_, rows, weights.value(neighbors_), messages, executor);
        }
        if (own.columns() != 0) rows.multiply(by_, weights.value(own_), own, {}, executor);
    }
    void add(const edge_part& edges, std::span<const std::uint32_t> seen, matrix_view<const T> messages,
        matrix_view<T> sums, executor_ref executor) override {
        if (is_max())
            by_.raise_segments(edges, seen, messages, sums, executor);
        else
            by_.add_segments(edges, messages, sums, executor);
    }
    void finish(const dense_parameters<T>& weights, matrix_view<const T> own, std::span<const std::uint32_t> seen,
        matrix_view<T> sums, activation then, matrix_view<T> out, executor_ref executor) override {
        if (options_.reduce == sage_reduction::mean) {
            T* const degrees = shares_.at_least(seen.size());
            for (std::size_t t = 0; t < seen.size(); ++t) degrees[t] = static_cast<T>(std::max(seen[t], 1U));
            by_.divide_rows({degrees, seen.size(), 1}, sums, executor);
        }
        detail::copy_rows<T>(own, out, executor);
        const epilogue<T> rest{true, bias_ ? weights.list(*bias_) : std::span<const T>{}, then};
        if (is_max())
            by_.multiply(sums, weights.value(neighbors_), out, rest, executor);
        else
            linear::finish(by_, in_, sums, weights.value(neighbors_), out, rest, executor);
    }

private:
    using linear = linear_aggregation<T, Backend>;

    [[nodiscard]] bool is_max() const noexcept { return options_.reduce == sage_reduction::max; }
    [[nodiscard]] bool imputes(const layer_input<T>& in) const noexcept {
        return !in.coverage.empty() && options_.reduce == sage_reduction::mean;
    }

    void score(const layer_input<T>& in) {
        edge_weights_ = {};
        if (options_.reduce != sage_reduction::mean) return;
        const std::span<T> shares(shares_.at_least(in.view.edges()), in.view.edges());
        by_.segment_shares(in.incoming(), shares, in.on);
        edge_weights_ = shares;
    }

    /// Computes out = reduction · W.
    void aggregate(const dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<T> out) {
        if (!is_max()) return linear_.forward(by_, in, in.view, edge_weights_, weights.value(neighbors_), out, {});
        const std::size_t rows = in.view.targets, columns = in_.dense;
        best_ = {best_memory_.at_least(rows * columns), rows, columns};
        winners_ = {winner_memory_.at_least(rows * columns), rows, columns};
        by_.segment_max(in.incoming(), in.rows.dense, best_, winners_, in.on);
        by_.multiply(best_, weights.value(neighbors_), out, {}, in.on);
    }

    void aggregate_backward(
        dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g, matrix_view<T> grad_in) {
        if (!is_max())
            return linear_.backward(
                by_, in, in.view, edge_weights_, weights.value(neighbors_), g, weights.gradient(neighbors_), grad_in);
        by_.add_tn(best_, g, weights.gradient(neighbors_), in.on);
        if (grad_in.empty()) return;
        by_.multiply_nt(g, weights.value(neighbors_), best_, false, in.on); // its values are no longer needed
        by_.segment_max_backward(outgoing(in.view), best_, winners_, grad_in, in.on);
    }

    void update(const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) {
        in.own_rows().multiply(
            by_, weights.value(own_), out, {true, bias_ ? weights.list(*bias_) : std::span<const T>{}, then}, in.on);
    }

    void update_backward(
        dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g, matrix_view<T> grad_in) {
        if (bias_) by_.add_column_sums(g, weights.gradient_list(*bias_), in.on);
        in.own_rows().add_weight_gradient(by_, g, weights.gradient(own_), in.on);
        if (!grad_in.empty())
            by_.multiply_nt(g, weights.value(own_).middle_rows(0, in_.dense),
                grad_in.middle_rows(in.view.first_target, in.view.targets), true, in.on);
    }

    Backend by_;
    sage_options options_;
    input_columns in_;
    std::size_t width_;
    linear linear_;
    std::size_t own_ = 0, neighbors_ = 0;
    std::optional<std::size_t> bias_;
    missing_neighbors<T> missing_;
    std::span<const T> edge_weights_;
    reusable_buffer<T> shares_, best_memory_;
    reusable_buffer<std::uint32_t> winner_memory_;
    matrix_view<T> best_{};
    matrix_view<std::uint32_t> winners_{};
};

/// Sets the scale of all neighbor weights of GraphSAGE layers with `concat`, see `dense_parameters::set_scale`: 1 /
/// coverage if they impute missing neighbors, since sums of what a batch knows are then smaller by the coverage.
/// Returns their number.
template <class T>
std::size_t scale_neighbor_weights(dense_parameters<T>& weights, T scale) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < weights.arrays().size(); ++i)
        if (weights.arrays()[i].name.ends_with(".neighbours")) {
            weights.set_scale(i, scale);
            ++count;
        }
    return count;
}

} // namespace gneiss
