// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/kernels.hpp>
#include <gneiss/model/layer/graph_layer.hpp>
#include <gneiss/sample/layer_view.hpp>

// Building blocks of custom layers, over the view of a layer: functions of rows and of edges, and reductions along
// edges with their gradients. A target, or a source, belongs to one task and its edges are processed in order, without
// atomics: results do not depend on threads.
namespace gneiss {

/// Reduction of the messages of a target to one row. A target without edges gets zeros.
enum class message_reduction : std::uint8_t {
    sum,
    mean,
    max ///< per column, the first among equals
};

/// Calls f(i) for each row, many at a time. Cost: that of f.
template <class F>
void apply_nodes(std::size_t rows, executor_ref executor, F&& f) {
    parallel_for(executor, rows, 256, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) f(i);
    });
}

/// Calls f(edge, source, target) for each edge. A task processes the edges of some targets in order, so f may add to
/// the target's data, and has its own copy of f, including values captured by copy. O(edges), and the cost of f.
template <class F>
void apply_edges(const layer_view& view, executor_ref executor, const F& f) {
    parallel_for(executor, view.targets, 64, [&](std::size_t t, std::size_t end) {
        F mine = f;
        for (; t < end; ++t)
            for (std::size_t e = view.offsets[t]; e < view.offsets[t + 1]; ++e)
                mine(e, std::size_t{view.neighbors[e]}, t);
    });
}
/// The same with the edges of some sources per task, so that f may add to the source's data. Precondition: the view has
/// its transposed lists.
template <class F>
void apply_edges_by_source(const layer_view& view, executor_ref executor, const F& f) {
    parallel_for(executor, view.sources, 64, [&](std::size_t s, std::size_t end) {
        F mine = f;
        for (; s < end; ++s)
            for (std::size_t place = view.by_source_offsets[s]; place < view.by_source_offsets[s + 1]; ++place) {
                const std::size_t e = view.by_source_edges[place];
                mine(e, s, std::size_t{view.edge_target[e]});
            }
    });
}

namespace detail {

template <class T>
[[nodiscard]] T share_of(const layer_view& view, std::size_t target) noexcept {
    return T{1} / static_cast<T>(std::max(view.offsets[target + 1] - view.offsets[target], 1U));
}

} // namespace detail

/// Pulls rows along edges: out[t] = the reduction of rows[s] over the edges from s to t.
///
/// \param winners  [targets, columns], written for the maximum: winning edges, for `push`; else empty
///
/// Cost: one row read per edge.
template <class T, gnn_kernels<T> Backend>
void pull(const Backend& by, const layer_view& view, message_reduction reduce,
    matrix_view<const std::type_identity_t<T>> rows, matrix_view<T> out, matrix_view<std::uint32_t> winners,
    executor_ref executor) {
    const edge_segments incoming{view.offsets, view.neighbors};
    if (reduce == message_reduction::max) return by.segment_max(incoming, rows, out, winners, executor);
    by.segment_sum(incoming, {}, 1, rows, out, executor);
    if (reduce != message_reduction::mean) return;
    apply_nodes(view.targets, executor, [&](std::size_t t) {
        for (T& x : out[t]) x *= detail::share_of<T>(view, t);
    });
}
/// Pushes gradients back along edges: out[s] = the gradient of rows[s], given the gradients `g` of the result of
/// `pull`, which are overwritten. Cost: one row read per edge. Precondition: the view has its transposed lists.
template <class T, gnn_kernels<T> Backend>
void push(const Backend& by, const layer_view& view, message_reduction reduce, matrix_view<T> g,
    matrix_view<const std::uint32_t> winners, matrix_view<T> out, executor_ref executor) {
    if (reduce == message_reduction::max) return by.segment_max_backward(outgoing(view), g, winners, out, executor);
    if (reduce == message_reduction::mean)
        apply_nodes(view.targets, executor, [&](std::size_t t) {
            for (T& x : g[t]) x *= detail::share_of<T>(view, t);
        });
    by.segment_sum(outgoing(view), {}, 1, g, out, executor);
}

} // namespace gneiss
