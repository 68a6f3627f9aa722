// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/model/layer/edge_operations.hpp>

// Messages along edges by a layer's own functions, and their gradients.
namespace gneiss::cuda {

namespace detail {

/// A row that functions of edges are given.
template <class T>
struct edge_row {
    T* data = nullptr;         ///< first value
    std::uint32_t columns = 0; ///< values

    [[nodiscard]] GNEISS_HD T& operator[](std::size_t column) const noexcept { return data[column]; }
    [[nodiscard]] GNEISS_HD std::size_t size() const noexcept { return columns; }
};

/// A row of gradients that another thread computes: what is added here is lost.
struct unused_row {
    std::uint32_t columns = 0; ///< values
    mutable float any = 0;     ///< each of them

    [[nodiscard]] GNEISS_HD float& operator[](std::size_t) const noexcept { return any; }
    [[nodiscard]] GNEISS_HD std::size_t size() const noexcept { return columns; }
};

/// The gradient of the message along an edge, computed from that of its target's reduced row where it is read.
struct message_gradient_row {
    const float* reduced = nullptr;         ///< gradient of the target's reduced row
    const std::uint32_t* winners = nullptr; ///< edges of its maximum; null: it is a sum
    std::uint32_t columns = 0;              ///< values
    std::uint32_t edge = 0;                 ///< number of the edge
    float share = 1;                        ///< of the edge in the sum

    [[nodiscard]] GNEISS_HD float operator[](std::size_t column) const noexcept {
        if (winners != nullptr) return winners[column] == edge ? reduced[column] : 0;
        return share * reduced[column];
    }
    [[nodiscard]] GNEISS_HD std::size_t size() const noexcept { return columns; }
};

/// out[t] = the reduction of the messages along the edges of target t, in their order; a thread a target.
template <class Layer, unsigned Threads>
__global__ void __launch_bounds__(Threads, 4) reduce_edges(Layer layer, layer_view view, message_reduction reduce,
    rows_view<const float> rows, rows_view<float> message, rows_view<float> out, rows_view<std::uint32_t> winners) {
    const std::uint32_t targets = view.counts->targets, first = view.counts->first_target, columns = out.columns;
    const bool largest = reduce == message_reduction::max;
    for (std::size_t t = std::size_t{blockIdx.x} * Threads + threadIdx.x; t < targets;
        t += std::size_t{gridDim.x} * Threads) {
        const std::uint32_t begin = __ldg(view.offsets + t), end = __ldg(view.offsets + t + 1);
        const float share = reduce == message_reduction::mean ? 1 / static_cast<float>(max(end - begin, 1U)) : 1;
        const edge_row<float> along{message[t], columns}, to{out[t], columns};
        for (std::uint32_t k = 0; k < columns; ++k) {
            to[k] = 0;
            if (largest) winners[t][k] = edge_lists::no_row;
        }
        for (std::uint32_t e = begin; e < end; ++e) {
            layer.edge(edge_row<const float>{rows[__ldg(view.neighbors + e)], rows.columns},
                edge_row<const float>{rows[first + t], rows.columns}, along);
            for (std::uint32_t k = 0; k < columns; ++k) {
                if (!largest) {
                    to[k] += along[k];
                } else if (e == begin || along[k] > to[k]) {
                    to[k] = along[k];
                    winners[t][k] = e;
                }
            }
        }
        if (reduce != message_reduction::mean) continue;
        for (std::uint32_t k = 0; k < columns; ++k) to[k] *= share;
    }
}

/// out[s] = the gradients of the messages' function at row s, as source of its edges and then as target of its own; a
/// thread a source.
template <class Layer, unsigned Threads>
__global__ void __launch_bounds__(Threads, 4)
    push_edges(Layer layer, layer_view view, message_reduction reduce, rows_view<const float> rows,
        rows_view<const float> gradient, rows_view<const std::uint32_t> winners, rows_view<float> out) {
    const std::uint32_t sources = view.counts->sources, targets = view.counts->targets,
                        first = view.counts->first_target;
    const auto row = [&](std::size_t i) { return edge_row<const float>{rows[i], rows.columns}; };
    const auto of_message = [&](std::uint32_t e, std::uint32_t t) {
        message_gradient_row g{gradient[t], nullptr, gradient.columns, e};
        if (reduce == message_reduction::max) g.winners = winners[t];
        if (reduce == message_reduction::mean)
            g.share = 1 / static_cast<float>(__ldg(view.offsets + t + 1) - __ldg(view.offsets + t));
        return g;
    };
    for (std::size_t s = std::size_t{blockIdx.x} * Threads + threadIdx.x; s < sources;
        s += std::size_t{gridDim.x} * Threads) {
        const edge_row<float> to{out[s], out.columns};
        for (std::uint32_t k = 0; k < out.columns; ++k) to[k] = 0;
        for (std::uint32_t i = __ldg(view.by_source_offsets + s); i < __ldg(view.by_source_offsets + s + 1); ++i) {
            const std::uint32_t e = __ldg(view.by_source_edges + i), t = __ldg(view.edge_target + e);
            layer.edge_backward(row(s), row(first + t), of_message(e, t), to, unused_row{out.columns});
        }
        if (s < first || s - first >= targets) continue;
        const auto t = static_cast<std::uint32_t>(s - first);
        for (std::uint32_t e = __ldg(view.offsets + t); e < __ldg(view.offsets + t + 1); ++e)
            layer.edge_backward(row(__ldg(view.neighbors + e)), row(s), of_message(e, t), unused_row{out.columns}, to);
    }
}

} // namespace detail

/// A layer whose functions of edges take a device's rows: they are GNEISS_HD, and the layer is copied to kernels.
template <class L>
concept edge_functions = std::is_trivially_copyable_v<L> &&
    requires(const L& l, detail::edge_row<const float> in, detail::edge_row<float> out, detail::unused_row unused,
        detail::message_gradient_row g) {
        l.edge(in, in, out);
        l.edge_backward(in, in, g, out, unused);
        l.edge_backward(in, in, g, unused, out);
    };

/// out[t] = the reduction of layer.edge(rows[source], rows[first_target + t]) over the edges of target t. A target
/// without edges gets zeros.
///
/// rows [sources, sent columns], out [targets, columns]; `message` [targets, columns] is scratch, and `winners`
/// [targets, columns] the edges of the maximum, used for it alone. Adds in the order of edges: the same operands give
/// the same bits. Asynchronous, allocates nothing. Cost: a call per edge; a target's edges are one thread's.
template <edge_functions Layer>
void reduce_edges(cudaStream_t stream, const Layer& layer, const layer_view& view, message_reduction reduce,
    rows_view<const float> rows, rows_view<float> message, rows_view<float> out, rows_view<std::uint32_t> winners) {
    launch(stream, detail::reduce_edges<Layer, 128>, detail::strided_grid(view.target_capacity, 128), 128, 0, layer,
        view, reduce, rows, message, out, winners);
}

/// out[s] = the gradient of rows[s], given the gradients of the result of `reduce_edges` [targets, columns].
///
/// out [sources, sent columns], every row written; `winners` as `reduce_edges` wrote them. Precondition: the view has
/// its lists by source. Same bits, asynchronous as above. Cost: two calls per edge; a source's edges are one thread's.
template <edge_functions Layer>
void push_edges(cudaStream_t stream, const Layer& layer, const layer_view& view, message_reduction reduce,
    rows_view<const float> rows, rows_view<const float> gradient, rows_view<const std::uint32_t> winners,
    rows_view<float> out) {
    launch(stream, detail::push_edges<Layer, 128>, detail::strided_grid(view.source_capacity, 128), 128, 0, layer, view,
        reduce, rows, gradient, winners, out);
}

} // namespace gneiss::cuda
