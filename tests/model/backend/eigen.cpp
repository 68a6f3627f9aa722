#include <gneiss/model/backend/eigen.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace test_model_backend_eigen {

using namespace gneiss;

namespace {

/// Reference implementation of the contract of `backend`.
struct naive_backend {
    void multiply_nt(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        for (std::size_t i = 0; i < a.rows(); ++i)
            for (std::size_t j = 0; j < x.rows(); ++j) {
                out(i, j) = 0;
                for (std::size_t k = 0; k < a.columns(); ++k) out(i, j) += a(i, k) * x(j, k);
            }
    }
    void multiply_nn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        for (std::size_t i = 0; i < a.rows(); ++i)
            for (std::size_t k = 0; k < x.columns(); ++k) {
                out(i, k) = 0;
                for (std::size_t j = 0; j < x.rows(); ++j) out(i, k) += a(i, j) * x(j, k);
            }
    }
    void add_tn(matrix_view<const float> a, matrix_view<const float> x, matrix_view<float> out) const {
        for (std::size_t i = 0; i < a.rows(); ++i)
            for (std::size_t j = 0; j < a.columns(); ++j)
                for (std::size_t k = 0; k < x.columns(); ++k) out(j, k) += a(i, j) * x(i, k);
    }
};
static_assert(gemm_backend<naive_backend>);

struct matrix {
    std::vector<float> memory;
    matrix_view<float> view;
    matrix(std::size_t rows, std::size_t columns, std::size_t stride, std::uint64_t seed) : memory(rows * stride + 1) {
        const random_key key(seed, random_domain::user);
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = to_unit_float(key[i]) - 0.5F;
        view = {memory.data(), rows, columns, stride};
    }
};

} // namespace

TEST_CASE("the three products equal naive loops, with strides and empty sides, and write nothing else") {
    for (const std::size_t m : {0U, 1U, 3U, 17U})
        for (const std::size_t n : {0U, 1U, 5U, 33U})
            for (const std::size_t k : {1U, 4U, 19U}) {
                const matrix a(m, k, k + 2, 1), x(n, k, k, 2), g(m, n, n + 1, 3), q(m, k, k + 3, 4);
                matrix nt(m, n, n + 3, 5), nt2 = nt, nn(m, k, k + 1, 6), nn2 = nn, tn(n, k, k + 1, 7), tn2 = tn;
                nt2.view = {nt2.memory.data(), m, n, n + 3};
                nn2.view = {nn2.memory.data(), m, k, k + 1};
                tn2.view = {tn2.memory.data(), n, k, k + 1};
                eigen_backend{}.multiply_nt(a.view, x.view, nt.view);
                naive_backend{}.multiply_nt(a.view, x.view, nt2.view);
                eigen_backend{}.multiply_nn(g.view, x.view, nn.view);
                naive_backend{}.multiply_nn(g.view, x.view, nn2.view);
                eigen_backend{}.add_tn(g.view, q.view, tn.view);
                naive_backend{}.add_tn(g.view, q.view, tn2.view);
                const auto close = [](const matrix& left, const matrix& right) {
                    for (std::size_t i = 0; i < left.memory.size(); ++i)
                        CHECK(left.memory[i] == doctest::Approx(right.memory[i]).epsilon(1e-4));
                };
                close(nt, nt2);
                close(nn, nn2);
                close(tn, tn2);
            }
}

TEST_CASE(
    "products on an executor equal naive loops with their epilogue, across blocks, with the same bits on threads") {
    for (const std::size_t m : {0U, 3U, 1100U})
        for (const std::size_t k : {0U, 1U, 70U, 300U}) // more than is packed at once
            for (const std::size_t n : {1U, 33U})
                for (const bool accumulate : {false, true}) {
                    const matrix a(m, k, k + 2, 1), w(k, n, n + 1, 2), g(m, n, n, 3), bias(1, n, n, 4);
                    matrix out(m, n, n + 1, 5), back(m, k, k + 1, 6), grad(k, n, n, 7);
                    matrix out2 = out, back2 = back, grad2 = grad;
                    out2.view = {out2.memory.data(), m, n, n + 1};
                    back2.view = {back2.memory.data(), m, k, k + 1};
                    grad2.view = {grad2.memory.data(), k, n, n};
                    const matrix out_before = out, back_before = back, grad_before = grad;
                    const epilogue<float> then{accumulate, {bias.memory.data(), n}, activation::relu};
                    const auto run = [&](const auto& executor, matrix& x, matrix& y, matrix& z) {
                        eigen_backend{}.multiply(a.view, w.view, x.view, then, executor);
                        eigen_backend{}.multiply_nt(g.view, w.view, y.view, accumulate, executor);
                        eigen_backend{}.add_tn(a.view, g.view, z.view, executor);
                    };
                    run(serial_executor{}, out, back, grad);
                    run(tbb_executor(3), out2, back2, grad2);
                    CHECK(out.memory == out2.memory);
                    CHECK(back.memory == back2.memory);
                    CHECK(grad.memory == grad2.memory);
                    double worst = 0;
                    const auto compare = [&](float got, double want) {
                        worst = std::max(worst, std::abs(static_cast<double>(got) - want));
                    };
                    for (std::size_t i = 0; i < m; ++i) {
                        for (std::size_t j = 0; j < n; ++j) {
                            double sum = static_cast<double>(bias.memory[j]);
                            if (accumulate) sum += static_cast<double>(out_before.memory[i * (n + 1) + j]);
                            for (std::size_t l = 0; l < k; ++l)
                                sum += static_cast<double>(a.view(i, l)) * static_cast<double>(w.view(l, j));
                            compare(out.view(i, j), std::max(sum, 0.0));
                        }
                        for (std::size_t l = 0; l < k; ++l) {
                            double sum = accumulate ? static_cast<double>(back_before.memory[i * (k + 1) + l]) : 0;
                            for (std::size_t j = 0; j < n; ++j)
                                sum += static_cast<double>(g.view(i, j)) * static_cast<double>(w.view(l, j));
                            compare(back.view(i, l), sum);
                        }
                    }
                    for (std::size_t l = 0; l < k; ++l)
                        for (std::size_t j = 0; j < n; ++j) {
                            double sum = static_cast<double>(grad_before.memory[l * n + j]);
                            for (std::size_t i = 0; i < m; ++i)
                                sum += static_cast<double>(a.view(i, l)) * static_cast<double>(g.view(i, j));
                            compare(grad.view(l, j), sum);
                        }
                    CHECK(worst < 1e-4);
                }
}

} // namespace test_model_backend_eigen
