#include <gneiss/model/layer/gat.hpp>

#include "../gnn.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace test_model_layer_gat {

using namespace gneiss;

TEST_CASE("graph attention follows its formula for 1, 4 and 8 heads, concatenated or averaged") {
    for (const std::size_t heads : {1U, 4U, 8U})
        for (const bool concat : {false, true}) {
            constexpr std::size_t width = 3;
            const gnn::sample views({30, 12}, concat, 7);
            const layer_view& v = views[0];
            dense_parameters<double> weights;
            gat_layer<double, gnn::naive_backend> layer(
                weights, "a", {.dense = 5}, width, {.heads = heads, .concat = concat, .slope = 0.3});
            gnn::randomize(weights, 2);
            const gnn::matrix<> x(30, 5, 3);
            gnn::matrix<> out(12, layer.outputs());
            CHECK(layer.outputs() == (concat ? heads * width : width));
            layer.forward(weights, {v, {x.view}, serial_executor{}}, activation::none, out.view);

            const auto w = gnn::weight(weights, "a.weight"), bias = gnn::weight(weights, "a.bias");
            const auto target = gnn::weight(weights, "a.attention_target"),
                       source = gnn::weight(weights, "a.attention_source");
            const auto z = [&](std::size_t row, std::size_t h, std::size_t j) {
                double sum = 0;
                for (std::size_t k = 0; k < 5; ++k) sum += x.view(row, k) * w(k, h * width + j);
                return sum;
            };
            for (std::size_t t = 0; t < v.targets; ++t) {
                std::vector<std::size_t> around(
                    v.neighbors.begin() + v.offsets[t], v.neighbors.begin() + v.offsets[t + 1]);
                around.push_back(v.first_target + t);
                std::vector<double> expected(out.view.columns());
                for (std::size_t h = 0; h < heads; ++h) {
                    std::vector<double> attention;
                    double all = 0;
                    for (const std::size_t s : around) {
                        double score = 0;
                        for (std::size_t j = 0; j < width; ++j)
                            score += target(h, j) * z(v.first_target + t, h, j) + source(h, j) * z(s, h, j);
                        attention.push_back(std::exp(score > 0 ? score : 0.3 * score));
                        all += attention.back();
                    }
                    for (std::size_t i = 0; i < around.size(); ++i)
                        for (std::size_t j = 0; j < width; ++j)
                            expected[concat ? h * width + j : j] +=
                                attention[i] / all * z(around[i], h, j) / (concat ? 1 : static_cast<double>(heads));
                }
                for (std::size_t c = 0; c < expected.size(); ++c)
                    CHECK(out.view(t, c) == doctest::Approx(expected[c] + bias(0, c)).epsilon(1e-12));
            }
        }
}

TEST_CASE("attention dropout keeps the expected row") {
    const gnn::sample views({30, 12}, true, 7);
    dense_parameters<double> weights;
    gat_layer<double, gnn::naive_backend> layer(weights, "a", {.dense = 2}, 2, {.heads = 2, .dropout = 0.5});
    gnn::randomize(weights, 2);
    const gnn::matrix<> x(30, 2, 3);
    gnn::matrix<> plain(12, 4), dropped(12, 4), mean(12, 4);
    layer.forward(weights, {views[0], {x.view}, serial_executor{}}, activation::none, plain.view);
    constexpr std::size_t draws = 4000;
    for (std::size_t i = 0; i < draws; ++i) {
        layer.forward(weights, {views[0], {x.view}, serial_executor{}, random_key{i, random_domain::dropout}},
            activation::none, dropped.view);
        for (std::size_t k = 0; k < mean.memory.size(); ++k) mean.memory[k] += dropped.memory[k] / draws;
    }
    for (std::size_t k = 0; k < mean.memory.size(); ++k) CHECK(std::abs(mean.memory[k] - plain.memory[k]) < 0.1);
    CHECK(dropped.memory != plain.memory);
}

} // namespace test_model_layer_gat
