#include <gneiss/model/detail/tall_product.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace test_model_detail_tall_product {

using namespace gneiss;

namespace {

struct matrix {
    std::vector<float> memory; // one float longer than the view, and rows have gaps
    matrix_view<float> view;
    matrix(std::size_t rows, std::size_t columns, std::uint64_t seed, std::size_t gap = 3)
        : memory(rows * (columns + gap) + 1) {
        const random_key key(seed, random_domain::user);
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = to_unit_float(key[i]) - 0.5F;
        view = {memory.data(), rows, columns, columns + gap};
    }
};

// Returns the largest error, and whether memory outside the view was written.
template <class Term>
void check(const matrix& got, const matrix& before, bool accumulate, std::size_t depth, Term&& term) {
    double worst = 0;
    std::vector<float> memory = got.memory;
    for (std::size_t i = 0; i < got.view.rows(); ++i)
        for (std::size_t j = 0; j < got.view.columns(); ++j) {
            float& kept = memory[i * got.view.stride() + j];
            double sum = accumulate ? static_cast<double>(before.memory[i * got.view.stride() + j]) : 0;
            for (std::size_t p = 0; p < depth; ++p) sum += static_cast<double>(term(i, j, p));
            worst = std::max(worst, std::abs(static_cast<double>(kept) - sum));
            kept = before.memory[i * got.view.stride() + j];
        }
    CHECK(worst < 1e-4);
    CHECK(memory == before.memory);
}

} // namespace

TEST_CASE("products of any shape equal naive loops and write nothing else") {
    for (const std::size_t m : {0U, 1U, 5U, 6U, 13U})
        for (const std::size_t depth : {0U, 1U, 65U, 130U}) // more than one pass of the transposed product
            for (const std::size_t n : {0U, 1U, 7U, 16U, 17U, 50U, 63U, 64U, 65U, 131U})
                for (const bool yes : {false, true}) {
                    const matrix a(m, depth, 1), w(yes ? n : depth, yes ? depth : n, 2), g(depth, n, 3),
                        turned(depth, m, 4);
                    matrix out(m, n, 5), grad(m, n, 6);
                    const matrix out_before(m, n, 5), grad_before(m, n, 6);
                    const auto w_at = [&](std::size_t p, std::size_t j) {
                        return yes ? w.memory[j * (depth + 3) + p] : w.memory[p * (n + 3) + j];
                    };
                    detail::packed_panels(w.view, yes).multiply(a.view, yes, out.view);
                    check(out, out_before, yes, depth,
                        [&](std::size_t i, std::size_t j, std::size_t p) { return a.view(i, p) * w_at(p, j); });
                    detail::add_turned(turned.view, g.view, grad.view);
                    check(grad, grad_before, true, depth,
                        [&](std::size_t i, std::size_t j, std::size_t p) { return turned.view(p, i) * g.view(p, j); });
                }
}

TEST_CASE("the packed buffer takes a mebibyte, whatever the width") {
    for (const std::size_t columns : {0U, 1U, 64U, 1000U, 16384U}) {
        const std::size_t depth = detail::packed_panels::depth_for(columns);
        CHECK(depth >= 16);
        CHECK(depth * round_up(columns, detail::product_tile::columns) * sizeof(float) <= 1 << 20);
    }
}

TEST_CASE("an element has the same bits wherever its row is") {
    const matrix a(29, 90, 1), w(90, 70, 2);
    const detail::packed_panels panels(w.view, false);
    matrix all(29, 70, 3), one(1, 70, 4);
    panels.multiply(a.view, false, all.view);
    for (std::size_t i = 0; i < 29; ++i) {
        panels.multiply(a.view.middle_rows(i, 1), false, one.view);
        CHECK(std::ranges::equal(one.view[0], all.view[i]));
    }
}

} // namespace test_model_detail_tall_product
