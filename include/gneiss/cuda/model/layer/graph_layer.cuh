// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include <gneiss/core/float16.hpp>
#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/model/block/product.cuh>
#include <gneiss/cuda/model/device/linear.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/sparse.cuh>
#include <gneiss/cuda/model/step/dense_parameters.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/model/layer_options.hpp>

namespace gneiss::cuda {

/// Maximum sizes of a layer of a batch.
struct layer_capacity {
    std::uint32_t targets = 0, sources = 0, edges = 0; ///< maximum counts of the layer
};

/// Floats that kernels of all layers use in turn: the maximum over all.
class shared_scratch {
public:
    /// Requests room for `sums` sums over `rows` rows. Call before `allocate`.
    void need(std::uint32_t rows, std::size_t sums) { floats_ = std::max(floats_, partial_slices(rows).floats(sums)); }
    /// Allocates what the layers need.
    void allocate(device_arena& memory) { data_ = memory.take<float>(floats_); }
    [[nodiscard]] float* data() const noexcept { return data_; }

private:
    std::size_t floats_ = 0;
    float* data_ = nullptr;
};

/// Context of a layer's construction.
struct layer_setup {
    const dense_parameters<float>& weights; ///< the layer finds its arrays by name
    std::string name;                       ///< name of the layer's arrays
    input_columns in;                       ///< columns of the input
    layer_capacity capacity;                ///< maximum sizes
    device_arena& memory;                   ///< memory of the layer
    shared_scratch& scratch;                ///< scratch shared with other layers

    /// Finds an array of the layer by name and shape.
    [[nodiscard]] weight_array array(const std::string& what, std::size_t rows, std::size_t columns) const {
        return weight_array::find(weights, name + "." + what, rows, columns);
    }
    /// Returns rows that all start at multiples of 16 bytes.
    template <class V>
    [[nodiscard]] rows_view<V> rows(std::size_t count, std::size_t columns) const {
        const std::size_t stride = round_up(columns, 16 / sizeof(V));
        return {memory.take<V>(count * stride), columns, stride};
    }
};

/// Dense rows of a layer's input: of its own type, or, for floats, of a table of a type of half the size.
template <storage T>
using dense_rows = std::conditional_t<std::is_same_v<T, float>,
    std::variant<rows_view<const float>, rows_view<const float16>, rows_view<const bfloat16>>,
    std::variant<rows_view<const T>>>;

/// Returns the number of dense columns.
template <class Rows>
[[nodiscard]] std::uint32_t dense_columns(const Rows& rows) noexcept {
    return std::visit([](const auto& view) { return view.columns; }, rows);
}

/// The input rows of a layer, as `gneiss::input_rows`: dense columns, then sparse ones.
template <storage T>
struct input_rows {
    dense_rows<T> dense{};                    ///< [sources, dense], or a larger table
    const std::uint32_t* ids = nullptr;       ///< positions of the sources' rows in `dense`; null: in order
    const std::uint32_t* own_first = nullptr; ///< index of target 0 among the sources; null: 0
    sparse_rows sparse{};                     ///< [sources, sparse]

    /// Returns rows in order, with target 0 at row *own_first.
    [[nodiscard]] static input_rows of(rows_view<const T> rows, const std::uint32_t* own_first = nullptr) noexcept {
        input_rows result;
        result.dense = rows;
        result.own_first = own_first;
        return result;
    }
    /// True if there are sparse columns.
    [[nodiscard]] bool has_sparse() const noexcept { return sparse.columns != 0; }
};

/// The input of a layer: forward and the following backward get the same value.
template <storage T>
struct layer_input {
    cudaStream_t stream = nullptr; ///< stream of the kernels
    dense_weights weights{};       ///< values and gradients of parameters
    layer_view view{};             ///< lists of the layer
    input_rows<T> rows{};          ///< rows of the sources
    dropout_mask attention{};      ///< by target

    /// Returns the range of source rows.
    [[nodiscard]] row_range sources() const noexcept { return {&view.counts->sources, view.source_capacity, nullptr}; }
    /// Returns the range of target rows.
    [[nodiscard]] row_range targets() const noexcept { return {&view.counts->targets, view.target_capacity, nullptr}; }
    /// Returns the targets' rows among the sources' rows.
    [[nodiscard]] row_range own_sources() const noexcept {
        return {&view.counts->targets, view.target_capacity, &view.counts->first_target};
    }
    /// Returns the targets' rows of the input.
    [[nodiscard]] row_range own_rows() const noexcept {
        return {&view.counts->targets, view.target_capacity, rows.own_first, rows.ids};
    }
    /// Returns the rows of the input.
    [[nodiscard]] row_range all_rows() const noexcept {
        return {&view.counts->sources, view.source_capacity, nullptr, rows.ids};
    }

    /// out = rows of the sources, or of the targets, times w, then the epilogue.
    void multiply(bool own, const weight_array& w, rows_view<T> out, const epilogue& then) const {
        const std::size_t dense = dense_columns(rows.dense);
        if (dense != 0)
            std::visit(
                [&]<class In>(rows_view<const In> x) {
                    linear<T, In>(stream, own ? own_rows() : all_rows(), x, w.value(weights), out,
                        rows.has_sparse() ? epilogue{.accumulate = then.accumulate} : then);
                },
                rows.dense);
        if (!rows.has_sparse()) return;
        epilogue last = then;
        last.accumulate = dense != 0 || then.accumulate;
        sparse_multiply<T>(stream, rows.sparse, sparse(own), w.value(weights, dense), out, last);
    }
    /// Adds to the gradient of w, given that of the result.
    void add_weight_gradient(bool own, rows_view<const T> g, const weight_array& w, float* scratch) const {
        const std::size_t dense = dense_columns(rows.dense);
        if (dense != 0)
            std::visit(
                [&]<class In>(rows_view<const In> x) {
                    linear_weight_gradient<T, In>(
                        stream, own ? own_rows() : all_rows(), x, g, w.gradient(weights), scratch);
                },
                rows.dense);
        if (rows.has_sparse())
            sparse_weight_gradient<T>(stream, rows.sparse, sparse(own), g, w.gradient(weights, dense));
    }

private:
    [[nodiscard]] sparse_range sparse(bool own) const noexcept {
        if (own) return {view.counts, view.target_capacity, &view.counts->first_target};
        return {rows.sparse.entries.counts, view.source_capacity, nullptr};
    }
};

/// A GNN layer on a device: the counterpart of `gneiss::graph_layer`, made with its options and with the same array
/// names.
///
/// Meaning: `forward` writes out = dropped(then(…)) [targets, outputs]. `backward` takes the gradient g of the input of
/// `then`, *adds* to the parameters' gradients, and writes every row of grad_in [sources, dense inputs]; without data,
/// grad_in is not computed. Both are asynchronous, allocate nothing, and use memory taken at construction; backward
/// reads what forward left there.
template <storage T>
class graph_layer {
public:
    graph_layer() = default;
    graph_layer(const graph_layer&) = delete;
    graph_layer& operator=(const graph_layer&) = delete;
    virtual ~graph_layer() = default;

    /// True if a pass without a gradient of the input reads lists by source. With one, every layer that reads neighbors
    /// does.
    [[nodiscard]] virtual bool needs_lists_by_source() const noexcept = 0;
    virtual void forward(const layer_input<T>& in, activation then, const dropout_mask& dropout, rows_view<T> out) = 0;
    virtual void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in) = 0;
};

/// The bias of a layer, if any.
template <storage T>
class layer_bias {
public:
    /// Finds the bias and scratch for its gradient.
    layer_bias(const layer_setup& with, bool there, std::size_t columns) : there_(there), scratch_(with.scratch) {
        if (!there) return;
        array_ = with.array("bias", 1, columns);
        with.scratch.need(with.capacity.targets, columns);
    }
    /// Returns null without a bias.
    [[nodiscard]] const float* value(const dense_weights& of) const noexcept {
        return there_ ? array_.value(of).data : nullptr;
    }
    /// Adds the column sums of g to the gradient.
    void add_gradient(const layer_input<T>& in, rows_view<const T> g) const {
        if (there_) add_column_sums<T>(in.stream, in.targets(), g, scratch_.data(), array_.gradient(in.weights).data);
    }

private:
    bool there_;
    weight_array array_{};
    const shared_scratch& scratch_;
};

/// The weights of a layer's input rows, of all of them or of the targets'.
template <storage T>
class layer_weight {
public:
    /// Finds the weights and scratch for products.
    layer_weight(const layer_setup& with, bool own, const std::string& name, std::size_t columns)
        : own_(own),
          array_(with.array(name, with.in.total(), columns)),
          scratch_(with.scratch) {
        with.scratch.need(own ? with.capacity.targets : with.capacity.sources, with.in.dense * columns);
    }
    /// Writes the product of the rows and the weights, then the epilogue.
    void multiply(const layer_input<T>& in, rows_view<T> out, const epilogue& then = {}) const {
        in.multiply(own_, array_, out, then);
    }
    /// Adds to the gradient of the weights, given the gradient g of the product, and writes that of dense rows, or adds
    /// to it, if requested.
    void backward(const layer_input<T>& in, rows_view<const T> g, rows_view<T> grad_in, bool accumulate) const {
        in.add_weight_gradient(own_, g, array_, scratch_.data());
        if (grad_in.data != nullptr) input_gradient(in, own_ ? in.own_sources() : in.sources(), g, grad_in, accumulate);
    }
    /// Computes only the input gradient; row i of g belongs to row *rows.first + i of `to`.
    void input_gradient(const layer_input<T>& in, const row_range& rows, rows_view<const T> g, rows_view<T> to,
        bool accumulate = false) const {
        linear_input_gradient<T>(in.stream, rows, g, array_.value(in.weights), to, accumulate);
    }

private:
    bool own_;
    weight_array array_;
    const shared_scratch& scratch_;
};

} // namespace gneiss::cuda
