// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/model/device/attention.cuh>
#include <gneiss/cuda/model/device/attention_backward.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>

namespace gneiss::cuda {

/// `gneiss::gat_layer` on a device. Attentions are never stored: the backward pass recomputes them from the terms of
/// scores and the logarithms of their sums.
template <storage T>
class gat_layer final : public graph_layer<T> {
public:
    /// Finds the arrays and scratch of the layer. Throws `unsupported` for products after sums.
    gat_layer(const layer_setup& with, std::size_t width, const gat_options& options)
        : concat_(options.concat),
          heads_(static_cast<std::uint32_t>(options.heads)),
          columns_(options.heads * width),
          slope_(static_cast<float>(options.slope)),
          weight_(with, false, "weight", columns_),
          of_target_(with.array("attention_target", options.heads, width)),
          of_source_(with.array("attention_source", options.heads, width)),
          bias_(with, options.bias, concat_ ? columns_ : width),
          scratch_(with.scratch),
          z_(source_rows(with)),
          sums_(target_rows(with)),
          grad_z_(source_rows(with)),
          target_terms_(with.rows<float>(with.capacity.targets, 3 * options.heads)),
          source_terms_(with.rows<float>(with.capacity.sources, options.heads)),
          target_sums_(with.rows<float>(with.capacity.targets, options.heads)),
          source_sums_(with.rows<float>(with.capacity.sources, options.heads)),
          scores_{with.memory.take<float>((std::size_t{with.capacity.edges} + with.capacity.targets) * heads_),
              with.capacity.edges} {
        if (options.product == product_order::last)
            throw error(errc::unsupported, "gat: a device multiplies rows before their sums: leave out product=last");
        if (!concat_) by_head_ = target_rows(with);
        with.scratch.need(with.capacity.sources, columns_);
        with.scratch.need(with.capacity.targets, columns_);
    }

    [[nodiscard]] bool needs_lists_by_source() const noexcept override { return true; }

    void forward(const layer_input<T>& in, activation then, const dropout_mask& dropout, rows_view<T> out) override {
        weight_.multiply(in, z_);
        attention_terms<T>(in.stream, in.view, true, heads_, z_, of_target_.value(in.weights).data, target_terms_);
        attention_terms<T>(in.stream, in.view, false, heads_, z_, of_source_.value(in.weights).data, source_terms_);
        attend<T>(in.stream, incoming(in.view, true), options(in), z_, source_terms_, target_terms_, sums_);
        const std::uint32_t* const count = in.targets().count;
        if (!concat_) head_mean<T>(in.stream, count, in.view.target_capacity, heads_, sums_, out);
        bias_activate<T>(in.stream, count, in.view.target_capacity, bias_.value(in.weights), then,
            concat_ ? sums_ : out, out, dropout);
    }
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) override {
        bias_.add_gradient(in, g);
        if (!concat_)
            head_mean_backward<T>(in.stream, in.targets().count, in.view.target_capacity, heads_, g, by_head_);
        attend_backward<T>(in.stream, in.view, options(in),
            {.z = z_,
                .sums = sums_,
                .source_terms = source_terms_,
                .of_targets = target_terms_,
                .of_target = of_target_.value(in.weights).data,
                .of_source = of_source_.value(in.weights).data,
                .gradient = concat_ ? g : rows_view<const T>(by_head_),
                .scores = scores_,
                .target_sums = target_sums_,
                .source_sums = source_sums_,
                .grad_z = grad_z_});
        add_column_sums<T>(
            in.stream, in.own_sources(), z_, scratch_.data(), of_target_.gradient(in.weights).data, target_sums_);
        add_column_sums<T>(
            in.stream, in.sources(), z_, scratch_.data(), of_source_.gradient(in.weights).data, source_sums_);
        weight_.backward(in, grad_z_, grad_in, false);
    }

private:
    [[nodiscard]] rows_view<T> source_rows(const layer_setup& with) const {
        return with.rows<T>(with.capacity.sources, columns_);
    }
    [[nodiscard]] rows_view<T> target_rows(const layer_setup& with) const {
        return with.rows<T>(with.capacity.targets, columns_);
    }
    [[nodiscard]] attention_options options(const layer_input<T>& in) const {
        return {.heads = heads_, .slope = slope_, .dropout = in.attention};
    }

    bool concat_;
    std::uint32_t heads_;
    std::size_t columns_;
    float slope_;
    layer_weight<T> weight_;
    weight_array of_target_, of_source_;
    layer_bias<T> bias_;
    const shared_scratch& scratch_;
    rows_view<T> z_, sums_, grad_z_, by_head_{}; ///< `by_head`: gradients, if heads are merged
    rows_view<float> target_terms_, source_terms_, target_sums_, source_sums_;
    edge_gradients scores_;
};

} // namespace gneiss::cuda
