// SPDX-License-Identifier: Apache-2.0
#pragma once

// Definitions of `eigen_backend`; the only header that includes Eigen. Threads belong to the executor.
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

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/detail/tall_product.hpp>

namespace gneiss {
namespace detail {

template <class T>
[[nodiscard]] auto eigen_map(matrix_view<T> m) {
    using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using target = std::conditional_t<std::is_const_v<T>, const matrix, matrix>;
    return Eigen::Map<target, 0, Eigen::OuterStride<>>(m.data(), static_cast<Eigen::Index>(m.rows()),
        static_cast<Eigen::Index>(m.columns()), Eigen::OuterStride<>(static_cast<Eigen::Index>(m.stride())));
}

/// Computes out = a w, or a wᵀ, then the epilogue.
GNEISS_INLINE void multiply_by(matrix_view<const float> w, bool turned, matrix_view<const float> a,
    matrix_view<float> out, const epilogue<float>& then, executor_ref executor) {
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
                if (last) segment_kernels<float>::finish(then, block);
            }
        });
    }
}

} // namespace detail

GNEISS_INLINE void eigen_backend::multiply_nt(
    matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
    if (!out.empty()) detail::eigen_map(out).noalias() = detail::eigen_map(a) * detail::eigen_map(x).transpose();
}
GNEISS_INLINE void eigen_backend::multiply_nn(
    matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
    if (!out.empty()) detail::eigen_map(out).noalias() = detail::eigen_map(a) * detail::eigen_map(x);
}
GNEISS_INLINE void eigen_backend::add_tn(
    matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
    if (!out.empty() && a.rows() != 0)
        detail::eigen_map(out).noalias() += detail::eigen_map(a).transpose() * detail::eigen_map(x);
}

GNEISS_INLINE void eigen_backend::multiply(matrix_view<const float> a, matrix_view<const float> w,
    matrix_view<float> out, const epilogue<float>& then, executor_ref executor) const {
    detail::multiply_by(w, false, a, out, then, executor);
}
GNEISS_INLINE void eigen_backend::multiply_nt(matrix_view<const float> a, matrix_view<const float> w,
    matrix_view<float> out, bool accumulate, executor_ref executor) const {
    detail::multiply_by(w, true, a, out, {.accumulate = accumulate}, executor);
}
GNEISS_INLINE void eigen_backend::add_tn(
    matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out, executor_ref executor) const {
    constexpr std::size_t depth = 512;
    for (std::size_t first = 0; first < a.rows(); first += depth) {
        const std::size_t count = std::min(depth, a.rows() - first);
        parallel_for(executor, out.rows(), 4 * detail::product_tile::rows, [&](std::size_t i, std::size_t end) {
            detail::add_turned(a.middle_rows(first, count).middle_columns(i, end - i), g.middle_rows(first, count),
                out.middle_rows(i, end - i));
        });
    }
}

} // namespace gneiss
