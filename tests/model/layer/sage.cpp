#include <gneiss/model/layer/sage.hpp>

#include "../gnn.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace test_model_layer_sage {

using namespace gneiss;

TEST_CASE("GraphSAGE follows its formula for each reduction and combination, also for isolated targets") {
    for (const sage_reduction reduce : {sage_reduction::mean, sage_reduction::sum, sage_reduction::max})
        for (const bool concat : {false, true})
            for (const std::size_t width : {2U, 9U}) { // both orders of the products
                const gnn::sample views({30, 12}, concat, 7);
                const layer_view& v = views[0];
                dense_parameters<double> weights;
                sage_layer<double, gnn::naive_backend> layer(
                    weights, "s", {.dense = 5}, width, {.reduce = reduce, .concat = concat});
                gnn::randomize(weights, 2);
                const gnn::matrix<> x(30, 5, 3);
                gnn::matrix<> out(12, width);
                layer.forward(weights, {v, {x.view}, serial_executor{}}, activation::relu, out.view);

                const auto own = gnn::weight(weights, "s.own"), bias = gnn::weight(weights, "s.bias");
                const auto other = concat ? gnn::weight(weights, "s.neighbours") : own;
                for (std::size_t t = 0; t < v.targets; ++t)
                    for (std::size_t j = 0; j < width; ++j) {
                        double sum = bias(0, j);
                        for (std::size_t k = 0; k < 5; ++k) {
                            double reduced = 0;
                            for (std::size_t e = v.offsets[t]; e < v.offsets[t + 1]; ++e) {
                                const double one = x.view(v.neighbors[e], k);
                                if (reduce == sage_reduction::max)
                                    reduced = e == v.offsets[t] ? one : std::max(reduced, one);
                                else
                                    reduced += one;
                            }
                            const double degree = v.offsets[t + 1] - v.offsets[t];
                            if (reduce == sage_reduction::mean && degree > 0) reduced /= degree;
                            sum += x.view(v.first_target + t, k) * own(k, j) + reduced * other(k, j);
                        }
                        CHECK(out.view(t, j) == doctest::Approx(std::max(sum, 0.0)).epsilon(1e-12));
                    }
            }
}

} // namespace test_model_layer_sage
