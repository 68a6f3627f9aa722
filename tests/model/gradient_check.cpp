#include <gneiss/model/gradient_check.hpp>

#include "own_layers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace test_model_gradient_check {

using namespace gneiss;

namespace {

enum class flaw : std::uint8_t { none, weight, input, spared };

/// GIN with an error in its backward pass.
struct flawed : own_layers::gin {
    flaw which = flaw::none;

    void update_backward(auto& c, auto own, auto reduced, auto g, auto grad_own, auto grad_reduced) const {
        gin::update_backward(c, own, reduced, g, grad_own, grad_reduced);
        if (which == flaw::weight) c.gradient(second)(1, 2) += 0.001;
        if (which == flaw::input && !grad_own.empty()) std::ranges::fill(grad_own[0], 0);
        if (which == flaw::spared && grad_own.empty()) c.gradient(first)(0, 0) *= 1.5;
    }
};

gradient_report report_of(flaw which) { return check_gradients({flawed{{.width = 4}, which}}, {.seed = 3}); }

} // namespace

TEST_CASE("an error in a gradient is found and named") {
    CHECK(report_of(flaw::none).error < 1e-6);
    CHECK(report_of(flaw::weight).error > 1e-5);
    CHECK(report_of(flaw::weight).where == "layer0.second");
    CHECK(report_of(flaw::input).where == "input");
    CHECK(std::isinf(report_of(flaw::spared).error));
    CHECK_THROWS_AS((void)check_gradients(parse_layers("sage:3,sage:3,sage:3,sage:3")), error);
}

} // namespace test_model_gradient_check
