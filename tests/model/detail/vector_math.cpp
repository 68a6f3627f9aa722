#include <gneiss/model/detail/vector_math.hpp>

#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace test_model_detail_vector_math {

using namespace gneiss;
using namespace gneiss::detail;

TEST_CASE("the exponential is within 2^-22 of std::exp if its result is normal") {
    double worst = 0;
    for (int i = 0; i < 102'398; ++i) { // −86.4 to 88.7
        const float f = static_cast<float>(-86.4 + i * 0.00171);
        const double exact = std::exp(static_cast<double>(f));
        worst = std::max(worst, std::abs(static_cast<double>(exponential(f)) - exact) / exact);
    }
    CHECK(worst <= 0x1p-22);
}

TEST_CASE("the exponential handles infinities and limits") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    CHECK(exponential(0.0F) == 1.0F);
    CHECK(exponential(-infinity) == 0.0F);
    CHECK(exponential(-1000.0F) == 0.0F);
    CHECK(exponential(infinity) == infinity);
    CHECK(exponential(89.0F) == infinity);
    CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("the square root is within two units in the last place of std::sqrt") {
    double x = 1e-30;
    for (int i = 0; i < 373'000; ++i, x *= 1.00037) { // up to 1e30
        const float f = static_cast<float>(x), exact = std::sqrt(f);
        CHECK(std::abs(square_root(f) - exact) <= 2 * (std::nextafter(exact, 1e38F) - exact));
    }
    CHECK(square_root(0.0F) == 0.0F);
    CHECK(std::isnan(square_root(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("sums, maxima and products of rows equal those of a plain loop at every length") {
    const random_key key(1, random_domain::user);
    std::vector<float> a, b;
    double sum = 0, product = 0;
    float most = -std::numeric_limits<float>::infinity();
    for (std::size_t n = 0; n < 70; ++n) {
        CHECK(lane_sum<float>(n, [&](std::size_t i) { return a[i]; }) == doctest::Approx(sum).epsilon(1e-5));
        CHECK(dot(a.data(), b.data(), n) == doctest::Approx(product).epsilon(1e-5));
        CHECK(lane_max(a.data(), n) == most);
        a.push_back(to_unit_float(key[2 * n]) - 0.4F);
        b.push_back(to_unit_float(key[2 * n + 1]) + 0.1F);
        sum += static_cast<double>(a[n]);
        product += static_cast<double>(a[n]) * static_cast<double>(b[n]);
        most = std::max(most, a[n]);
    }
}

} // namespace test_model_detail_vector_math
