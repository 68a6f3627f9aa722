#include <gneiss/eval/score_kernel.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace test_eval_score_kernel {

using namespace gneiss;

namespace {

struct matrix {
    std::vector<float> values;
    std::size_t rows, columns;

    matrix(std::uint64_t seed, std::size_t r, std::size_t c) : values(r * c), rows(r), columns(c) {
        random_stream draw(random_key{seed, random_domain::user});
        for (float& value : values) value = 4 * to_unit_float(draw()) - 2;
    }
    [[nodiscard]] matrix_view<const float> view() const { return {values.data(), rows, columns}; }
};

template <similarity Compare>
std::vector<float> scores(matrix_view<const float> queries, matrix_view<const float> candidates) {
    const fixed_order_kernel kernel;
    const std::size_t dim = queries.columns();
    std::vector<float> packed(kernel.packed_floats(candidates.rows(), dim));
    std::vector<float> scratch(kernel.scratch_floats(queries.rows(), dim));
    std::vector<float> out(queries.rows() * candidates.rows());
    kernel.pack(candidates, packed);
    kernel.scores(Compare, queries, packed, {out.data(), queries.rows(), candidates.rows()}, scratch);
    return out;
}

template <similarity Compare>
void check_against_double() {
    for (const std::size_t m : {1U, 5U, 6U, 12U, 13U, 40U})
        for (const std::size_t n : {1U, 8U, 31U, 32U, 33U, 100U})
            for (const std::size_t dim : {1U, 7U, 64U}) {
                const matrix q(m, m, dim), x(n + 1000, n, dim);
                const auto out = scores<Compare>(q.view(), x.view());
                for (std::size_t i = 0; i < m; ++i)
                    for (std::size_t j = 0; j < n; ++j) {
                        double sum = 0;
                        for (std::size_t k = 0; k < dim; ++k) {
                            const double a = q.view()(i, k), b = x.view()(j, k);
                            sum += Compare == similarity::inner_product ? a * b : -(a - b) * (a - b);
                        }
                        CHECK(out[i * n + j] == doctest::Approx(sum).epsilon(1e-4));
                    }
            }
}

template <similarity Compare>
void check_position() {
    constexpr std::size_t dim = 37;
    const matrix q(1, 50, dim), x(2, 80, dim);
    const auto whole = scores<Compare>(q.view(), x.view());
    for (std::size_t first = 0; first < 50; first += 7)
        for (std::size_t begin = 0; begin < 80; begin += 9)
            for (const std::size_t count : {1U, 2U, 8U}) {
                const std::size_t m = std::min<std::size_t>(count, 50 - first), n = std::min(3 * count, 80 - begin);
                const auto part = scores<Compare>(q.view().middle_rows(first, m), x.view().middle_rows(begin, n));
                for (std::size_t i = 0; i < m; ++i)
                    for (std::size_t j = 0; j < n; ++j) CHECK(part[i * n + j] == whole[(first + i) * 80 + begin + j]);
            }
}

} // namespace

TEST_CASE("scores equal those of a loop in double") {
    check_against_double<similarity::inner_product>();
    check_against_double<similarity::negative_distance>();
}

TEST_CASE("the bits of a score depend on its two rows alone") {
    check_position<similarity::inner_product>();
    check_position<similarity::negative_distance>();
}

TEST_CASE("rows with a stride score like packed ones") {
    const matrix q(3, 30, 10), x(4, 60, 10);
    const matrix_view<const float> even_q(q.values.data(), 15, 10, 20), even_x(x.values.data(), 30, 10, 20);
    const auto some = scores<similarity::inner_product>(even_q, even_x);
    const auto all = scores<similarity::inner_product>(q.view(), x.view());
    for (std::size_t i = 0; i < 15; ++i)
        for (std::size_t j = 0; j < 30; ++j) CHECK(some[i * 30 + j] == all[2 * i * 60 + 2 * j]);
}

TEST_CASE("a squared distance replaces the distance") {
    CHECK(similarity_of(similarity::negative_distance, -9) == -3);
    CHECK(similarity_of(similarity::inner_product, -9) == -9);
}

} // namespace test_eval_score_kernel
