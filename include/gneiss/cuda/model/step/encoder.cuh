// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/layer_norm.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/cuda/model/layer/any_layer.cuh>
#include <gneiss/cuda/model/step/encoder_batch.cuh>

namespace gneiss::cuda {

/// A stack of graph layers on a device: `gneiss::encoder` with the same layers, columns and parameters, for rows of
/// floats or bfloat16 (weights, their gradients and sums are floats).
///
///     device_arena counting;
///     cuda::encoder<float> needs(counting, weights, layers, columns, capacity);  // counting.used() bytes
///     …
///     cuda::encoder<float> encode(arena, weights, layers, columns, capacity);
///     const auto rows = // [targets, outputs]
///         encode.forward(stream, parameters.weights(), views, {.dense = inputs}, {&key, ids});
///     encode.backward(stream, parameters.weights(), grad_rows, grad_inputs);   // adds to the weights' gradients
///
/// Drops the same elements as on the host. Results differ from the host's by rounding: the order of sums, and the
/// choice of (A x) W or A (x W), which depends on the widths. Results are deterministic from run to run. Each layer's
/// sources are the targets of the previous one; a `row_exchange` may replace their rows. All memory is taken from the
/// arena at construction. forward and backward are asynchronous and allocate nothing; counts, names
/// and keys are in device memory, so a captured step serves any batch within the capacities. One batch at a time.
template <storage T>
class encoder {
public:
    /// Finds its arrays in `weights`, where a host encoder of the same layers and columns added them. Throws
    /// `invalid_argument` for inconsistent arguments, `over_budget` if the memory is too small.
    encoder(device_arena& memory, const dense_parameters<float>& weights, const std::vector<layer_options>& layers,
        input_columns in, encoder_capacity most)
        : encoder(memory, weights, std::vector<any_layer<T>>(layers.begin(), layers.end()), in, std::move(most)) {}
    /// The same, with layers of your own.
    encoder(device_arena& memory, const dense_parameters<float>& weights, const std::vector<any_layer<T>>& layers,
        input_columns in, encoder_capacity most)
        : in_(in),
          most_(std::move(most)) {
        if (layers.empty() || layers.size() > detail::most_stages || in.total() == 0)
            throw error(errc::invalid_argument, "an encoder needs layers, and columns of input");
        if (const auto hops = std::ranges::count_if(layers, &any_layer<T>::takes_hop);
            static_cast<std::size_t>(hops) != most_.hops.size())
            throw error(errc::invalid_argument,
                "capacities of " + std::to_string(most_.hops.size()) + " hops for " + std::to_string(hops) +
                    " layers with neighbors");
        std::size_t gradients[2] = {0, 0};
        for (std::size_t i = 0, hop = 0, rows = most_.rows; i < layers.size(); ++i) {
            const auto alone = static_cast<std::uint32_t>(rows);
            const layer_capacity capacity = layers[i].takes_hop() ? most_.hops[hop++] : layer_capacity{alone, alone, 0};
            if (capacity.sources > rows)
                throw error(errc::invalid_argument, "a layer has more sources than rows were computed before");
            const layer_setup with{weights, "layer" + std::to_string(i), in, capacity, memory, scratch_};
            stages_.emplace_back();
            make(stages_.back(), with, layers[i]);
            if (i != 0)
                gradients[i % 2] = std::max(gradients[i % 2], std::size_t{capacity.sources} * row_stride(in.dense));
            in = {.dense = layers[i].outputs()};
            rows = capacity.targets;
        }
        for (std::size_t i = 0; i < 2; ++i) gradients_[i] = memory.take<T>(gradients[i]);
        state_ = memory.take<detail::stage_state>(stages_.size() + 1);
        scratch_.allocate(memory);
    }
    encoder(const encoder&) = delete;
    encoder& operator=(const encoder&) = delete;

    /// Returns the number of hops.
    [[nodiscard]] std::size_t hops() const noexcept { return most_.hops.size(); }
    [[nodiscard]] std::size_t outputs() const noexcept { return stages_.back().outputs; }
    /// Returns the maximum sizes of batches.
    [[nodiscard]] const encoder_capacity& capacity() const noexcept { return most_; }
    /// Returns the maximum number of output rows.
    [[nodiscard]] std::uint32_t most_targets() const noexcept {
        return most_.hops.empty() ? most_.rows : most_.hops.back().targets;
    }
    /// Returns the range of the last layer's targets in the batch of `forward`.
    [[nodiscard]] row_range targets() const noexcept { return stages_.back().input.targets(); }
    /// True if `backward` reads the rows that `forward` returned: then their gradient must not overwrite them.
    [[nodiscard]] bool keeps_output() const noexcept {
        const layer_surround& last = stages_.back().around;
        return last.then != activation::none && !last.residual;
    }

    /// True if a batch whose input gets a gradient, or not, needs lists by source in its first hop's layer. It always
    /// needs those of the others.
    [[nodiscard]] bool needs_lists_of_inputs(bool gradient) const noexcept {
        const stage& first = stages_.front();
        return gradient || !first.takes_hop || first.layer->needs_lists_by_source();
    }

    /// Returns rows of the last layer's targets, [targets, outputs], valid until the next call. `views` has hops()
    /// layers within the capacities; all arguments must stay valid until `backward` has passed. Throws
    /// `invalid_argument` for inconsistent shapes.
    /// \param between  gets rows between layers, here and in `backward`; null: none does
    [[nodiscard]] rows_view<T> forward(cudaStream_t stream, const dense_weights& weights,
        std::span<const layer_view> views, const encoder_input<T>& input, const encoder_pass& pass,
        row_exchange<T>* between = nullptr) {
        check(views, input);
        pass_ = pass;
        between_ = between;
        const std::uint32_t* const count = input.count != nullptr ? input.count : &views[0].counts->sources;
        detail::stage_counts counts{};
        for (std::size_t i = 0, hop = 0, rows = most_.rows; i < stages_.size(); ++i) {
            stage& s = stages_[i];
            s.input = {.stream = stream, .weights = weights};
            if (s.takes_hop) {
                s.input.view = views[hop++];
                counts.of[i] = s.input.view.counts;
            } else {
                s.input.view.counts = &state_[i].counts;
                s.input.view.target_capacity = s.input.view.source_capacity = static_cast<std::uint32_t>(rows);
            }
            rows = s.input.view.target_capacity;
            s.input.attention = mask(i + 1, &state_[i].targets, s.attention_dropout);
        }
        launch(stream, detail::begin_stages<1>, 1, 1, 0, counts, stages_.size(), count, pass.training, state_);
        enter(stream, input, count);
        for (std::size_t i = 0; i < stages_.size(); ++i) {
            run(i);
            exchange(i);
            if (i + 1 < stages_.size())
                stages_[i + 1].input.rows = input_rows<T>::of(stages_[i].out, own_first(stages_[i + 1]));
        }
        return stages_.back().out;
    }

    /// Computes the gradients of the last batch of `forward`. Overwrites `grad_out` [targets, outputs]. Writes
    /// `grad_in` [sources, dense columns], in the order of the batch's rows; without data, it is not computed.
    void backward(cudaStream_t stream, const dense_weights& weights, rows_view<T> grad_out, rows_view<T> grad_in = {}) {
        rows_view<T> g = grad_out;
        for (std::size_t i = stages_.size(); i-- > 0;) {
            stage& s = stages_[i];
            s.input.stream = stream;
            s.input.weights = weights;
            rows_view<T> to = grad_in;
            if (i != 0) to = {gradients_[i % 2], stages_[i - 1].outputs, row_stride(stages_[i - 1].outputs)};
            run_backward(i, g, to);
            g = to;
            if (i == 0 || !exchanged(i - 1)) continue;
            const layer_input<T>& of = stages_[i - 1].input;
            between_->gradients(stream, i, of.targets().count, of.view.target_capacity, g);
        }
    }

private:
    struct stage {
        layer_surround around{};
        std::size_t outputs = 0;
        bool takes_hop = true;
        double attention_dropout = 0;
        std::unique_ptr<graph_layer<T>> layer{};
        weight_array gain{}, shift{};
        std::optional<layer_weight<T>> residual{};
        layer_input<T> input{};
        rows_view<T> dropped{};                   ///< first stage: its input rows after dropout
        rows_view<T> plain{}, activated{}, out{}; ///< before the norm, before the residual, final
        rows_view<T> gradient{};                  ///< gradient of the activation's input, if that of the output is kept
        rows_view<float> moments{};
    };

    static constexpr float epsilon = 1e-5F; // added to the variance in layer normalization

    [[nodiscard]] static std::size_t row_stride(std::size_t columns) noexcept {
        return round_up(columns, 16 / sizeof(T));
    }

    void make(stage& s, const layer_setup& with, const any_layer<T>& of) {
        const layer_surround& around = s.around = of.around();
        const std::size_t width = s.outputs = of.outputs();
        s.takes_hop = of.takes_hop();
        s.attention_dropout = of.attention_dropout();
        s.layer = of.make(with);
        const auto target_rows = [&] { return with.rows<T>(with.capacity.targets, width); };
        s.out = target_rows();
        if (around.norm) {
            s.gain = with.array("gain", 1, width);
            s.shift = with.array("shift", 1, width);
            s.plain = target_rows();
            s.moments = with.rows<float>(with.capacity.targets, 2);
            with.scratch.need(with.capacity.targets, width);
        }
        if (around.residual) {
            s.activated = target_rows();
            s.gradient = target_rows();
            if (with.in.sparse != 0 || with.in.dense != width) s.residual.emplace(with, true, "residual", width);
        }
        if (&s == &stages_.front() && with.in.dense != 0 && around.dropout > 0)
            s.dropped = with.rows<T>(with.capacity.sources, with.in.dense);
    }

    void check(std::span<const layer_view> views, const encoder_input<T>& input) const {
        const auto need = [](bool holds, const char* what) {
            if (!holds) throw error(errc::invalid_argument, what);
        };
        need(views.size() == hops(), "the number of hops differs from the encoder's");
        need(dense_columns(input.dense) == in_.dense && input.sparse.columns == in_.sparse,
            "rows of a batch do not have the width of the encoder's input");
        need(input.count != nullptr || !views.empty(), "rows without hops need a count");
        for (std::size_t i = 0; i < views.size(); ++i)
            need(views[i].target_capacity <= most_.hops[i].targets &&
                    views[i].source_capacity <= most_.hops[i].sources && views[i].edge_capacity <= most_.hops[i].edges,
                "a batch's capacities are above those of the encoder");
    }

    /// Returns the mask of a stage's rows, or of others with the names of its sources.
    [[nodiscard]] dropout_mask mask(std::size_t names_of, const random_key* key, double rate) const {
        if (pass_.training == nullptr || rate == 0) return {};
        return {.rate = dropout_rate(rate),
            .key = key,
            .ids = pass_.names,
            .size = &state_[names_of].names,
            .begin = &state_[names_of].begin};
    }
    /// Returns the mask of the output rows of a stage, which are the input of the next.
    [[nodiscard]] dropout_mask behind(std::size_t i) const {
        return i + 1 == stages_.size() ? dropout_mask{}
                                       : mask(i + 1, &state_[i + 1].rows, stages_[i + 1].around.dropout);
    }
    /// True if the output rows of a stage are exchanged before they are dropped out.
    [[nodiscard]] bool exchanged(std::size_t i) const {
        return between_ != nullptr && i + 1 < stages_.size() && between_->exchanges(i + 1);
    }
    /// Exchanges the output rows of a stage, if asked, and drops them out.
    void exchange(std::size_t i) {
        if (!exchanged(i)) return;
        const stage& s = stages_[i];
        const std::uint32_t* const count = s.input.targets().count;
        const std::uint32_t capacity = s.input.view.target_capacity;
        between_->rows(s.input.stream, i + 1, count, capacity, s.out);
        const dropout_mask dropout = behind(i);
        if (dropout.drops()) cuda::dropout<T>(s.input.stream, count, capacity, dropout, s.out, s.out);
    }
    [[nodiscard]] static const std::uint32_t* own_first(const stage& s) noexcept {
        return &s.input.view.counts->first_target;
    }

    /// Prepares the input rows for the first layer.
    void enter(cudaStream_t stream, const encoder_input<T>& input, const std::uint32_t* count) {
        stage& s = stages_.front();
        input_rows<T>& rows = s.input.rows;
        rows = {.dense = input.dense, .ids = input.ids, .own_first = own_first(s), .sparse = input.sparse};
        if (rows.has_sparse()) rows.sparse.dropout = mask(0, &state_[0].words, s.around.dropout);
        const dropout_mask dropout = mask(0, &state_[0].rows, s.around.dropout);
        if (in_.dense == 0 || !dropout.drops()) return;
        std::visit(
            [&]<class In>(rows_view<const In> from) {
                gather_rows<T, In>(
                    stream, {count, s.input.view.source_capacity, nullptr, input.ids}, from, s.dropped, dropout);
            },
            input.dense);
        rows.dense = rows_view<const T>(s.dropped);
        rows.ids = nullptr;
    }

    void run(std::size_t i) {
        stage& s = stages_[i];
        const layer_input<T>& in = s.input;
        const std::uint32_t* const count = in.targets().count;
        const std::uint32_t capacity = in.view.target_capacity;
        const bool residual = s.around.residual;
        const dropout_mask dropout = exchanged(i) ? dropout_mask{} : behind(i),
                           first = residual ? dropout_mask{} : dropout;
        const rows_view<T> to = residual ? s.activated : s.out;
        if (s.around.norm) {
            s.layer->forward(in, activation::none, {}, s.plain);
            layer_norm<T>(in.stream, count, capacity, s.plain, s.gain.value(in.weights).data,
                s.shift.value(in.weights).data, epsilon, to, s.moments);
            if (s.around.then != activation::none || first.drops())
                bias_activate<T>(in.stream, count, capacity, nullptr, s.around.then, to, to, first);
        } else {
            s.layer->forward(in, s.around.then, first, to);
        }
        if (s.residual) {
            s.residual->multiply(in, s.out);
            add_rows<T>(in.stream, in.targets(), s.activated, s.out, s.out, dropout);
        } else if (residual) {
            std::visit(
                [&]<class In>(rows_view<const In> x) {
                    add_rows<T, In>(in.stream, in.own_rows(), s.activated, x, s.out, dropout);
                },
                in.rows.dense);
        }
    }

    void run_backward(std::size_t i, rows_view<T> g, rows_view<T> grad_in) {
        stage& s = stages_[i];
        const layer_input<T>& in = s.input;
        const std::uint32_t* const count = in.targets().count;
        const std::uint32_t capacity = in.view.target_capacity;
        const dropout_mask dropout = behind(i);
        rows_view<T> inner = g; // gradient of the activation's input
        if (s.around.residual) {
            if (dropout.drops()) cuda::dropout<T>(in.stream, count, capacity, dropout, g, g);
            inner = s.gradient;
            activate_backward<T>(in.stream, count, capacity, s.around.then, s.activated, g, inner);
        } else if (dropout.drops() || s.around.then != activation::none) {
            activate_backward<T>(in.stream, count, capacity, s.around.then, s.out, g, inner, dropout);
        }
        if (s.around.norm)
            layer_norm_backward<T>(in.stream, count, capacity, s.plain, s.moments, s.gain.value(in.weights).data, inner,
                s.gain.gradient(in.weights).data, s.shift.gradient(in.weights).data, scratch_.data());
        s.layer->backward(in, inner, grad_in);
        if (s.residual)
            s.residual->backward(in, g, grad_in, true);
        else if (s.around.residual && grad_in.data != nullptr)
            add_rows_backward<T>(in.stream, in.own_sources(), g, grad_in);
        if (i != 0 || grad_in.data == nullptr) return; // for later layers, the previous layer drops them
        const dropout_mask of_input = mask(0, &state_[0].rows, s.around.dropout);
        if (of_input.drops())
            cuda::dropout<T>(in.stream, &in.view.counts->sources, in.view.source_capacity, of_input, grad_in, grad_in);
    }

    input_columns in_;
    encoder_capacity most_;
    shared_scratch scratch_;
    std::vector<stage> stages_;
    T* gradients_[2] = {}; ///< gradients of a layer's sources, alternating
    detail::stage_state* state_ = nullptr;
    encoder_pass pass_{};
    row_exchange<T>* between_ = nullptr;
};

} // namespace gneiss::cuda
