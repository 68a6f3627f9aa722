// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/memory.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/linear_aggregation.hpp>
#include <gneiss/model/layer/self_loops.hpp>

namespace gneiss {

/// Weight of an edge.
enum class gcn_normalization : std::uint8_t {
    row,      ///< 1 / degree of target
    symmetric ///< 1 / √(degree of target · degree of source)
};

/// Options of `gcn_layer`.
struct gcn_options {
    gcn_normalization normalize = gcn_normalization::row; ///< weight of an edge
    bool bias = true;                                     ///< adds b
    product_order product = product_order::cheaper;       ///< order of product and sums
};

/// Graph convolution: out[t] = Σ over neighbors and t itself of weight · row, times W, plus b.
///
/// Score: the normalization. Degrees are those of the sample, including the own edge: a target's sampled neighbors + 1,
/// a source's sampled edges (+ 1 if it is a target). The rows sampled last have few of their edges in the sample, so
/// `symmetric` trains with other weights than those of the whole graph, unless the sample is the whole graph: Cora
/// reaches 0.76 with it and 0.82 with `row`. Aggregate and update: `linear_aggregation`.
/// Cost: one row read per edge and 2 · targets · inputs · outputs operations, twice that in backward (three times with
/// an input gradient).
/// Source: Kipf and Welling, ICLR 2017, equation (2).
template <class T, gnn_kernels<T> Backend>
class gcn_layer final : public graph_layer<T> {
public:
    /// Adds its arrays to `weights`.
    gcn_layer(dense_parameters<T>& weights, const std::string& name, input_columns in, std::size_t width,
        const gcn_options& options, Backend by = {})
        : by_(by),
          options_(options),
          in_(in),
          width_(width),
          linear_(options.product, in),
          weight_(weights.add(name + ".weight", in.total(), width, initializer::glorot(in.total(), width))) {
        if (options.bias) bias_ = weights.add_constant(name + ".bias", width);
    }

    [[nodiscard]] std::size_t outputs() const override { return width_; }

    void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) override {
        loops_.assign(in.view, in.on);
        score(in);
        linear_.forward(by_, in, loops_.view(), edge_weights_, weights.value(weight_), out,
            {false, bias_ ? weights.list(*bias_) : std::span<const T>{}, then});
    }

    void release() override {
        loops_ = {};
        linear_.release();
        free_memory(source_degrees_);
        memory_ = {};
    }

    void backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g,
        matrix_view<T> grad_in) override {
        if (bias_) by_.add_column_sums(g, weights.gradient_list(*bias_), in.on);
        linear_.backward(
            by_, in, loops_.view(), edge_weights_, weights.value(weight_), g, weights.gradient(weight_), grad_in);
    }

    [[nodiscard]] part_columns parts() const override {
        const std::size_t columns = linear::message_columns(in_, width_);
        const bool symmetric = options_.normalize == gcn_normalization::symmetric;
        return {.messages = columns,
            .sums = columns,
            .loops = true,
            .source_degrees = symmetric,
            .copies = !symmetric && !linear::sends_products(in_, width_)};
    }
    void prepare(const dense_parameters<T>& weights, const input_rows<T>& rows, std::span<const float> source_degrees,
        matrix_view<T> messages, matrix_view<T>, executor_ref executor) override {
        if (messages.columns() == 0) return;
        linear::prepare(by_, rows, weights.value(weight_), messages, executor);
        if (options_.normalize == gcn_normalization::symmetric) divide(messages, source_degrees, executor);
    }
    void add(const edge_part& edges, std::span<const std::uint32_t>, matrix_view<const T> messages, matrix_view<T> sums,
        executor_ref executor) override {
        by_.add_segments(edges, messages, sums, executor);
    }
    void finish(const dense_parameters<T>& weights, matrix_view<const T>, std::span<const std::uint32_t> seen,
        matrix_view<T> sums, activation then, matrix_view<T> out, executor_ref executor) override {
        divide(sums, seen, executor);
        linear::finish(by_, in_, sums, weights.value(weight_), out,
            {false, bias_ ? weights.list(*bias_) : std::span<const T>{}, then}, executor);
    }

private:
    using linear = linear_aggregation<T, Backend>;

    /// Divides each row by its degree, including the own edge, or by the root of it: each end of an edge contributes
    /// its factor.
    template <class Degree>
    void divide(matrix_view<T> rows, std::span<const Degree> degrees, executor_ref executor) {
        T* const by = memory_.at_least(degrees.size());
        for (std::size_t i = 0; i < degrees.size(); ++i) {
            by[i] = static_cast<T>(degrees[i]) + T{1};
            if (options_.normalize == gcn_normalization::symmetric) by[i] = detail::square_root(by[i]);
        }
        by_.divide_rows({by, degrees.size(), 1}, rows, executor);
    }

    void score(const layer_input<T>& in) {
        const layer_view& view = loops_.view();
        const edge_segments incoming{view.offsets, view.neighbors};
        const std::span<T> weights(memory_.at_least(view.edges()), view.edges());
        edge_weights_ = weights;
        if (options_.normalize == gcn_normalization::row) return by_.segment_shares(incoming, weights, in.on);
        resize_discard(source_degrees_, view.sources);
        std::ranges::fill(source_degrees_, 0U);
        for (const std::uint32_t source : view.neighbors) ++source_degrees_[source];
        by_.segment_symmetric(incoming, source_degrees_, weights, in.on);
    }

    Backend by_;
    gcn_options options_;
    input_columns in_;
    std::size_t width_;
    linear linear_;
    std::size_t weight_;
    std::optional<std::size_t> bias_;
    self_loops loops_;
    std::vector<std::uint32_t> source_degrees_;
    reusable_buffer<T> memory_;
    std::span<const T> edge_weights_;
};

} // namespace gneiss
