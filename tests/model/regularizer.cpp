#include <gneiss/model/regularizer.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <model/oracle.hpp>

namespace test_model_regularizer {

using namespace gneiss;

TEST_CASE("penalties equal their formulas and their gradients equal finite differences") {
    for (const norm_penalty kind : {norm_penalty::none, norm_penalty::l2, norm_penalty::n3})
        for (const bool complex_rows : {false, true})
            for (const std::size_t dim : {2U, 6U, 34U}) {
                const regularizer of{kind, 0.3};
                oracle::table x(1, dim, dim);
                std::vector<double> gradient(dim, 1);
                const auto exact = [&] { return 2.5 * oracle::penalty(of, complex_rows, x[0]); };
                CHECK(of.add_gradient(x[0], complex_rows, 2.5, std::span(gradient)) == doctest::Approx(exact()));
                for (std::size_t k = 0; k < dim; ++k)
                    CHECK(gradient[k] == doctest::Approx(1 + oracle::slope(x.values[k], exact)).epsilon(1e-6));
                const std::vector<float> narrow = x.floats();
                std::vector<float> narrow_gradient(dim, 1);
                CHECK(of.add_gradient(narrow, complex_rows, 2.5, std::span(narrow_gradient)) ==
                    doctest::Approx(exact()).epsilon(1e-5));
                for (std::size_t k = 0; k < dim; ++k)
                    CHECK(narrow_gradient[k] == doctest::Approx(gradient[k]).epsilon(1e-5));
            }
}

TEST_CASE("a zero row has neither penalty nor gradient") {
    const std::vector<float> zero(8);
    std::vector<float> gradient(8);
    for (const norm_penalty kind : {norm_penalty::l2, norm_penalty::n3})
        for (const bool complex_rows : {false, true})
            CHECK(regularizer{kind, 1}.add_gradient(zero, complex_rows, 1, std::span(gradient)) == 0);
    for (const float g : gradient) CHECK(g == 0);
}

} // namespace test_model_regularizer
