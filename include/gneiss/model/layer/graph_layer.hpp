#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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
    /// [view.sources] how many edges leave each source in the whole graph; empty: what the sample has. Only symmetric
    /// normalisation asks.
    std::span<const std::uint32_t> source_degrees{};

    [[nodiscard]] input_rows<T> own_rows() const noexcept { return rows.middle_rows(view.first_target, view.targets); }
    /// Edges by target, leading to source rows.
    [[nodiscard]] edge_segments incoming() const noexcept { return {view.offsets, view.neighbours}; }
};

/// Edges by source, leading to target rows. Precondition: the view has its transposed lists.
[[nodiscard]] inline edge_segments outgoing(const layer_view& view) noexcept {
    return {view.by_source_offsets, view.edge_target, view.by_source_edges};
}

/// A layer of a graph network: rows [sources, inputs] → rows [targets, outputs], in three steps.
///
///     score      how much each edge counts: a share, a normalisation, an attention
///     aggregate  one row per target out of its neighbours' rows
///     update     the target's new row out of that and its own
///
/// Meaning: `forward` writes out = then(…). `backward` is given the gradient g of what went into `then`, *adds* to the
/// parameters' gradients, and writes every row of grad_in [sources, dense inputs]; an empty grad_in means that nobody
/// needs it, and that work is spared. It reads what the last `forward` of this object left behind.
/// Cost: told by each layer; memory is kept between batches. One batch at a time per object; results do not depend on
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
};

/// Columns that go into a layer.
struct input_columns {
    std::size_t dense = 0;
    std::size_t sparse = 0;

    [[nodiscard]] std::size_t total() const noexcept { return dense + sparse; }
};

} // namespace gneiss
