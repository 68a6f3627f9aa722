// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes Eigen. Threads belong to the executor.
#ifndef EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_PARALLELIZE
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // the compiler's own AVX-512 header (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/tall_product.hpp>
#include <gneiss/model/fwd.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

/// Products of `gemm_backend` by Eigen, vectorized for the instruction set of the build, and the kernels of GNN layers by plain
/// loops. Products with an executor are those of layers, of many rows times few, by register tiles, a quarter faster than
/// Eigen's; their division into blocks depends only on their sizes.
class eigen_backend : public segment_kernels<float> {
    template <class T>
    [[nodiscard]] static auto map(matrix_view<T> m) {
        using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        using target = std::conditional_t<std::is_const_v<T>, const matrix, matrix>;
        return Eigen::Map<target, 0, Eigen::OuterStride<>>(m.data(), static_cast<Eigen::Index>(m.rows()),
            static_cast<Eigen::Index>(m.columns()), Eigen::OuterStride<>(static_cast<Eigen::Index>(m.stride())));
    }

public:
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        if (!out.empty()) map(out).noalias() = map(a) * map(x).transpose();
    }
    void multiply_nn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        if (!out.empty()) map(out).noalias() = map(a) * map(x);
    }
    void add_tn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        if (!out.empty() && a.rows() != 0) map(out).noalias() += map(a).transpose() * map(x);
    }

    void multiply(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out,
        const epilogue<float>& then, executor_ref executor) const {
        multiply_by(w, false, a, out, then, executor);
    }
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out, bool accumulate,
        executor_ref executor) const {
        multiply_by(w, true, a, out, {.accumulate = accumulate}, executor);
    }
    /// A task owns some rows of the result. It takes some rows of both operands at a time, which stay in the second-level cache
    /// for all tasks.
    void add_tn(matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out, executor_ref executor) const {
        constexpr std::size_t depth = 512;
        for (std::size_t first = 0; first < a.rows(); first += depth) {
            const std::size_t count = std::min(depth, a.rows() - first);
            parallel_for(executor, out.rows(), 4 * detail::product_tile::rows, [&](std::size_t i, std::size_t end) {
                detail::add_turned(a.middle_rows(first, count).middle_columns(i, end - i), g.middle_rows(first, count), out.middle_rows(i, end - i));
            });
        }
    }

private:
    /// Computes out = a w, or a wᵀ, then the epilogue.
    static void multiply_by(matrix_view<const float> w, bool turned, matrix_view<const float> a, matrix_view<float> out,
        const epilogue<float>& then, executor_ref executor) {
        constexpr std::size_t of_a_task = 480, of_a_block = 48; // rows; the epilogue finds a block in the cache
        const std::size_t all = a.columns(), step = detail::packed_panels::depth_for(out.columns());
        for (std::size_t first = 0, depth; first < all || first == 0; first += step) {
            depth = std::min(step, all - first);
            const detail::packed_panels part(turned ? w.middle_columns(first, depth) : w.middle_rows(first, depth), turned);
            const bool accumulate = then.accumulate || first != 0, last = first + step >= all;
            parallel_for(executor, out.rows(), of_a_task, [&](std::size_t i, std::size_t end) {
                for (std::size_t count; i < end; i += count) {
                    count = std::min(of_a_block, end - i);
                    const auto block = out.middle_rows(i, count);
                    part.multiply(a.middle_rows(i, count).middle_columns(first, depth), accumulate, block);
                    if (last) finish(then, block);
                }
            });
        }
    }
};

static_assert(gemm_backend<eigen_backend> && gnn_kernels<eigen_backend>);

/// The encoder of a GNN on the CPU, model/encoder.hpp.
using cpu_encoder = encoder<float, eigen_backend>;
using cpu_layer = any_layer_factory<float, eigen_backend>; ///< layer of a `cpu_encoder`

} // namespace gneiss
