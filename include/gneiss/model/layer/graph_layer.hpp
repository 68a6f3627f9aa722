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
#include <gneiss/model/input_columns.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace gneiss {

/// Input of a layer: forward and the following backward get the same value.
template <class T>
struct layer_input {
    const layer_view& view;               ///< the layer's edges
    input_rows<T> rows;                   ///< [view.sources, inputs]
    executor_ref on;                      ///< executor of the kernels
    std::optional<random_key> training{}; ///< key of the layer's dropout; none: evaluation, without dropout
    logical_rows targets{};               ///< names of the target rows in random keys
    std::span<const float> coverage{};    ///< [targets] chance of a neighbor to be resident; empty: all are

    /// Returns the targets' own rows.
    [[nodiscard]] input_rows<T> own_rows() const noexcept { return rows.middle_rows(view.first_target, view.targets); }
    /// Returns edges by target, pointing to source rows.
    [[nodiscard]] edge_segments incoming() const noexcept { return {view.offsets, view.neighbors}; }
};

/// Returns edges by source, pointing to target rows. Precondition: the view has its transposed lists.
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

/// Columns of a node's rows in a layer's pass in parts, and its requirements.
struct part_columns {
    std::size_t messages = 0;    ///< read by neighbors; 0: none
    std::size_t own = 0;         ///< used by the node's own result
    std::size_t sums = 0;        ///< summed over neighbors
    bool loops = false;          ///< add an edge from each node to itself
    bool begins = false;         ///< call `begin`
    bool source_degrees = false; ///< pass degrees to `prepare`
    bool copies = false;         ///< messages are the dense input rows, unchanged
};

/// A layer of a GNN: rows [sources, inputs] → rows [targets, outputs], in three steps.
///
///     score      weight of each edge: a share, a normalization, an attention
///     aggregate  one row per target from its neighbors' rows
///     update     the target's new row from that and its own
///
/// Meaning: `forward` writes out = then(…). `backward` gets the gradient g of the input of `then`, *adds* to the
/// parameters' gradients, and writes every row of grad_in [sources, dense inputs]; an empty grad_in skips that work. It
/// uses data of the last `forward` of this object.
/// Cost: see each layer; memory is reused between batches. One batch at a time per object; results do not depend on the
/// executor.
template <class T>
class graph_layer {
public:
    graph_layer() = default;
    graph_layer(const graph_layer&) = delete;
    graph_layer& operator=(const graph_layer&) = delete;
    virtual ~graph_layer() = default;

    [[nodiscard]] virtual std::size_t outputs() const = 0;
    /// Writes out = then(…) [targets, outputs].
    virtual void forward(
        const dense_parameters<T>& weights, const layer_input<T>& in, activation then, matrix_view<T> out) = 0;
    /// Adds to the gradients of parameters and writes grad_in; see above.
    virtual void backward(
        dense_parameters<T>& weights, const layer_input<T>& in, matrix_view<const T> g, matrix_view<T> grad_in) = 0;
    /// Frees memory kept for the next batch; called between batches. A layer without it keeps its memory.
    virtual void release() {}

    // The forward pass in parts, without dropout: sources and edges come some at a time, so that they need not fit in
    // memory. For nodes with all edges added it gives the result of `forward`, up to rounding. Rows belong to nodes
    // throughout:
    //
    //     prepare   every node once: its message to neighbors, and the data for its own result
    //     begin     targets with sums of 0
    //     add       edges from some sources to some targets, any number of times; order changes sums by rounding
    //     finish    the targets' new rows
    //
    // A layer without it can be trained, but inference over whole graphs rejects it.

    /// Returns the columns of the pass in parts. Throws errc::unsupported without one.
    [[nodiscard]] virtual part_columns parts() const { refuse_parts(); }
    /// Writes messages and own data of `rows`, each row from its input row alone; either may have no columns and is
    /// then not computed. `source_degrees` [n]: number of edges from each node to targets; only if
    /// parts().source_degrees.
    virtual void prepare(const dense_parameters<T>& /*weights*/, const input_rows<T>& /*rows*/,
        std::span<const float> /*source_degrees*/, matrix_view<T> /*messages*/, matrix_view<T> /*own*/, executor_ref) {
        refuse_parts();
    }
    virtual void begin(matrix_view<const T> /*own*/, matrix_view<T> /*sums*/, executor_ref) {}
    /// `seen` [targets]: edges added before.
    virtual void add(const edge_part& /*edges*/, std::span<const std::uint32_t> /*seen*/,
        matrix_view<const T> /*messages*/, matrix_view<T> /*sums*/, executor_ref) {}
    /// Overwrites the sums. `seen`: all edges, without those of `loops`.
    virtual void finish(const dense_parameters<T>& /*weights*/, matrix_view<const T> /*own*/,
        std::span<const std::uint32_t> /*seen*/, matrix_view<T> /*sums*/, activation /*then*/, matrix_view<T> /*out*/,
        executor_ref) {
        refuse_parts();
    }

private:
    [[noreturn]] static void refuse_parts() {
        throw error(errc::unsupported,
            "a layer without a pass in parts (parts, prepare, add, finish) is not run over whole graphs");
    }
};

/// The sizes of one layer of an encoder in a batch.
struct layer_sizes {
    input_columns in{};                                ///< columns of the input
    std::uint64_t sources = 0, targets = 0, edges = 0; ///< counts of a batch
    std::uint64_t entries = 0;                         ///< entries of sparse input rows
    bool first = false;                                ///< the first layer, whose input may need no gradient
    bool corrected = false;                            ///< imputes neighbors that are not resident
};

/// Operations around a layer in an encoder: out = then(norm(layer(dropout(in)))) + residual.
struct layer_surround {
    activation then = activation::none; ///< activation of the result
    double dropout = 0;                 ///< rate on input rows, while training
    bool norm = false;                  ///< layer normalization (Ba, Kiros and Hinton, 2016) before the activation
    bool residual = false;              ///< adds the target's own row, multiplied by a matrix if the lengths differ
};

} // namespace gneiss
