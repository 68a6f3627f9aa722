// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/aggregate.cuh>
#include <gneiss/cuda/model/device/edge_functions.cuh>
#include <gneiss/cuda/model/device/linear.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/model/step/dense_parameters.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/kernels.hpp>
#include <gneiss/model/layer/edge_operations.hpp>
#include <gneiss/model/layer/message_columns.hpp>

namespace gneiss::cuda {

namespace detail {

/// Calls f(i, k) for each value of the first *rows rows.
template <class F, unsigned Threads>
__global__ void __launch_bounds__(Threads) apply_to_values(const std::uint32_t* rows, std::uint32_t columns, F f) {
    const std::size_t values = std::size_t{__ldg(rows)} * columns;
    for (std::size_t at = std::size_t{blockIdx.x} * Threads + threadIdx.x; at < values;
        at += std::size_t{gridDim.x} * Threads)
        f(at / columns, at % columns);
}

/// A function of rows as one of values.
template <class F>
struct of_row {
    F f;
    GNEISS_HD void operator()(std::size_t i, std::size_t) const { f(i); }
};

} // namespace detail

/// `gneiss::layer_context` on a device: matrices are in its memory and have as many rows as a batch may, of which
/// kernels, and functions of rows and values, see those that it has. All calls are asynchronous. There are no `kernels`
/// and no `executor` here.
class layer_context {
public:
    /// Finds the arrays that `layer` allocates by their names, and takes memory for `kept` floats. Throws
    /// `invalid_argument` for arrays that are not in the weights.
    template <class Layer>
    layer_context(const layer_setup& with, Layer& layer, std::uint64_t kept)
        : scratch_(with.scratch),
          kept_memory_(with.memory.take<float>(static_cast<std::size_t>(kept + spare))),
          limit_(kept) {
        dense_parameters<float> own;
        layer.allocate(own, with.name, with.in.dense);
        for (const auto& a : own.arrays()) {
            arrays_.push_back({weight_array::find(with.weights, a.name, a.rows, a.columns), a.rows});
            with.scratch.need(std::max(with.capacity.targets, with.capacity.sources), a.size());
        }
    }

    /// Returns the values of an array.
    [[nodiscard]] matrix_view<const float> value(std::size_t array) const noexcept {
        return {arrays_[array].at.value(weights_).data, arrays_[array].rows, arrays_[array].at.columns};
    }
    /// Returns the values of an array as a list.
    [[nodiscard]] std::span<const float> list(std::size_t array) const noexcept {
        return {value(array).data(), value(array).rows() * value(array).columns()};
    }
    /// Gradients are accumulated.
    [[nodiscard]] matrix_view<float> gradient(std::size_t array) const noexcept {
        return {arrays_[array].at.gradient(weights_).data, arrays_[array].rows, arrays_[array].at.columns};
    }
    /// Returns the gradients of an array as a list.
    [[nodiscard]] std::span<float> gradient_list(std::size_t array) const noexcept {
        return {gradient(array).data(), gradient(array).rows() * gradient(array).columns()};
    }

    /// As on the host. Throws `invalid_argument` beyond the layer's `kept_floats`.
    [[nodiscard]] matrix_view<float> keep(std::size_t number, std::size_t rows, std::size_t columns) {
        if (number >= kept_.size()) kept_.resize(number + 1);
        buffer& kept = kept_[number];
        const std::uint64_t floats = std::uint64_t{rows} * columns;
        if (kept.size < floats) { // not yet in this batch, or less
            kept = {end_, floats};
            end_ += round_up<std::uint64_t>(floats, 4);
            used_ += floats;
        }
        if (used_ > limit_ || end_ > limit_ + spare)
            throw error(errc::invalid_argument,
                "a layer keeps " + std::to_string(used_) + " floats where its kept_floats says " +
                    std::to_string(limit_));
        return {kept_memory_ + kept.begin, rows, columns};
    }

    /// Writes out = a w, then the epilogue.
    void multiply(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out,
        const gneiss::epilogue<float>& then = {}) const {
        linear<float>(stream_, rows_, rows_view<const float>(a), rows_view<const float>(w), rows_view<float>(out),
            {.accumulate = then.accumulate, .bias = then.bias.empty() ? nullptr : then.bias.data(), .then = then.then});
    }
    void multiply_nt(
        matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out, bool accumulate = false) const {
        linear_input_gradient<float>(
            stream_, rows_, rows_view<const float>(a), rows_view<const float>(w), rows_view<float>(out), accumulate);
    }
    /// Precondition: `out` is no larger than one of the layer's arrays.
    void add_tn(matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out) const {
        linear_weight_gradient<float>(stream_, rows_, rows_view<const float>(a), rows_view<const float>(g),
            rows_view<float>(out), scratch_.data());
    }
    /// Adds the column sums of g to `out`. Precondition: that of `add_tn`.
    void add_column_sums(matrix_view<const float> g, std::span<float> out) const {
        cuda::add_column_sums<float>(stream_, rows_, rows_view<const float>(g), scratch_.data(), out.data());
    }
    /// g *= act'(x), where y = act(x).
    void activate_backward(activation act, matrix_view<const float> y, matrix_view<float> g) const {
        cuda::activate_backward<float>(stream_, rows_.count, rows_.capacity, act, rows_view<const float>(y),
            rows_view<const float>(matrix_view<const float>(g)), rows_view<float>(g));
    }
    /// Calls `f` for each row, a thread a row. `f` is copied to the device: a function object whose call is GNEISS_HD.
    template <class F>
    void apply_nodes(std::size_t rows, const F& f) const {
        apply_values(rows, 1, detail::of_row<F>{f});
    }
    /// Calls f(row, column) for each value, a thread a value. `f` as of `apply_nodes`.
    template <class F>
    void apply_values(std::size_t rows, std::size_t columns, const F& f) const {
        static_assert(std::is_trivially_copyable_v<F>, "a function object for a device holds views and numbers alone");
        launch(stream_, detail::apply_to_values<F, 256>, detail::strided_grid(rows * columns, 256), 256, 0, rows_.count,
            static_cast<std::uint32_t>(columns), f);
    }

    /// For the adapter: a pass begins with one of these; backward keeps what forward kept.
    void begin(const layer_input<float>& in) {
        begin_backward(in);
        for (buffer& one : kept_) one = {};
        end_ = used_ = 0;
    }
    void begin_backward(const layer_input<float>& in) {
        stream_ = in.stream;
        weights_ = in.weights;
    }
    /// For the adapter: matrices of the next calls have these rows.
    void over(const row_range& rows) noexcept { rows_ = rows; }

private:
    static constexpr std::uint64_t spare = 64; // floats, for parts that begin at multiples of 16 bytes

    struct array {
        weight_array at{};
        std::size_t rows = 0;
    };
    struct buffer {
        std::uint64_t begin = 0, size = 0; // floats
    };

    std::vector<array> arrays_;
    const shared_scratch& scratch_;
    float* kept_memory_;
    std::uint64_t limit_, end_ = 0, used_ = 0;
    std::vector<buffer> kept_;
    cudaStream_t stream_ = nullptr;
    dense_weights weights_{};
    row_range rows_{};
};

/// A `gneiss::message_passing_layer` that also runs on a device: its functions take the device's `layer_context`, and
/// what they give to `apply_nodes` and `apply_values` are function objects whose call is GNEISS_HD. Functions of edges,
/// if any, are GNEISS_HD.
template <class L>
concept message_passing_layer =
    std::copy_constructible<L> && (!gneiss::detail::looks_at_edges<L, float> || edge_functions<L>) &&
    requires(L& l, const L& c, dense_parameters<float>& weights, const std::string& name, std::size_t inputs,
        layer_context& context, matrix_view<const float> in, matrix_view<float> out) {
        { c.outputs() } -> std::convertible_to<std::size_t>;
        { c.reduce } -> std::convertible_to<message_reduction>;
        l.allocate(weights, name, inputs);
        c.update(context, in, in, out);
        c.update_backward(context, in, in, in, out, out);
    };

/// A message passing layer on a device: `gneiss::message_layer` with the same arrays.
///
/// Cost: that of the layer's functions, and of aggregation: a row read per edge. Copies the targets' own rows; where
/// messages are functions of rows or edges and rows come from a table, those of all sources, too.
template <message_passing_layer Layer>
class message_layer final : public graph_layer<float> {
    static constexpr bool sends = gneiss::detail::sends_messages<Layer>,
                          looks_at_edges = gneiss::detail::looks_at_edges<Layer, float>;

public:
    /// Throws `invalid_argument` for sparse rows, or arrays that are not in the weights.
    message_layer(const layer_setup& with, Layer layer)
        : layer_(std::move(layer)),
          columns_(gneiss::detail::edge_columns<float>(layer_, with.in.dense)),
          context_(with, layer_, gneiss::detail::kept_floats(layer_, sizes_of(with))),
          own_(with.rows<float>(with.capacity.targets, with.in.dense)),
          grad_own_(with.rows<float>(with.capacity.targets, with.in.dense)),
          reduced_(with.rows<float>(with.capacity.targets, columns_)),
          grad_reduced_(with.rows<float>(with.capacity.targets, columns_)) {
        if (with.in.sparse != 0)
            throw error(
                errc::invalid_argument, "a message passing layer takes no sparse rows: put a linear layer in front");
        if (layer_.reduce == message_reduction::max)
            winners_ = with.rows<std::uint32_t>(with.capacity.targets, columns_);
        if constexpr (sends || looks_at_edges) sources_ = with.rows<float>(with.capacity.sources, with.in.dense);
        if constexpr (sends) {
            const std::size_t sent = gneiss::detail::sent_columns(layer_, with.in.dense);
            messages_ = with.rows<float>(with.capacity.sources, sent);
            grad_messages_ = with.rows<float>(with.capacity.sources, sent);
        }
        if constexpr (looks_at_edges) along_edge_ = with.rows<float>(with.capacity.targets, columns_);
    }

    /// Messages with weights get gradients by source.
    [[nodiscard]] bool needs_lists_by_source() const noexcept override { return sends; }

    void forward(
        const layer_input<float>& in, activation then, const dropout_mask& dropout, rows_view<float> out) override {
        context_.begin(in);
        std::visit(
            [&]<class In>(rows_view<const In> x) {
                gather_rows<float, In>(in.stream, in.own_rows(), x, own_);
                if constexpr (sends || looks_at_edges)
                    send(in, x);
                else
                    reduce(in, gathered(incoming(in.view), in.rows.ids), x);
            },
            in.rows.dense);
        context_.over(in.targets());
        layer_.update(context_, of_targets(in, own_), of_targets(in, reduced_), targets(in, out));
        if (then != activation::none || dropout.drops())
            bias_activate<float>(
                in.stream, in.targets().count, in.view.target_capacity, nullptr, then, out, out, dropout);
    }

    void backward(const layer_input<float>& in, rows_view<const float> g, rows_view<float> grad_in) override {
        context_.begin_backward(in);
        context_.over(in.targets());
        const bool wanted = grad_in.data != nullptr;
        layer_.update_backward(context_, of_targets(in, own_), of_targets(in, reduced_), of_targets(in, g),
            wanted ? targets(in, grad_own_) : matrix_view<float>(),
            wanted || sends ? targets(in, grad_reduced_) : matrix_view<float>());
        if constexpr (sends) {
            push(in, grad_messages_);
            context_.over(in.sources());
            layer_.message_backward(context_, of_sources(in, rows_), of_sources(in, messages_),
                of_sources(in, grad_messages_), wanted ? sources(in, grad_in) : matrix_view<float>());
        } else if (wanted) {
            push(in, grad_in);
        }
        if (wanted) add_rows_backward<float>(in.stream, in.own_sources(), grad_own_, grad_in);
    }

private:
    using rows = matrix_view<const float>;

    [[nodiscard]] static layer_sizes sizes_of(const layer_setup& with) {
        return {.in = with.in,
            .sources = with.capacity.sources,
            .targets = with.capacity.targets,
            .edges = with.capacity.edges};
    }
    [[nodiscard]] static rows of_targets(const layer_input<float>& in, rows_view<const float> of) {
        return {of.data, in.view.target_capacity, of.columns, of.stride};
    }
    [[nodiscard]] static rows of_sources(const layer_input<float>& in, rows_view<const float> of) {
        return {of.data, in.view.source_capacity, of.columns, of.stride};
    }
    [[nodiscard]] static matrix_view<float> targets(const layer_input<float>& in, rows_view<float> of) {
        return {of.data, in.view.target_capacity, of.columns, of.stride};
    }
    [[nodiscard]] static matrix_view<float> sources(const layer_input<float>& in, rows_view<float> of) {
        return {of.data, in.view.source_capacity, of.columns, of.stride};
    }

    /// Computes the messages of the sources' rows, and of edges, and reduces them.
    template <class In>
    void send(const layer_input<float>& in, rows_view<const In> x) {
        rows_ = sources_;
        if constexpr (std::is_same_v<In, float>)
            if (in.rows.ids == nullptr) rows_ = x;
        if (rows_.data == sources_.data) gather_rows<float, In>(in.stream, in.all_rows(), x, sources_);
        if constexpr (sends) {
            context_.over(in.sources());
            layer_.message(context_, of_sources(in, rows_), sources(in, messages_));
        }
        if constexpr (looks_at_edges)
            reduce_edges(in.stream, layer_, in.view, layer_.reduce, sent(), along_edge_, reduced_, winners_);
        else
            reduce<float>(in, incoming(in.view), messages_);
    }
    /// Returns the messages of rows [sources, sent columns].
    [[nodiscard]] rows_view<const float> sent() const noexcept {
        return sends ? rows_view<const float>(messages_) : rows_;
    }
    /// Reduces rows at the other end of the lists.
    template <class In>
    void reduce(const layer_input<float>& in, const edge_lists& lists, rows_view<const In> x) {
        if (layer_.reduce == message_reduction::max)
            aggregate_max<float, In>(in.stream, lists, x, reduced_, winners_);
        else
            aggregate<float, In>(in.stream, lists, weight(), x, reduced_);
    }
    /// Computes the gradients of messages from those of the reduced rows.
    void push(const layer_input<float>& in, rows_view<float> to) {
        if constexpr (looks_at_edges)
            push_edges(in.stream, layer_, in.view, layer_.reduce, sent(), grad_reduced_, winners_, to);
        else if (layer_.reduce == message_reduction::max)
            aggregate_max_backward<float>(in.stream, outgoing(in.view), grad_reduced_, winners_, to);
        else
            aggregate<float>(in.stream, outgoing(in.view), weight(), grad_reduced_, to);
    }
    [[nodiscard]] edge_weight weight() const {
        return layer_.reduce == message_reduction::mean ? edge_weight::mean : edge_weight::one;
    }

    Layer layer_;
    std::size_t columns_; ///< of a message along an edge
    layer_context context_;
    rows_view<float> own_, grad_own_;               ///< [targets, inputs]
    rows_view<float> reduced_, grad_reduced_;       ///< [targets, columns]
    rows_view<std::uint32_t> winners_{};            ///< [targets, columns], for maximum
    rows_view<float> sources_{};                    ///< [sources, inputs], if they come from a table
    rows_view<const float> rows_{};                 ///< the sources' rows in the batch
    rows_view<float> messages_{}, grad_messages_{}; ///< [sources, sent columns], unless they are the rows
    rows_view<float> along_edge_{};                 ///< [targets, columns], scratch of functions of edges
};

} // namespace gneiss::cuda
