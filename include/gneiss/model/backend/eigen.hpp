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

#include <type_traits>

#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// Products by Eigen, vectorised for the instruction set that the program is compiled for.
class eigen_backend {
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
};

static_assert(backend<eigen_backend>);

} // namespace gneiss
