// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss::detail {

/// Weights of attention, or their gradients.
template <class T>
struct attention_weights {
    matrix_view<T> product;      ///< W [inputs, heads · width]
    std::span<T> target, source; ///< [heads · width] each
};

/// The products of an attention layer after its sums: attention is scored by x (W a) instead of (x W) a, the rows x of
/// neighbors are summed for each head, and W multiplies the sums of the targets alone. The same result as `gat_layer`
/// gets from z = x W, up to rounding, with products of fewer rows and sums of longer ones.
///
/// Source: Huang's thesis, §5.4.4, which finds this order by profiles.
template <class T, gnn_kernels<T> Backend>
class late_attention {
public:
    /// Returns true if this order takes fewer operations and no more memory than the product of all sources. A gathered
    /// value counts as 16 operations, and as 2 for each further head, which finds it in the cache.
    [[nodiscard]] static constexpr bool pays(std::size_t inputs, std::size_t width, std::size_t heads,
        std::size_t sources, std::size_t targets, std::size_t edges) noexcept {
        if (targets * inputs > sources * width) return false;
        const double in = static_cast<double>(inputs), all = static_cast<double>(heads * width),
                     each = static_cast<double>(edges), scores = 2 * static_cast<double>(heads);
        const double early = 2 * in * all * static_cast<double>(sources) + 16 * each * all;
        const double late = 2 * in * (all * static_cast<double>(targets) + scores * static_cast<double>(sources)) +
            each * in * (14 + scores);
        return late < early;
    }

    /// Computes the terms of scores, x (W a): of targets [targets, heads] and of sources [sources, heads].
    void score(const Backend& by, const attention_weights<const T>& of, std::size_t heads, matrix_view<const T> x,
        matrix_view<const T> own, matrix_view<T> target_terms, matrix_view<T> source_terms, executor_ref on) {
        const std::size_t inputs = of.product.rows();
        target_ = {memory_.at_least(4 * inputs * heads), inputs, heads};
        source_ = {target_.data() + inputs * heads, inputs, heads};
        for (std::size_t h = 0; h < heads; ++h) {
            const matrix_view<const T> w = head(of.product, heads, h);
            by.multiply(w, column(of.target, heads, h), target_.middle_columns(h, 1), {}, on);
            by.multiply(w, column(of.source, heads, h), source_.middle_columns(h, 1), {}, on);
        }
        by.multiply(own, target_, target_terms, {}, on);
        by.multiply(x, source_, source_terms, {}, on);
    }

    /// Computes out = sums W, head by head: sums [targets, heads · inputs] → out [targets, heads · width].
    static void multiply(const Backend& by, matrix_view<const T> product, std::size_t heads, matrix_view<const T> sums,
        matrix_view<T> out, executor_ref on) {
        for (std::size_t h = 0; h < heads; ++h)
            by.multiply(head(sums, heads, h), head(product, heads, h), head(out, heads, h), {}, on);
    }
    /// Computes the gradient of the sums from that of `multiply`, and adds that of W.
    static void multiply_backward(const Backend& by, matrix_view<const T> product, std::size_t heads,
        matrix_view<const T> sums, matrix_view<const T> g, matrix_view<T> grad_product, matrix_view<T> grad_sums,
        executor_ref on) {
        for (std::size_t h = 0; h < heads; ++h) {
            by.add_tn(head(sums, heads, h), head(g, heads, h), head(grad_product, heads, h), on);
            by.multiply_nt(head(g, heads, h), head(product, heads, h), head(grad_sums, heads, h), false, on);
        }
    }

    /// Adds the gradients of `score` to those of the weights and, unless they are empty, of rows and own rows.
    void score_backward(const Backend& by, const attention_weights<const T>& of, std::size_t heads,
        matrix_view<const T> x, matrix_view<const T> own, matrix_view<const T> target_terms,
        matrix_view<const T> source_terms, const attention_weights<T>& grad, matrix_view<T> grad_x,
        matrix_view<T> grad_own, executor_ref on) {
        if (!grad_x.empty()) {
            by.multiply_nt(source_terms, source_, grad_x, true, on);
            by.multiply_nt(target_terms, target_, grad_own, true, on);
        }
        const std::size_t inputs = of.product.rows();
        const auto through = [&](matrix_view<const T> rows, matrix_view<const T> terms, std::span<const T> a,
                                 std::span<T> grad_a, T* memory) {
            const matrix_view<T> g(memory, inputs, heads); // of W a
            std::fill_n(memory, inputs * heads, T{0});
            by.add_tn(rows, terms, g, on);
            for (std::size_t h = 0; h < heads; ++h) {
                const matrix_view<const T> of_head = g.middle_columns(h, 1);
                const std::size_t width = a.size() / heads;
                by.multiply(of_head, matrix_view<const T>(a.data() + h * width, 1, width), head(grad.product, heads, h),
                    {.accumulate = true}, on);
                by.add_tn(of_head, head(of.product, heads, h), matrix_view<T>(grad_a.data() + h * width, 1, width), on);
            }
        };
        through(own, target_terms, of.target, grad.target, target_.data() + 2 * inputs * heads);
        through(x, source_terms, of.source, grad.source, target_.data() + 3 * inputs * heads);
    }

    void release() { memory_ = {}; }

private:
    /// Returns the columns of a head.
    template <class U>
    [[nodiscard]] static matrix_view<U> head(matrix_view<U> of, std::size_t heads, std::size_t h) noexcept {
        const std::size_t width = of.columns() / heads;
        return of.middle_columns(h * width, width);
    }
    /// Returns the values of a head as a matrix of one column.
    [[nodiscard]] static matrix_view<const T> column(std::span<const T> of, std::size_t heads, std::size_t h) noexcept {
        const std::size_t width = of.size() / heads;
        return {of.data() + h * width, width, 1};
    }

    reusable_buffer<T> memory_;
    matrix_view<T> target_{}, source_{}; ///< W a [inputs, heads] of targets and sources
};

} // namespace gneiss::detail
