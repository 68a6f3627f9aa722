#include <gneiss/model/layer/missing_neighbors.hpp>

#include "../gnn.hpp"

#include <gneiss/model/layer/sage.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace test_model_layer_missing_neighbors {

using namespace gneiss;

namespace {

constexpr std::size_t columns = 4;

/// Sums of the neighbors' rows, and their count.
struct neighborhood {
    std::vector<double> sum = std::vector<double>(columns, 0);
    double present = 0;
};
std::vector<neighborhood> neighborhoods(const layer_view& v, matrix_view<const double> x) {
    std::vector<neighborhood> result(v.targets);
    for (std::size_t t = 0; t < v.targets; ++t)
        for (std::size_t e = v.offsets[t]; e < v.offsets[t + 1]; ++e, result[t].present += 1)
            for (std::size_t c = 0; c < columns; ++c) result[t].sum[c] += x(v.neighbors[e], c);
    return result;
}

std::vector<float> chances(std::size_t count, std::uint64_t seed) {
    std::vector<float> result(count);
    for (std::size_t i = 0; i < count; ++i)
        result[i] = 0.05F + 0.95F * to_unit_float(random_key(seed, random_domain::user)[i]);
    return result;
}

} // namespace

TEST_CASE("a mean counts each missing neighbor as the average of the targets' means") {
    const gnn::sample views({40, 15}, true, 3);
    const layer_view& v = views[0];
    const gnn::matrix<> x(40, columns, 4);
    const std::vector<float> coverage = chances(15, 5);
    const auto of = neighborhoods(v, x.view);
    gnn::matrix<> means(15, columns);
    std::vector<double> average(columns, 0);
    const double with =
        static_cast<double>(std::ranges::count_if(of, [](const neighborhood& n) { return n.present > 0; }));
    REQUIRE(with < 15); // some have no neighbor: their mean is 0, and not averaged
    for (std::size_t t = 0; t < 15; ++t)
        for (std::size_t c = 0; c < columns; ++c) {
            means.view(t, c) = of[t].sum[c] / std::max(of[t].present, 1.0);
            average[c] += means.view(t, c) / with;
        }
    missing_neighbors<double> missing;
    missing.assign(v, coverage);
    missing.forward(gnn::naive_backend{}, means.view, serial_executor{});
    for (std::size_t t = 0; t < 15; ++t)
        for (std::size_t c = 0; c < columns; ++c) {
            const double all = std::max(of[t].present, 1.0) / coverage[t];
            const double expected = (of[t].sum[c] + (all - std::max(of[t].present, 1.0)) * average[c]) / all;
            CHECK(means.view(t, c) == doctest::Approx(expected).epsilon(1e-12));
        }
}

TEST_CASE("full coverage changes no layer, and no neighbor at all is a valid batch") {
    for (const bool edges : {true, false}) {
        const gnn::sample views({30, 12}, true, 9);
        layer_view v = views[0];
        const std::vector<std::uint32_t> none(13, 0), no_sources(31, 0);
        if (!edges) {
            v.offsets = none;
            v.neighbors = v.edge_target = v.by_source_edges = {};
            v.by_source_offsets = no_sources;
        }
        const gnn::matrix<> x(30, 5, 10);
        const std::vector<float> full(12, 1.0F), nothing(12, 0.0F);
        const auto run = [&](auto& layer, dense_parameters<double>& weights, std::span<const float> coverage) {
            gnn::randomize(weights, 2);
            gnn::matrix<> out(12, 3);
            layer.forward(weights,
                {.view = v,
                    .rows = {x.view},
                    .on = serial_executor{},
                    .training = {},
                    .targets = {},
                    .coverage = coverage},
                activation::relu, out.view);
            return out.memory;
        };
        for (const sage_reduction reduce : {sage_reduction::mean, sage_reduction::sum, sage_reduction::max}) {
            dense_parameters<double> weights;
            sage_layer<double, gnn::naive_backend> layer(weights, "s", {.dense = 5}, 3, {.reduce = reduce});
            const auto plain = run(layer, weights, {});
            CHECK(run(layer, weights, full) == plain);
            if (!edges) CHECK(run(layer, weights, nothing) == plain);
        }
    }
}

TEST_CASE("an imputed mean estimates the mean of all neighbors with a smaller error than that of the present ones") {
    // 2000 targets with 30 neighbors each around a common value, of which an eighth is present.
    constexpr std::size_t targets = 2000, degree = 30;
    random_stream draw(random_key(11, random_domain::user));
    std::vector<std::uint32_t> offsets{0}, neighbors;
    std::vector<double> values, all;
    gnn::matrix<> means(targets, 1);
    for (std::size_t t = 0; t < targets; ++t) {
        double sum = 0, sum_of_present = 0;
        std::uint32_t present = 0;
        for (std::size_t k = 0; k < degree; ++k) {
            const double value = 2.5 + static_cast<double>(draw.below(1001)) / 1000;
            sum += value;
            if (draw.below(8) == 0) sum_of_present += value, ++present;
        }
        all.push_back(sum / degree);
        means.view(t, 0) = present == 0 ? 0 : sum_of_present / present;
        for (std::uint32_t k = 0; k < present; ++k) neighbors.push_back(0);
        offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
    }
    const auto error = [&] {
        double sum = 0;
        for (std::size_t t = 0; t < targets; ++t) sum += (means.view(t, 0) - all[t]) * (means.view(t, 0) - all[t]);
        return sum / targets;
    };
    const double before = error();
    missing_neighbors<double> missing;
    const layer_view v{.targets = targets, .sources = targets, .offsets = offsets, .neighbors = neighbors};
    missing.assign(v, std::vector<float>(targets, 0.125F));
    missing.forward(gnn::naive_backend{}, means.view, serial_executor{});
    CHECK(error() < before / 10);
}

} // namespace test_model_layer_missing_neighbors
