#include <gneiss/model/layer/gcn.hpp>

#include "../gnn.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace test_model_layer_gcn {

using namespace gneiss;

TEST_CASE("a graph convolution is D^-1/2 (A + I) D^-1/2 X W + b, or D^-1 (A + I) X W + b, over the sample") {
    for (const gcn_normalization normalize : {gcn_normalization::symmetric, gcn_normalization::row})
        for (const std::size_t width : {2U, 9U}) { // both orders of the products
            const gnn::sample views({30, 12}, width == 2, 7);
            const layer_view& v = views[0];
            dense_parameters<double> weights;
            gcn_layer<double, gnn::naive_backend> layer(weights, "g", {.dense = 5}, width, {.normalize = normalize});
            gnn::randomize(weights, 2);
            const gnn::matrix<> x(30, 5, 3);
            gnn::matrix<> out(12, width), a(12, 30);
            layer.forward(weights, {v, {x.view}, serial_executor{}}, activation::none, out.view);

            for (std::size_t t = 0; t < v.targets; ++t) {
                a.view(t, v.first_target + t) += 1;
                for (std::size_t e = v.offsets[t]; e < v.offsets[t + 1]; ++e) a.view(t, v.neighbors[e]) += 1;
            }
            std::vector<double> of_target(12), of_source(30);
            for (std::size_t t = 0; t < 12; ++t)
                for (std::size_t s = 0; s < 30; ++s) {
                    of_target[t] += a.view(t, s);
                    of_source[s] += a.view(t, s);
                }
            const auto w = gnn::weight(weights, "g.weight"), bias = gnn::weight(weights, "g.bias");
            for (std::size_t t = 0; t < 12; ++t)
                for (std::size_t j = 0; j < width; ++j) {
                    double sum = bias(0, j);
                    for (std::size_t s = 0; s < 30; ++s) {
                        if (a.view(t, s) == 0) continue;
                        const double by =
                            normalize == gcn_normalization::row ? of_target[t] : std::sqrt(of_target[t] * of_source[s]);
                        for (std::size_t k = 0; k < 5; ++k) sum += a.view(t, s) / by * x.view(s, k) * w(k, j);
                    }
                    CHECK(out.view(t, j) == doctest::Approx(sum).epsilon(1e-12));
                }
        }
}

TEST_CASE("row-normalized convolution of a constant is that constant") {
    const gnn::sample views({30, 12}, true, 7);
    dense_parameters<double> weights;
    gcn_layer<double, gnn::naive_backend> layer(
        weights, "g", {.dense = 1}, 1, {.normalize = gcn_normalization::row, .bias = false});
    weights.allocate(1);
    weights.values()[0] = 1;
    gnn::matrix<> x(30, 1), out(12, 1);
    for (double& value : x.memory) value = 3.5;
    layer.forward(weights, {views[0], {x.view}, serial_executor{}}, activation::none, out.view);
    for (const double y : out.memory) CHECK(y == doctest::Approx(3.5));
}

} // namespace test_model_layer_gcn
