// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/late_attention.hpp>
#include <gneiss/model/layer/product_order.hpp>
#include <gneiss/model/layer/self_loops.hpp>

namespace gneiss {

/// Options of `gat_layer`.
struct gat_options {
    std::size_t heads = 1;                          ///< number of heads
    bool concat = true;                             ///< concatenate heads; else their mean
    double slope = 0.2;                             ///< slope of LeakyReLU below 0
    double dropout = 0;                             ///< rate on attentions, while training
    bool bias = true;                               ///< adds b
    product_order product = product_order::cheaper; ///< order of product and sums
};

/// Graph attention: for each head, out[t] = Σ α(t, s) z[s] over neighbors s and t itself, where z = x W and
/// α = softmax over them of LeakyReLU(⟨z[t], a_target⟩ + ⟨z[s], a_source⟩); plus b.
///
/// Score: attentions [edges + targets, heads]. Aggregate: the weighted sum of z. Update: heads merged. `width` is per
/// head: `concat` gives heads · width outputs, the mean `width`. Cost: 2 · sources · inputs · heads · width operations
/// and one row of z read per edge; in backward twice the operations (three times with an input gradient) and two rows
/// per edge. In a sample with many more sources than targets, rows x are summed instead, and W multiplies the sums
/// alone, if that is cheaper: 2 · targets · inputs · heads · width operations and one row of x read per edge, see
/// `late_attention`. The choice depends on the sizes alone.
/// Source: Veličković et al., ICLR 2018, equations (1) to (6).
template <class T, gnn_kernels<T> Backend>
class gat_layer final : public graph_layer<T> {
public:
    /// Adds its arrays to `weights`. Throws `invalid_argument` without a head, for a rate outside [0, 1), and for
    /// sparse rows that are to be multiplied last.
    gat_layer(dense_parameters<T>& weights, const std::string& name, input_columns in, std::size_t width,
        const gat_options& options, Backend by = {})
        : by_(by),
          options_(options),
          in_(in),
          width_(width),
          heads_(options.heads) {
        if (heads_ == 0 || width == 0)
            throw error(errc::invalid_argument, "an attention layer needs heads and a width");
        if (!(options.dropout >= 0 && options.dropout < 1))
            throw error(errc::invalid_argument, "a dropout rate must lie in [0, 1)");
        detail::check_order(options.product, in);
        weight_ = weights.add(name + ".weight", in.total(), all(), initializer::glorot(in.total(), all()));
        of_target_ = weights.add(name + ".attention_target", heads_, width, initializer::glorot(1, width));
        of_source_ = weights.add(name + ".attention_source", heads_, width, initializer::glorot(1, width));
        if (options.bias) bias_ = weights.add_constant(name + ".bias", outputs());
    }

    [[nodiscard]] std::size_t outputs() const override { return options_.concat ? all() : width_; }

    void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) override {
        loops_.assign(in.view, in.on);
        multiplies_late_ = in_.sparse == 0 && options_.product != product_order::first &&
            (options_.product == product_order::last ||
                late_attention::pays(in_.dense, width_, heads_, in.view.sources, in.view.targets, in.view.edges()));
        const std::size_t rows = multiplies_late_ ? in.view.targets : in.view.sources,
                          columns = multiplies_late_ ? heads_ * in_.dense : all();
        z_ = {z_memory_.at_least(rows * columns), rows, columns};
        if (!multiplies_late_) in.rows.multiply(by_, weights.value(weight_), z_, {}, in.on);
        score(weights, in);
        aggregate_and_update(weights, in, then, out);
    }

    void release() override {
        loops_ = {};
        late_.release();
        for (reusable_buffer<T>* memory : {&z_memory_, &grad_z_memory_, &merge_memory_, &target_memory_,
                 &source_memory_, &attention_memory_, &dropped_memory_, &score_memory_, &grad_score_memory_})
            *memory = {};
    }

    void backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g,
        matrix_view<T> grad_in) override {
        if (bias_) by_.add_column_sums(g, weights.gradient_list(*bias_), in.on);
        matrix_view<const T> by_head = g;
        if (!options_.concat) {
            const matrix_view<T> spread(merge_memory_.at_least(g.rows() * all()), g.rows(), all());
            by_.head_mean_backward(g, heads_, spread, in.on);
            by_head = spread;
        }
        const matrix_view<T> grad_z(grad_z_memory_.at_least(z_.rows() * z_.columns()), z_.rows(), z_.columns());
        if (multiplies_late_) return late_backward(weights, in, by_head, grad_z, grad_in);
        by_.segment_sum(outgoing(loops_.view()), dropped_, heads_, by_head, grad_z, in.on);
        score_backward(in, by_head, z_);
        by_.head_dots_backward(own(z_, in), weights.list(of_target_), heads_, target_terms_, own(grad_z, in),
            weights.gradient_list(of_target_), in.on);
        by_.head_dots_backward(
            z_, weights.list(of_source_), heads_, source_terms_, grad_z, weights.gradient_list(of_source_), in.on);
        in.rows.add_weight_gradient(by_, grad_z, weights.gradient(weight_), in.on);
        if (!grad_in.empty())
            by_.multiply_nt(grad_z, weights.value(weight_).middle_rows(0, in_.dense), grad_in, false, in.on);
    }

    /// Messages [z, scores of sources], own [scores of targets], sums as in `attend_segments`.
    [[nodiscard]] part_columns parts() const override {
        return {.messages = all() + heads_, .own = heads_, .sums = all() + 3 * heads_, .loops = true, .begins = true};
    }
    void prepare(const dense_parameters<T>& weights, const input_rows<T>& rows, std::span<const float>,
        matrix_view<T> messages, matrix_view<T> own, executor_ref executor) override {
        const bool sends = messages.columns() != 0;
        const matrix_view<T> z = sends ? messages.middle_columns(0, all())
                                       : matrix_view<T>(z_memory_.at_least(rows.rows() * all()), rows.rows(), all());
        rows.multiply(by_, weights.value(weight_), z, {}, executor);
        if (sends) by_.head_dots(z, weights.list(of_source_), heads_, messages.middle_columns(all(), heads_), executor);
        if (own.columns() != 0) by_.head_dots(z, weights.list(of_target_), heads_, own, executor);
    }
    void begin(matrix_view<const T> own, matrix_view<T> sums, executor_ref executor) override {
        detail::copy_rows<T>(own, sums.middle_columns(all() + 2 * heads_, heads_), executor);
    }
    void add(const edge_part& edges, std::span<const std::uint32_t>, matrix_view<const T> messages, matrix_view<T> sums,
        executor_ref executor) override {
        by_.attend_segments(edges, heads_, slope(), messages, sums, executor);
    }
    void finish(const dense_parameters<T>& weights, matrix_view<const T>, std::span<const std::uint32_t>,
        matrix_view<T> sums, activation then, matrix_view<T> out, executor_ref executor) override {
        const matrix_view<T> by_head = sums.middle_columns(0, all());
        by_.divide_rows(sums.middle_columns(all() + heads_, heads_), by_head, executor);
        if (options_.concat)
            detail::copy_rows<T>(by_head, out, executor);
        else
            by_.head_mean(by_head, heads_, out, executor);
        by_.bias_activate(bias_ ? weights.list(*bias_) : std::span<const T>{}, then, out, executor);
    }

private:
    using late_attention = detail::late_attention<T, Backend>;

    [[nodiscard]] std::size_t all() const noexcept { return heads_ * width_; }
    [[nodiscard]] edge_segments incoming() const noexcept { return {loops_.view().offsets, loops_.view().neighbors}; }
    template <class U>
    [[nodiscard]] static matrix_view<U> own(matrix_view<U> rows, const layer_input<T>& in) noexcept {
        return rows.middle_rows(in.view.first_target, in.view.targets);
    }
    [[nodiscard]] detail::attention_weights<const T> attention_of(const dense_parameters<T>& weights) const {
        return {weights.value(weight_), weights.list(of_target_), weights.list(of_source_)};
    }
    [[nodiscard]] bool drops(const layer_input<T>& in) const noexcept { return in.training && options_.dropout > 0; }
    [[nodiscard]] dropout_mask mask(const layer_input<T>& in) const {
        return {*in.training, options_.dropout, in.targets};
    }

    void score(const dense_parameters<T>& weights, const layer_input<T>& in) {
        target_terms_ = {target_memory_.at_least(in.view.targets * heads_), in.view.targets, heads_};
        source_terms_ = {source_memory_.at_least(in.view.sources * heads_), in.view.sources, heads_};
        if (multiplies_late_) {
            const matrix_view<const T> x = in.rows.dense;
            late_.score(by_, attention_of(weights), heads_, x, own(x, in), target_terms_, source_terms_, in.on);
        } else {
            by_.head_dots(own(z_, in), weights.list(of_target_), heads_, target_terms_, in.on);
            by_.head_dots(z_, weights.list(of_source_), heads_, source_terms_, in.on);
        }
        const std::size_t size = loops_.view().edges() * heads_;
        attention_ = {attention_memory_.at_least(size), size};
        by_.edge_scores(incoming(), heads_, target_terms_, source_terms_, slope(), attention_, in.on);
        by_.segment_softmax(incoming(), heads_, attention_, in.on);
        dropped_ = attention_;
        if (!drops(in)) return;
        dropped_ = {dropped_memory_.at_least(size), size};
        by_.segment_dropout(mask(in), incoming(), heads_, attention_, dropped_, in.on);
    }

    void aggregate_and_update(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) {
        const matrix_view<T> sums =
            options_.concat ? out : matrix_view<T>(merge_memory_.at_least(out.rows() * all()), out.rows(), all());
        if (multiplies_late_) {
            by_.segment_sum(incoming(), dropped_, heads_, in.rows.dense, z_, in.on);
            late_attention::multiply(by_, weights.value(weight_), heads_, z_, sums, in.on);
        } else {
            by_.segment_sum(incoming(), dropped_, heads_, z_, sums, in.on);
        }
        if (!options_.concat) by_.head_mean(sums, heads_, out, in.on);
        by_.bias_activate(bias_ ? weights.list(*bias_) : std::span<const T>{}, then, out, in.on);
    }

    /// Computes the gradients of both terms of scores, in their place, from those of sums over `rows`.
    void score_backward(const layer_input<T>& in, matrix_view<const T> grad_sums, matrix_view<const T> rows) {
        const std::size_t size = attention_.size();
        const std::span<T> g(grad_score_memory_.at_least(size), size), scores(score_memory_.at_least(size), size);
        by_.edge_dots(incoming(), heads_, grad_sums, rows, g, in.on);
        if (drops(in)) by_.segment_dropout(mask(in), incoming(), heads_, g, g, in.on);
        by_.segment_softmax_backward(incoming(), heads_, attention_, g, in.on);
        by_.edge_scores(incoming(), heads_, target_terms_, source_terms_, slope(), scores, in.on);
        by_.edge_scores_backward(heads_, slope(), scores, g, in.on);
        by_.segment_total(incoming(), heads_, g, target_terms_, in.on); // the old values are no longer needed
        by_.segment_total(outgoing(loops_.view()), heads_, g, source_terms_, in.on);
    }

    void late_backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> by_head,
        matrix_view<T> grad_sums, matrix_view<T> grad_in) {
        late_attention::multiply_backward(
            by_, weights.value(weight_), heads_, z_, by_head, weights.gradient(weight_), grad_sums, in.on);
        if (!grad_in.empty()) by_.segment_sum(outgoing(loops_.view()), dropped_, heads_, grad_sums, grad_in, in.on);
        const matrix_view<const T> x = in.rows.dense;
        score_backward(in, grad_sums, x);
        late_.score_backward(by_, attention_of(weights), heads_, x, own(x, in), target_terms_, source_terms_,
            {weights.gradient(weight_), weights.gradient_list(of_target_), weights.gradient_list(of_source_)}, grad_in,
            grad_in.empty() ? grad_in : own(grad_in, in), in.on);
    }

    [[nodiscard]] T slope() const noexcept { return static_cast<T>(options_.slope); }

    Backend by_;
    gat_options options_;
    input_columns in_;
    std::size_t width_, heads_, weight_ = 0, of_target_ = 0, of_source_ = 0;
    std::optional<std::size_t> bias_;
    bool multiplies_late_ = false;
    self_loops loops_;
    late_attention late_;
    reusable_buffer<T> z_memory_, grad_z_memory_, merge_memory_, target_memory_, source_memory_, attention_memory_,
        dropped_memory_, score_memory_, grad_score_memory_;
    matrix_view<T> z_{}; ///< z, or sums of rows by head
    matrix_view<T> target_terms_{}, source_terms_{};
    std::span<T> attention_, dropped_;
};

} // namespace gneiss
