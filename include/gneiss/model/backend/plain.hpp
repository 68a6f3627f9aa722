// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

/// The kernels of GNN layers with naive matrix products on the calling thread, in any floating point type: for checks
/// in double, without regard to speed. Needs no other library.
template <class T>
struct plain_backend : segment_kernels<T> {
    static void multiply(matrix_view<const T> a, matrix_view<const T> w, matrix_view<T> out, const epilogue<T>& then,
        executor_ref /*executor*/) {
        for (std::size_t i = 0; i < out.rows(); ++i)
            for (std::size_t j = 0; j < out.columns(); ++j) {
                if (!then.accumulate) out(i, j) = 0;
                for (std::size_t k = 0; k < w.rows(); ++k) out(i, j) += a(i, k) * w(k, j);
            }
        segment_kernels<T>::finish(then, out);
    }
    static void multiply_nt(matrix_view<const T> a, matrix_view<const T> w, matrix_view<T> out, bool accumulate,
        executor_ref /*executor*/) {
        for (std::size_t i = 0; i < out.rows(); ++i)
            for (std::size_t j = 0; j < out.columns(); ++j) {
                if (!accumulate) out(i, j) = 0;
                for (std::size_t k = 0; k < a.columns(); ++k) out(i, j) += a(i, k) * w(j, k);
            }
    }
    static void add_tn(matrix_view<const T> a, matrix_view<const T> g, matrix_view<T> out, executor_ref /*executor*/) {
        for (std::size_t i = 0; i < a.rows(); ++i)
            for (std::size_t j = 0; j < a.columns(); ++j)
                for (std::size_t k = 0; k < g.columns(); ++k) out(j, k) += a(i, j) * g(i, k);
    }
};
static_assert(gnn_kernels<plain_backend<float>> && gnn_kernels<plain_backend<double>, double>);

} // namespace gneiss
