#pragma once

// The only header that sees Eigen. Threads belong to the executor.
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

#include <cstddef>
#include <type_traits>

#include <gneiss/model/backend/segment_kernels.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

/// Products by Eigen, vectorised for the instruction set that the program is compiled for, and the other kernels of
/// graph layers by plain loops. Products that take an executor are cut into blocks by their sizes alone.
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
        const epilogue<float>& then, executor_ref on) const {
        parallel_for(on, out.rows(), product_rows, [&](std::size_t i, std::size_t end) {
            const auto block = out.middle_rows(i, end - i);
            if (then.accumulate) add_nn(a.middle_rows(i, end - i), w, block);
            else multiply_nn(a.middle_rows(i, end - i), w, block);
            finish(then, block);
        });
    }
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> w, matrix_view<float> out, bool accumulate,
        executor_ref on) const {
        parallel_for(on, out.rows(), product_rows, [&](std::size_t i, std::size_t end) {
            const auto block = out.middle_rows(i, end - i);
            if (accumulate) add_nt(a.middle_rows(i, end - i), w, block);
            else multiply_nt(a.middle_rows(i, end - i), w, block);
        });
    }
    /// A task owns some rows of the result, and reads those columns of a and the whole of g.
    void add_tn(matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out, executor_ref on) const {
        parallel_for(on, out.rows(), 64, [&](std::size_t i, std::size_t end) {
            add_tn(a.middle_columns(i, end - i), g, out.middle_rows(i, end - i));
        });
    }

private:
    static constexpr std::size_t product_rows = 512; // of a task

    static void add_nn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) {
        if (!out.empty() && x.rows() != 0) map(out).noalias() += map(a) * map(x);
    }
    static void add_nt(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) {
        if (!out.empty() && a.columns() != 0) map(out).noalias() += map(a) * map(x).transpose();
    }
};

static_assert(backend<eigen_backend> && gnn_backend<eigen_backend>);

} // namespace gneiss
