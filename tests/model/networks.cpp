#include "gnn.hpp"

#include <gneiss/model/classify.hpp>
#include <gneiss/model/targets.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace test_model_networks {

using namespace gneiss;

namespace {

constexpr std::size_t targets = 5, outputs = 3;

/// The mean loss of outputs, which it replaces by their gradients.
using mean_loss = std::function<double(matrix_view<double>)>;

struct named_loss {
    std::string name;
    mean_loss of;
};

/// Losses of nodes with one class, several labels, or numbers; with weights, and with nodes that have no label or
/// target.
std::vector<named_loss> losses() {
    static const std::vector<class_id> labels{2, 0, unlabeled, 1, 2};
    static const std::vector<float> weights{0.5F, 3, 1.5F};
    static std::vector<float> sets, numbers;
    for (std::size_t i = 0; sets.size() < targets * outputs; ++i) {
        const bool missing = i % 7 == 3;
        sets.push_back(missing ? std::numeric_limits<float>::quiet_NaN() : i % 3 == 0 ? 1.0F : 0.0F);
        numbers.push_back(missing ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i) * 0.3F - 1);
    }
    const serial_executor executor;
    const auto classes = [=](std::span<const float> by) {
        return [=](matrix_view<double> out) {
            double all = 0;
            for (const class_id label : labels)
                if (label != unlabeled) all += by.empty() ? 1 : static_cast<double>(by[label]);
            return softmax_cross_entropy(out, std::span<const class_id>(labels), executor, by).loss / all;
        };
    };
    const auto several = [=](std::span<const float> by) {
        return [=](matrix_view<double> out) {
            const auto found = sigmoid_cross_entropy(out, {sets.data(), targets, outputs}, executor, by);
            return found.loss / static_cast<double>(found.targets);
        };
    };
    const auto regression = [=](matrix_view<double> out) {
        const auto found = squared_error(out, {numbers.data(), targets, outputs}, executor);
        return found.loss / static_cast<double>(found.targets);
    };
    return {{"classes", classes({})}, {"weighted classes", classes(weights)}, {"labels", several({})},
        {"weighted labels", several(weights)}, {"numbers", regression}};
}

/// Returns the worst deviation of the weights' gradients of a loss of a network from central differences.
double worst_gradient(const std::string& layers, const mean_loss& loss, bool coverage) {
    dense_parameters<double> weights;
    gnn::double_encoder encode(weights, parse_layers(layers), {.dense = 4});
    gnn::randomize(weights, 7);
    const std::vector<std::size_t> all{13, 9, targets},
        sizes(all.end() - static_cast<std::ptrdiff_t>(encode.hops()) - 1, all.end());
    const gnn::sample views(sizes, false, 3);
    const gnn::matrix<> rows(sizes.front(), 4, 5);
    std::vector<float> chances(coverage ? sizes.front() : 0);
    for (std::size_t i = 0; i < chances.size(); ++i) chances[i] = 0.2F + 0.05F * static_cast<float>(i % 16);
    const serial_executor executor;
    const auto forward = [&](std::vector<double>& out) {
        const matrix_view<double> found =
            encode.forward(weights, views, {.dense = rows.view}, {.coverage = chances}, executor);
        out.clear();
        for (std::size_t i = 0; i < found.rows(); ++i) out.insert(out.end(), found[i].begin(), found[i].end());
        return loss({out.data(), targets, outputs});
    };
    std::vector<double> gradients, unused;
    weights.zero_gradients();
    (void)forward(gradients);
    encode.backward(weights, {gradients.data(), targets, outputs}, {}, executor);
    double worst = 0, size = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const double gradient = weights.gradients()[i], step = 1e-6;
        double& x = weights.values()[i];
        const double at = x;
        x = at + step;
        const double above = forward(unused);
        x = at - step;
        const double slope = (above - forward(unused)) / (2 * step);
        x = at;
        worst = std::max(worst, std::abs(slope - gradient) / (1 + std::abs(slope)));
        size += std::abs(gradient);
    }
    CHECK(size > 0);
    return worst;
}

} // namespace

TEST_CASE("gradients of whole networks equal finite differences: each layer and loss, with weights, missing targets "
          "and imputed neighbors") {
    for (const std::string layers : {"sage:4,sage:3", "sage:4:sum:add:tanh,sage:3", "gcn:4:row,gcn:3:row",
             "gcn:4:symmetric,gcn:3:symmetric", "gat:2x2,gat:3x2:mean", "linear:4:tanh,sage:4:elu:residual,linear:3"})
        for (const named_loss& loss : losses())
            for (const bool coverage : {false, true}) {
                CAPTURE(layers);
                CAPTURE(loss.name);
                CAPTURE(coverage);
                CHECK(worst_gradient(layers, loss.of, coverage) < 1e-6);
            }
}

} // namespace test_model_networks
