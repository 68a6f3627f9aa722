// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/activation.hpp>
#include <gneiss/model/dropout.hpp>

namespace gneiss {

/// Work after a product while its rows are in the cache: out = then((accumulate ? out : 0) + product + bias).
template <class T>
struct epilogue {
    bool accumulate = false;            ///< adds to `out` instead of replacing it
    std::span<const T> bias{};          ///< [columns], or empty: none
    activation then = activation::none; ///< activation of the result
};

/// Rows that are mostly zeros, such as bags of words: row i has value values[k] at column indices[k] for k from
/// offsets[i] to offsets[i + 1]. Never expanded: the cost of products is that of the entries.
template <class T>
struct sparse_rows {
    std::size_t columns = 0;                  ///< number of columns
    std::span<const std::uint64_t> offsets{}; ///< [rows + 1]; the first need not be 0
    std::span<const std::uint32_t> indices{}; ///< below `columns`
    std::span<const T> values{};              ///< one per index, or empty: all 1

    /// Returns the number of rows.
    [[nodiscard]] std::size_t rows() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
    /// Returns `count` rows from `first` on.
    [[nodiscard]] sparse_rows middle_rows(std::size_t first, std::size_t count) const noexcept {
        return rows() == 0 ? *this : sparse_rows{columns, offsets.subspan(first, count + 1), indices, values};
    }
};

/// Lists of edges, and the matrix row that each edge points to. Segment i has places offsets[i] … offsets[i + 1]; place
/// j is edge e = edges[j], or e = j if `edges` is empty, and points to row rows[e]. Values of edges are indexed by e in
/// either direction of the lists.
struct edge_segments {
    std::span<const std::uint32_t> offsets; ///< [segments + 1]
    std::span<const std::uint32_t> rows;    ///< [edges]
    std::span<const std::uint32_t> edges{}; ///< [edges] or empty

    /// Returns the number of segments.
    [[nodiscard]] std::size_t size() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
    /// Returns the edge at a place.
    [[nodiscard]] std::size_t edge(std::size_t place) const noexcept { return edges.empty() ? place : edges[place]; }
};

/// Edges from some source rows to some target rows, which other parts may reach too: the contents of an edge block.
/// Segment i belongs to row targets[i] of the result; other rows are unchanged.
struct edge_part {
    edge_segments edges;                    ///< `edges.edges` is empty
    std::span<const std::uint32_t> targets; ///< [segments], distinct
};

/// The kernels of GNN layers: the interface of a backend, on a CPU or another device.
///
/// Meaning: matrices are row-major with strides and hold T; results overlap no operand unless stated. `heads` is the
/// number of equal slices of columns. Values of edges are [edges, heads], dense. Dimensions may be 0. "adds"
/// accumulates, everything else overwrites. The same operands give the same bits on any executor.
///
///     gather_rows(in, ids, out)                        out[i] = in[ids[i]]
///     multiply(a [m, k], w [k, n], out, epilogue)      out = a w, then the epilogue
///     multiply_nt(a [m, n], w [k, n], out, accumulate) out (+)= a wᵀ
///     add_tn(a [m, k], g [m, n], out)                  out [k, n] += aᵀ g
///     sparse_multiply(x [m, k], w [k, n], out, epi)    as multiply, with sparse rows
///     sparse_add_tn(x [m, k], g [m, n], out)           as add_tn, with sparse rows
///     add_column_sums(g, out)                          out[c] += Σ g[r, c]
///     add_rows(in, out)                                out += in
///     activate_backward(act, y, g)                     g *= act'(x), where y = act(x)
///     segment_shares(s, out)                           out[e] = 1 / edges of its segment
///     segment_symmetric(s, degrees, out)               out[e] = 1 / √(edges of its segment · degrees[rows[e]])
///     segment_sum(s, weights, heads, in, out)          out[i, h] = Σ weights[e, h] · in[rows[e], h]; no weights: 1.
///                                                      `in` of one slice: it is that of all heads; `out` of one: the
///                                                      sum over heads
///     segment_max(s, in, out, winners)                 out[i, c] = max over the segment, the first of equals; an empty
///                                                      segment gives 0. winners [segments, columns]: the edge
///     segment_max_backward(s, g, winners, out)         s transposed: out[i, c] = Σ g[rows[e], c] where e won there
///     segment_total(s, heads, values, out)             out[i, h] = Σ values[e, h]
///     segment_softmax(s, heads, scores)                in place, over each segment and head; s.edges is empty
///     segment_softmax_backward(s, heads, y, g)         g becomes the gradient of the scores
///     edge_dots(s, heads, a, b, out)                   SDDMM: out[e, h] = ⟨a[i, h], b[rows[e], h]⟩; `b` of one slice:
///                                                      it is that of all heads
///     edge_scores(s, heads, a, b, slope, out)          out[e, h] = leaky(a[i, h] + b[rows[e], h])
///     edge_scores_backward(heads, slope, y, g)         g *= leaky'(x), where y = leaky(x)
///     head_dots(x, a [columns], heads, out)            out[r, h] = ⟨x[r, h], a[h]⟩
///     head_dots_backward(x, a, heads, g, grad_x, grad_a) adds to both
///     head_mean(x [m, heads · n], heads, out [m, n])   mean over slices; head_mean_backward(g, heads, grad_x)
///     dropout(mask, in, out)                           out may be in; the same mask gives the backward
///     sparse_dropout(mask, x, out [indices])           values of x, dropped by row and column
///     segment_dropout(mask, s, heads, in, out)         row i of the mask is segment i, column j · heads + h
///     add_segments(part, in, out)                      out[t] += Σ in[rows[e]]
///     raise_segments(part, seen, in, out)              out[t, c] = max over the segment, and out[t, c] if seen[t] ≠ 0
///     attend_segments(part, heads, slope, in, out)     adds edges to weighted sums with weights from a softmax over
///                                                      all edges of a target, including those of later calls. Rows
///                                                      of in are [x, scores of sources [heads]], rows of out are
///                                                      [sums as x, largest score, Σ exp(score − largest), scores of
///                                                      targets [heads each]];
///                                                      score = leaky(target's + source's); a total of 0: no edge yet
///     divide_rows(by [m, heads], x)                    x[r, h] /= by[r, h]
///     bias_activate(bias, act, x)                      x = act(x + bias)
///     layer_norm(x, gain, bias, epsilon, out)          rows with mean 0 and variance 1, times gain, plus bias
///     layer_norm_backward(x, gain, epsilon, g, grad_gain, grad_bias)  g becomes ∂/∂x; adds to the others
///
/// Cost: 2mkn operations for a product; for the others, one pass over the arguments, one row read per edge.
/// Thread-safe.
template <class B, class T = float>
concept gnn_kernels =
    requires(const B& b, executor_ref executor, matrix_view<const T> in, matrix_view<T> out, std::span<T> list,
        std::span<const T> numbers, std::span<const std::uint32_t> ids, matrix_view<std::uint32_t> winners,
        matrix_view<const std::uint32_t> won, const edge_segments& s, const edge_part& part, std::size_t heads, T x,
        const sparse_rows<T>& sparse, const dropout_mask& mask, activation act, epilogue<T> then, bool yes) {
        b.gather_rows(in, ids, out, executor);
        b.multiply(in, in, out, then, executor);
        b.multiply_nt(in, in, out, yes, executor);
        b.add_tn(in, in, out, executor);
        b.sparse_multiply(sparse, in, out, then, executor);
        b.sparse_add_tn(sparse, in, out, executor);
        b.add_column_sums(in, list, executor);
        b.add_rows(in, out, executor);
        b.activate_backward(act, in, out, executor);
        b.segment_shares(s, list, executor);
        b.segment_symmetric(s, ids, list, executor);
        b.segment_sum(s, numbers, heads, in, out, executor);
        b.segment_max(s, in, out, winners, executor);
        b.segment_max_backward(s, in, won, out, executor);
        b.segment_total(s, heads, numbers, out, executor);
        b.segment_softmax(s, heads, list, executor);
        b.segment_softmax_backward(s, heads, numbers, list, executor);
        b.edge_dots(s, heads, in, in, list, executor);
        b.edge_scores(s, heads, in, in, x, list, executor);
        b.edge_scores_backward(heads, x, numbers, list, executor);
        b.head_dots(in, numbers, heads, out, executor);
        b.head_dots_backward(in, numbers, heads, in, out, list, executor);
        b.head_mean(in, heads, out, executor);
        b.head_mean_backward(in, heads, out, executor);
        b.dropout(mask, in, out, executor);
        b.sparse_dropout(mask, sparse, list, executor);
        b.segment_dropout(mask, s, heads, numbers, list, executor);
        b.add_segments(part, in, out, executor);
        b.raise_segments(part, ids, in, out, executor);
        b.attend_segments(part, heads, x, in, out, executor);
        b.divide_rows(in, out, executor);
        b.bias_activate(numbers, act, out, executor);
        b.layer_norm(in, numbers, numbers, x, out, executor);
        b.layer_norm_backward(in, numbers, x, out, list, list, executor);
    };

} // namespace gneiss
