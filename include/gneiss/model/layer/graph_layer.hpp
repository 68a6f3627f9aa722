// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/dropout.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss {

/// What a layer works on: the same value goes into forward and the backward that follows it.
template <class T>
struct layer_input {
    const layer_view& view;
    input_rows<T> rows;                     ///< [view.sources, inputs]
    executor_ref on;
    std::optional<random_key> training{};   ///< key of the layer's dropout; none: evaluation, nothing is dropped
    logical_rows targets{};                 ///< names of the target rows in random keys

    [[nodiscard]] input_rows<T> own_rows() const noexcept { return rows.middle_rows(view.first_target, view.targets); }
    /// Edges by target, leading to source rows.
    [[nodiscard]] edge_segments incoming() const noexcept { return {view.offsets, view.neighbors}; }
};

/// Edges by source, leading to target rows. Precondition: the view has its transposed lists.
[[nodiscard]] inline edge_segments outgoing(const layer_view& view) noexcept {
    return {view.by_source_offsets, view.edge_target, view.by_source_edges};
}

namespace detail {

template <class T>
void copy_rows(matrix_view<const T> in, matrix_view<T> out, executor_ref on) {
    parallel_for(on, in.rows(), 1024, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) std::copy_n(in[i].data(), in.columns(), out[i].data());
    });
}

} // namespace detail

/// Columns of the rows that a layer's pass in parts keeps of a node, and what it asks.
struct part_columns {
    std::size_t messages = 0; ///< what neighbors read; 0: none do
    std::size_t own = 0;      ///< what its own result needs
    std::size_t sums = 0;     ///< what is summed over neighbors
    bool loops = false;          ///< an edge from each node to itself is to be added
    bool begins = false;         ///< `begin` is to be called
    bool source_degrees = false; ///< `prepare` asks for them
};

/// A layer of a GNN: rows [sources, inputs] → rows [targets, outputs], in three steps.
///
///     score      how much each edge counts: a share, a normalization, an attention
///     aggregate  one row per target out of its neighbors' rows
///     update     the target's new row out of that and its own
///
/// Meaning: `forward` writes out = then(…). `backward` is given the gradient g of what went into `then`, *adds* to the
/// parameters' gradients, and writes every row of grad_in [sources, dense inputs]; an empty grad_in means that nobody
/// needs it, and that work is spared. It reads what the last `forward` of this object left behind.
/// Cost: see each layer; memory is kept between batches. One batch at a time per object; results do not depend on
/// the executor.
template <class T>
class graph_layer {
public:
    graph_layer() = default;
    graph_layer(const graph_layer&) = delete;
    graph_layer& operator=(const graph_layer&) = delete;
    virtual ~graph_layer() = default;

    [[nodiscard]] virtual std::size_t outputs() const = 0;
    virtual void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) = 0;
    virtual void backward(
        dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g, matrix_view<T> grad_in) = 0;

    // The forward pass in parts, without dropout: sources come some at a time, as do edges, so that no memory has to hold
    // all of them. For nodes whose edges were all added it gives what `forward` gives, but for rounding. Rows are those of
    // nodes throughout:
    //
    //     prepare   of every node once: what its neighbors read of it, and what its own result needs
    //     begin     targets whose sums are 0
    //     add       edges from some sources to some targets, any number of times; the sums depend on the order by rounding
    //     finish    the targets' new rows

    //
    // A layer that does not provide it trains, but inference over whole graphs refuses it.

    [[nodiscard]] virtual part_columns parts() const { refuse_parts(); }
    /// `source_degrees` [n]: edges that lead from each node to targets; only where parts().source_degrees says so.
    virtual void prepare(const dense_parameters<T>& /*weights*/, const input_rows<T>& /*rows*/, std::span<const float> /*source_degrees*/,
        matrix_view<T> /*messages*/, matrix_view<T> /*own*/, executor_ref) { refuse_parts(); }
    virtual void begin(matrix_view<const T> /*own*/, matrix_view<T> /*sums*/, executor_ref) {}
    /// `seen` [targets]: edges that were added before.
    virtual void add(const edge_part& /*edges*/, std::span<const std::uint32_t> /*seen*/, matrix_view<const T> /*messages*/,
        matrix_view<T> /*sums*/, executor_ref) {}
    /// Uses up the sums. `seen`: all edges, own ones of `loops` not counted.
    virtual void finish(const dense_parameters<T>& /*weights*/, matrix_view<const T> /*own*/, std::span<const std::uint32_t> /*seen*/,
        matrix_view<T> /*sums*/, activation /*then*/, matrix_view<T> /*out*/, executor_ref) { refuse_parts(); }

private:
    [[noreturn]] static void refuse_parts() {
        throw error(errc::unsupported, "a layer without a pass in parts (parts, prepare, add, finish) is not run over whole graphs");
    }
};

/// Columns that go into a layer.
struct input_columns {
    std::size_t dense = 0;
    std::size_t sparse = 0;

    [[nodiscard]] std::size_t total() const noexcept { return dense + sparse; }
};

/// The sizes of one layer of an encoder in a batch.
struct layer_sizes {
    input_columns in{};
    std::uint64_t sources = 0, targets = 0, edges = 0;
    std::uint64_t entries = 0; ///< of sparse input rows
    bool first = false;        ///< whose input may need no gradient
};

/// What surrounds a layer in an encoder: out = then(norm(layer(dropout(in)))) + residual.
struct layer_surround {
    activation then = activation::none;
    double dropout = 0;    ///< of the rows that come in, while training
    bool norm = false;     ///< layer normalization (Ba, Kiros and Hinton, 2016) before the activation
    bool residual = false; ///< adds the target's own row, by a matrix where the lengths differ
};

} // namespace gneiss
