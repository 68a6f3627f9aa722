// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

/// The rows that go into a layer: dense columns, then sparse ones; either part may have no columns.
///
/// Multiplying them by W [dense + sparse columns, n] is dense · W_above + sparse · W_below, so sparse rows are never
/// expanded. Only dense columns can get gradients. A value of two views; the functions cost the same as the kernels.
template <class T>
struct input_rows {
    matrix_view<const T> dense{}; ///< dense columns
    sparse_rows<T> sparse{};      ///< sparse columns

    /// True if there are sparse columns.
    [[nodiscard]] bool has_sparse() const noexcept { return sparse.columns != 0; }
    /// Returns the number of rows.
    [[nodiscard]] std::size_t rows() const noexcept { return has_sparse() ? sparse.rows() : dense.rows(); }
    /// Returns the number of columns of both parts.
    [[nodiscard]] std::size_t columns() const noexcept { return dense.columns() + sparse.columns; }
    /// Returns `count` rows from `first` on.
    [[nodiscard]] input_rows middle_rows(std::size_t first, std::size_t count) const noexcept {
        return {dense.columns() == 0 ? dense : dense.middle_rows(first, count),
            has_sparse() ? sparse.middle_rows(first, count) : sparse};
    }

    /// Computes out = this · w, then the epilogue.
    template <class Backend>
    void multiply(const Backend& by, matrix_view<const T> w, matrix_view<T> out, const epilogue<T>& then,
        executor_ref executor) const {
        if (!has_sparse()) return by.multiply(dense, w, out, then, executor);
        if (dense.columns() != 0) {
            by.multiply(
                dense, w.middle_rows(0, dense.columns()), out, epilogue<T>{.accumulate = then.accumulate}, executor);
            by.sparse_multiply(sparse, w.middle_rows(dense.columns(), sparse.columns), out,
                epilogue<T>{true, then.bias, then.then}, executor);
        } else {
            by.sparse_multiply(sparse, w, out, then, executor);
        }
    }
    /// Adds thisᵀ · g to grad_w.
    template <class Backend>
    void add_weight_gradient(
        const Backend& by, matrix_view<const T> g, matrix_view<T> grad_w, executor_ref executor) const {
        if (dense.columns() != 0) by.add_tn(dense, g, grad_w.middle_rows(0, dense.columns()), executor);
        if (has_sparse()) by.sparse_add_tn(sparse, g, grad_w.middle_rows(dense.columns(), sparse.columns), executor);
    }
};

} // namespace gneiss
