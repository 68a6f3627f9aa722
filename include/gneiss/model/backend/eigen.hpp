// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

template <class T, gnn_kernels<T> Backend>
class any_layer_factory;
template <class T, class Backend>
class encoder;

/// Products of `gemm_backend` by Eigen, vectorized for the instruction set of the build, and the kernels of GNN layers
/// by plain loops. Products with an executor are those of layers, of many rows times few, by register tiles, a quarter
/// faster than Eigen's; their division into blocks depends only on their sizes.
class eigen_backend : public segment_kernels<float> {
public:
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const;
    void multiply_nn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const;
    void add_tn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const;

    void multiply(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out,
        const epilogue<float>& then, executor_ref executor) const;
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out, bool accumulate,
        executor_ref executor) const;
    /// A task owns some rows of the result. It takes some rows of both operands at a time, which stay in the
    /// second-level cache for all tasks.
    void add_tn(
        matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out, executor_ref executor) const;
};

static_assert(gemm_backend<eigen_backend> && gnn_kernels<eigen_backend>);

/// The encoder of a GNN on the CPU, model/encoder.hpp.
using cpu_encoder = encoder<float, eigen_backend>;
using cpu_layer = any_layer_factory<float, eigen_backend>; ///< layer of a `cpu_encoder`

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/model/detail/eigen_products.hpp>
#endif
