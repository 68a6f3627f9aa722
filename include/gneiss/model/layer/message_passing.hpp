// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/model/backend/plain.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/layer/edge_operations.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/model/layer/message_columns.hpp>

namespace gneiss {

/// Interface of a batch for the functions of a message passing layer: weights by the number that adding them returned,
/// memory, and the kernels of `gnn_kernels` on the batch's executor. One thread calls at a time.
template <class T, gnn_kernels<T> Backend>
class layer_context {
public:
    /// Returns the kernels.
    [[nodiscard]] const Backend& kernels() const noexcept { return by_; }
    /// Returns the executor of the batch.
    [[nodiscard]] executor_ref executor() const noexcept { return *executor_; }

    /// Returns the values of an array.
    [[nodiscard]] matrix_view<const T> value(std::size_t array) const noexcept { return values_->value(array); }
    /// Returns the values of an array as a list.
    [[nodiscard]] std::span<const T> list(std::size_t array) const noexcept { return values_->list(array); }
    /// Gradients are accumulated. Precondition: in backward.
    [[nodiscard]] matrix_view<T> gradient(std::size_t array) const noexcept { return gradients_->gradient(array); }
    /// Returns the gradients of an array as a list.
    [[nodiscard]] std::span<T> gradient_list(std::size_t array) const noexcept {
        return gradients_->gradient_list(array);
    }

    /// Returns memory by number; in backward it holds the data of forward. Throws `invalid_argument` beyond the layer's
    /// `kept_floats`, which memory plans use.
    [[nodiscard]] matrix_view<T> keep(std::size_t number, std::size_t rows, std::size_t columns) {
        if (number >= kept_.size()) kept_.resize(number + 1);
        buffer& kept = kept_[number];
        kept.used = std::max<std::uint64_t>(kept.used, std::uint64_t{rows} * columns);
        std::uint64_t sum = 0;
        for (const buffer& b : kept_) sum += b.used;
        if (sum > limit_)
            throw error(errc::invalid_argument,
                "a layer keeps " + std::to_string(sum) + " floats where its kept_floats says " +
                    std::to_string(limit_));
        return {kept.memory.at_least(rows * columns), rows, columns};
    }

    /// Frees memory between batches.
    void release() noexcept { kept_.clear(); }

    /// Writes out = a w, then the epilogue.
    void multiply(
        matrix_view<const T> a, matrix_view<const T> w, matrix_view<T> out, const epilogue<T>& then = {}) const {
        by_.multiply(a, w, out, then, *executor_);
    }
    void multiply_nt(
        matrix_view<const T> a, matrix_view<const T> w, matrix_view<T> out, bool accumulate = false) const {
        by_.multiply_nt(a, w, out, accumulate, *executor_);
    }
    void add_tn(matrix_view<const T> a, matrix_view<const T> g, matrix_view<T> out) const {
        by_.add_tn(a, g, out, *executor_);
    }
    /// Adds the column sums of g to `out`.
    void add_column_sums(matrix_view<const T> g, std::span<T> out) const { by_.add_column_sums(g, out, *executor_); }
    /// g *= act'(x), where y = act(x).
    void activate_backward(activation act, matrix_view<const T> y, matrix_view<T> g) const {
        by_.activate_backward(act, y, g, *executor_);
    }
    /// Calls `f` for each row, in parallel.
    template <class F>
    void apply_nodes(std::size_t rows, F&& f) const {
        gneiss::apply_nodes(rows, *executor_, f);
    }
    /// Calls f(row, column) for each value, in parallel.
    template <class F>
    void apply_values(std::size_t rows, std::size_t columns, F&& f) const {
        apply_nodes(rows, [&](std::size_t i) {
            for (std::size_t k = 0; k < columns; ++k) f(i, k);
        });
    }

    /// Context with the kernels of a backend.
    explicit layer_context(const Backend& by) : by_(by) {}
    /// For the adapter: each pass begins with one of these. `limit` is in floats; backward keeps that of forward.
    void begin(const dense_parameters<T>& weights, std::uint64_t limit, executor_ref executor) {
        values_ = &weights;
        gradients_ = nullptr;
        executor_.emplace(executor);
        limit_ = limit;
        for (buffer& b : kept_) b.used = 0;
    }
    /// Starts a backward pass, which adds to the gradients of `weights`.
    void begin_backward(dense_parameters<T>& weights, executor_ref executor) {
        values_ = gradients_ = &weights;
        executor_.emplace(executor);
    }

private:
    struct buffer {
        reusable_buffer<T> memory;
        std::uint64_t used = 0;
    };

    Backend by_;
    const dense_parameters<T>* values_ = nullptr;
    dense_parameters<T>* gradients_ = nullptr;
    std::optional<executor_ref> executor_;
    std::uint64_t limit_ = 0;
    std::vector<buffer> kept_;
};

/// A custom GNN layer, written as message, reduce, update, as in PyTorch Geometric's MessagePassing. A value, copied
/// into each encoder; functions are templates over their matrices (`auto`), so that gradients are checked in double.
///
/// Meaning:
///
///     l.outputs()                       number of output columns
///     l.reduce                          a `message_reduction`: reduces the messages of a target's edges to one row
///     l.allocate(weights, name, inputs) adds its arrays to `dense_parameters` and remembers their numbers
///     l.update(c, own, reduced, out)    new rows of targets [n, outputs], from their own rows [n, inputs] and the
///                                       reduced messages; c is a `layer_context`
///     l.update_backward(c, own, reduced, g, grad_own, grad_reduced)
///                                       adds to the weights' gradients and writes both others; either is empty if it
///                                       is not needed. g is the gradient of `out`
///
/// Optional; without them a message is the source's row:
///
///     l.message_columns(inputs), l.message(c, rows, messages), l.message_backward(c, rows, messages, g, grad_rows)
///                                       the message of a row along all its edges, optionally with weights
///     l.edge_columns(inputs), l.edge(source, target, out),
///     l.edge_backward(source, target, g, grad_source, grad_target)
///                                       the message along one edge, from the messages of its source and its target,
///                                       row by row and many at a time; backward *adds* to both
///     l.kept_floats(sizes)              maximum floats of `c.keep`, from `layer_sizes`; default 0
///
/// The same layer runs on a GPU (`cuda/model/layer/any_layer.cuh`) if it gives `apply_nodes` and `apply_values`
/// function objects whose call is GNEISS_HD, which hold views and numbers, and its functions of edges, if any, are
/// GNEISS_HD, too: then it is trivially copyable, and their rows are whatever has `[]` and `size()`.
///
/// Cost: message and update are called once per batch, for all rows; edge once per edge, and twice in backward.
/// The same operands give the same bits.
///
/// From examples/19_own_layer.cpp:
/// \snippet 19_own_layer.cpp layer
template <class L, class T = float, class Backend = plain_backend<T>>
concept message_passing_layer = std::copy_constructible<L> &&
    requires(L& l, const L& c, dense_parameters<T>& weights, const std::string& name, std::size_t inputs,
        layer_context<T, Backend>& context, matrix_view<const T> in, matrix_view<T> out) {
        { c.outputs() } -> std::convertible_to<std::size_t>;
        { c.reduce } -> std::convertible_to<message_reduction>;
        l.allocate(weights, name, inputs);
        c.update(context, in, in, out);
        c.update_backward(context, in, in, in, out, out);
    };

namespace detail {

/// Adds the message of edge e to the target's row; `first` for the first edge of its target.
template <class T>
void reduce_message(message_reduction reduce, bool first, std::span<const T> message, std::size_t e, std::span<T> out,
    std::span<std::uint32_t> winners) noexcept {
    if (reduce != message_reduction::max) {
        for (std::size_t c = 0; c < out.size(); ++c) out[c] += message[c];
        return;
    }
    for (std::size_t c = 0; c < out.size(); ++c) {
        if (!first && !(message[c] > out[c])) continue;
        out[c] = message[c];
        if (!winners.empty()) winners[c] = static_cast<std::uint32_t>(e);
    }
}

/// Computes the gradient of an edge's message from that of its target's reduced row.
template <class T>
void message_gradient(const layer_view& view, message_reduction reduce, std::size_t e, std::size_t t,
    matrix_view<const T> g, matrix_view<const std::uint32_t> winners, std::span<T> out) noexcept {
    const T share = reduce == message_reduction::mean ? share_of<T>(view, t) : T{1};
    for (std::size_t c = 0; c < out.size(); ++c)
        out[c] = reduce == message_reduction::max ? (winners(t, c) == e ? g(t, c) : T{0}) : share * g(t, c);
}

/// The simplest layer: the mean of the neighbors' rows.
struct neighbor_mean {
    static constexpr message_reduction reduce = message_reduction::mean;
    std::size_t width = 0;

    [[nodiscard]] std::size_t outputs() const { return width; }
    void allocate(auto& /*weights*/, const std::string& /*name*/, std::size_t /*inputs*/) {}
    void update(auto& c, auto /*own*/, auto reduced, auto out) const { copy_rows(reduced, out, c.executor()); }
    void update_backward(auto& c, auto /*own*/, auto /*reduced*/, auto g, auto grad_own, auto grad_reduced) const {
        c.apply_nodes(grad_own.rows(), [&](std::size_t i) { std::ranges::fill(grad_own[i], 0); });
        if (!grad_reduced.empty()) copy_rows(g, grad_reduced, c.executor());
    }
};
static_assert(message_passing_layer<neighbor_mean>);

} // namespace detail

/// A message passing layer as a `graph_layer`, whole and in parts; made by `any_layer_factory`.
template <class T, gnn_kernels<T> Backend, class Layer>
class message_layer final : public graph_layer<T> {
    static constexpr bool sends = detail::sends_messages<Layer>, looks_at_edges = detail::looks_at_edges<Layer, T>;

public:
    /// Throws `invalid_argument` for sparse rows.
    message_layer(
        Layer layer, dense_parameters<T>& weights, const std::string& name, input_columns in, const Backend& by = {})
        : layer_(std::move(layer)),
          in_(in),
          context_(by) {
        if (in.sparse != 0)
            throw error(
                errc::invalid_argument, "a message passing layer takes no sparse rows: put a linear layer in front");
        layer_.allocate(weights, name, in.dense);
    }

    [[nodiscard]] std::size_t outputs() const override { return layer_.outputs(); }
    /// Returns the most memory of the layer in a batch [bytes].
    [[nodiscard]] static std::uint64_t memory(const Layer& layer, const layer_sizes& of) {
        const std::uint64_t reduced = of.targets * detail::edge_columns<T>(layer, of.in.dense);
        std::uint64_t floats = 2 * reduced + of.targets * of.in.dense + detail::kept_floats(layer, of);
        if (layer.reduce == message_reduction::max) floats += reduced; // 4-byte integers are counted, too
        if constexpr (sends) floats += 2 * of.sources * layer.message_columns(of.in.dense);
        return floats * sizeof(T);
    }

    void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) override {
        context_.begin(weights, detail::kept_floats(layer_, sizes_of(in.view)), in.on);
        messages_ = in.rows.dense;
        if constexpr (sends) {
            const matrix_view<T> to = rows_of(message_memory_, in.view.sources, layer_.message_columns(in_.dense));
            layer_.message(context_, in.rows.dense, to);
            messages_ = to;
        }
        reduced_ = rows_of(reduced_memory_, in.view.targets, columns());
        winners_ = {};
        if (layer_.reduce == message_reduction::max) winners_ = rows_of(winner_memory_, in.view.targets, columns());
        if constexpr (looks_at_edges)
            pull_edges(in);
        else
            pull(context_.kernels(), in.view, layer_.reduce, messages_, reduced_, winners_, in.on);
        layer_.update(context_, in.own_rows().dense, matrix_view<const T>(reduced_), out);
        context_.kernels().bias_activate({}, then, out, in.on);
    }

    void release() override {
        context_.release();
        for (reusable_buffer<T>* memory : {&message_memory_, &message_gradient_memory_, &reduced_memory_,
                 &reduced_gradient_memory_, &own_gradient_memory_})
            *memory = {};
        winner_memory_ = {};
    }

    void backward(dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g,
        matrix_view<T> grad_in) override {
        context_.begin_backward(weights, in.on);
        const bool wanted = !grad_in.empty();
        matrix_view<T> grad_own{}, grad_reduced{};
        if (wanted) grad_own = rows_of(own_gradient_memory_, in.view.targets, in_.dense);
        if (wanted || sends) grad_reduced = rows_of(reduced_gradient_memory_, in.view.targets, columns());
        layer_.update_backward(
            context_, in.own_rows().dense, matrix_view<const T>(reduced_), g, grad_own, grad_reduced);
        if (!wanted && !sends) return;
        matrix_view<T> grad_messages = grad_in;
        if constexpr (sends) grad_messages = rows_of(message_gradient_memory_, in.view.sources, messages_.columns());
        push_back(in, grad_reduced, grad_messages);
        if constexpr (sends)
            layer_.message_backward(context_, in.rows.dense, messages_, matrix_view<const T>(grad_messages), grad_in);
        if (wanted)
            context_.kernels().add_rows(grad_own, grad_in.middle_rows(in.view.first_target, in.view.targets), in.on);
    }

    /// Messages; own [rows, messages if edges use the target's]; sums [reduced, the same].
    [[nodiscard]] part_columns parts() const override {
        const std::size_t sent = detail::sent_columns(layer_, in_.dense), of_target = looks_at_edges ? sent : 0;
        return {.messages = sent,
            .own = in_.dense + of_target,
            .sums = columns() + of_target,
            .begins = looks_at_edges,
            .copies = !sends};
    }
    void prepare(const dense_parameters<T>& weights, const input_rows<T>& rows, std::span<const float>,
        matrix_view<T> messages, matrix_view<T> own, executor_ref executor) override {
        begin_part(weights, rows.rows(), executor);
        const auto send = [&](matrix_view<T> to) {
            if constexpr (sends)
                layer_.message(context_, rows.dense, to);
            else
                detail::copy_rows<T>(rows.dense, to, executor);
        };
        if (messages.columns() != 0) send(messages);
        if (own.columns() == 0) return;
        detail::copy_rows<T>(rows.dense, own.middle_columns(0, in_.dense), executor);
        if (!looks_at_edges) return;
        const matrix_view<T> of_target = own.middle_columns(in_.dense, own.columns() - in_.dense);
        if (messages.columns() != 0)
            detail::copy_rows<T>(messages, of_target, executor);
        else
            send(of_target);
    }
    void begin(matrix_view<const T> own, matrix_view<T> sums, executor_ref executor) override {
        if (looks_at_edges)
            detail::copy_rows<T>(own.middle_columns(in_.dense, own.columns() - in_.dense),
                sums.middle_columns(columns(), sums.columns() - columns()), executor);
    }
    void add(const edge_part& part, std::span<const std::uint32_t> seen, matrix_view<const T> messages,
        matrix_view<T> sums, executor_ref executor) override {
        if constexpr (looks_at_edges) {
            parallel_for(executor, part.edges.size(), 64, [&](std::size_t i, std::size_t end) {
                std::vector<T> message(columns());
                for (; i < end; ++i) {
                    const std::span<T> row = sums[part.targets[i]], reduced = row.first(columns());
                    for (std::size_t e = part.edges.offsets[i]; e < part.edges.offsets[i + 1]; ++e) {
                        layer_.edge(messages[part.edges.rows[e]], std::span<const T>(row.subspan(columns())),
                            std::span(message));
                        const bool first = seen[part.targets[i]] == 0 && e == part.edges.offsets[i];
                        detail::reduce_message<T>(layer_.reduce, first, message, e, reduced, {});
                    }
                }
            });
        } else if (layer_.reduce == message_reduction::max) {
            context_.kernels().raise_segments(part, seen, messages, sums, executor);
        } else {
            context_.kernels().add_segments(part, messages, sums, executor);
        }
    }
    void finish(const dense_parameters<T>& weights, matrix_view<const T> own, std::span<const std::uint32_t> seen,
        matrix_view<T> sums, activation then, matrix_view<T> out, executor_ref executor) override {
        begin_part(weights, seen.size(), executor);
        const matrix_view<T> reduced = sums.middle_columns(0, columns());
        if (layer_.reduce == message_reduction::mean)
            apply_nodes(seen.size(), executor, [&](std::size_t i) {
                for (T& x : reduced[i]) x /= static_cast<T>(std::max(seen[i], 1U));
            });
        layer_.update(context_, own.middle_columns(0, in_.dense), matrix_view<const T>(reduced), out);
        context_.kernels().bias_activate({}, then, out, executor);
    }

private:
    [[nodiscard]] std::size_t columns() const { return detail::edge_columns<T>(layer_, in_.dense); }
    [[nodiscard]] layer_sizes sizes_of(const layer_view& view) const {
        return {.in = in_, .sources = view.sources, .targets = view.targets, .edges = view.edges()};
    }
    void begin_part(const dense_parameters<T>& weights, std::size_t rows, executor_ref executor) {
        context_.begin(weights, detail::kept_floats(layer_, {.in = in_, .sources = rows, .targets = rows}), executor);
    }
    template <class Value>
    [[nodiscard]] static matrix_view<Value> rows_of(
        reusable_buffer<Value>& memory, std::size_t rows, std::size_t columns) {
        return {memory.at_least(rows * columns), rows, columns};
    }

    /// Reduces the messages along edges without storing them.
    void pull_edges(const layer_input<T>& in) {
        apply_nodes(in.view.targets, in.on, [&](std::size_t t) {
            std::ranges::fill(reduced_[t], T{0});
            if (!winners_.empty()) std::ranges::fill(winners_[t], 0U);
        });
        apply_edges(in.view, in.on,
            [&, message = std::vector<T>(columns())](std::size_t e, std::size_t s, std::size_t t) mutable {
                layer_.edge(messages_[s], messages_[in.view.first_target + t], std::span(message));
                detail::reduce_message<T>(layer_.reduce, e == in.view.offsets[t], message, e, reduced_[t],
                    winners_.empty() ? std::span<std::uint32_t>{} : winners_[t]);
            });
        if (layer_.reduce != message_reduction::mean) return;
        apply_nodes(in.view.targets, in.on, [&](std::size_t t) {
            for (T& x : reduced_[t]) x *= detail::share_of<T>(in.view, t);
        });
    }
    /// Computes the gradients of the messages from those of the reduced rows, which are overwritten.
    void push_back(const layer_input<T>& in, matrix_view<T> g, matrix_view<T> out) {
        if constexpr (looks_at_edges) {
            const std::size_t first = in.view.first_target;
            apply_nodes(out.rows(), in.on, [&](std::size_t i) { std::ranges::fill(out[i], T{0}); });
            // Each pass adds to one end; gradients of the other are discarded.
            apply_edges_by_source(in.view, in.on,
                [&, message = std::vector<T>(columns()), unused = std::vector<T>(out.columns())](
                    std::size_t e, std::size_t s, std::size_t t) mutable {
                    detail::message_gradient<T>(in.view, layer_.reduce, e, t, g, winners_, message);
                    layer_.edge_backward(
                        messages_[s], messages_[first + t], std::span<const T>(message), out[s], std::span(unused));
                });
            apply_edges(in.view, in.on,
                [&, message = std::vector<T>(columns()), unused = std::vector<T>(out.columns())](
                    std::size_t e, std::size_t s, std::size_t t) mutable {
                    detail::message_gradient<T>(in.view, layer_.reduce, e, t, g, winners_, message);
                    layer_.edge_backward(messages_[s], messages_[first + t], std::span<const T>(message),
                        std::span(unused), out[first + t]);
                });
        } else {
            push(context_.kernels(), in.view, layer_.reduce, g, winners_, out, in.on);
        }
    }

    Layer layer_;
    input_columns in_;
    layer_context<T, Backend> context_;
    reusable_buffer<T> message_memory_, message_gradient_memory_, reduced_memory_, reduced_gradient_memory_,
        own_gradient_memory_;
    reusable_buffer<std::uint32_t> winner_memory_;
    matrix_view<const T> messages_{};
    matrix_view<T> reduced_{};
    matrix_view<std::uint32_t> winners_{};
};

} // namespace gneiss
