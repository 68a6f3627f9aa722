#include <gneiss/model/backend/eigen.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace gneiss;

namespace {

/// The contract of `backend`, word for word.
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
static_assert(backend<naive_backend>);

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

TEST_CASE("the three products equal naive loops, with strides and empty sides, and touch nothing else") {
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
