#include <gneiss/model/dense_parameters.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace test_model_dense_parameters {

using namespace gneiss;

TEST_CASE("arrays are aligned, padded with zeros, and views of one arena") {
    dense_parameters<> p;
    const auto w = p.add("w", 3, 7, initializer::uniform(1, 2)), b = p.add_constant("b", 5, 0.25F),
               none = p.add("none", 0, 4, initializer::zeros());
    p.allocate(1);
    p.allocate_state(2, 0.5F);
    CHECK(p.size() == 48);
    CHECK(p.state().size() == 96);
    for (const auto& a : p.arrays()) CHECK(reinterpret_cast<std::uintptr_t>(p.values().data() + a.offset) % 64 == 0);
    double sum = 0, of_arrays = 0;
    for (const float x : p.values()) sum += static_cast<double>(x);
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 7; ++j) {
            CHECK(p.value(w)(i, j) >= 1);
            of_arrays += static_cast<double>(p.value(w)(i, j));
        }
    for (const float x : p.list(b)) CHECK(x == 0.25F);
    CHECK(sum == doctest::Approx(of_arrays + 5 * 0.25));
    CHECK(p.value(none).rows() == 0);
    CHECK((p.arrays()[w].decays && !p.arrays()[b].decays));
    p.gradient(w)(2, 6) = 4;
    CHECK(p.gradients()[20] == 4);
    p.zero_gradients();
    CHECK(p.gradients()[20] == 0);
}

TEST_CASE("initial values depend on the seed and an array's number only") {
    dense_parameters<> a, b, c;
    a.add("x", 2, 2, initializer::zeros());
    a.add("y", 9, 9, initializer::normal(0, 1));
    b.add("x", 50, 3, initializer::uniform(0, 1));
    b.add("y", 9, 9, initializer::normal(0, 1));
    c.add("y", 9, 9, initializer::normal(0, 1));
    for (auto* p : {&a, &b, &c}) p->allocate(5);
    const auto values = [](const dense_parameters<>& p, std::size_t i) {
        return std::vector<float>(p.list(i).begin(), p.list(i).end());
    };
    CHECK(values(a, 1) == values(b, 1));
    CHECK(values(a, 1) != values(c, 0));
    b.allocate(6);
    CHECK(values(a, 1) != values(b, 1));
}

} // namespace test_model_dense_parameters
