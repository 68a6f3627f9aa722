#include "gnn.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/cpu_encoder.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/sample/layer_view.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace test_model_encoder_training {

using namespace gneiss;

namespace {

constexpr std::size_t nodes = 600, features = 12;
constexpr std::uint32_t classes = 4;

/// Four communities: nine edges of ten stay inside; features correlate weakly with the class. The first hundred nodes
/// train.
struct communities {
    std::vector<std::uint32_t> label, offsets{0}, neighbors;
    gnn::matrix<float> rows{nodes, features, 5};

    communities() {
        random_stream draw(random_key(1, random_domain::user));
        std::vector<std::vector<std::uint32_t>> around(nodes);
        for (std::uint32_t i = 0; i < nodes; ++i) label.push_back(static_cast<std::uint32_t>(draw.below(classes)));
        for (std::size_t e = 0; e < 3000;) {
            const auto a = static_cast<std::uint32_t>(draw.below(nodes)),
                       b = static_cast<std::uint32_t>(draw.below(nodes));
            if (a == b || (label[a] != label[b] && draw.below(27) != 0)) continue;
            around[a].push_back(b);
            around[b].push_back(a);
            ++e;
        }
        for (std::uint32_t i = 0; i < nodes; ++i) {
            neighbors.insert(neighbors.end(), around[i].begin(), around[i].end());
            offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
            rows.view(i, label[i]) += 0.35F;
        }
    }
    [[nodiscard]] static std::size_t layers() { return 2; } // all nodes are targets of both
    template <class... Memory>
    [[nodiscard]] layer_view layer(std::size_t, Memory&...) const {
        return {.targets = nodes, .sources = nodes, .offsets = offsets, .neighbors = neighbors};
    }
};

/// Returns the accuracy on nodes that did not train.
double trained_accuracy(
    const communities& graph, const std::string& text, const dense_optimizer& step, executor_ref executor) {
    const auto layers = parse_layers(text, {.dropout = 0.2, .last_width = classes});
    layer_stack both;
    both.assign(graph, executor);
    const std::vector<layer_view> views(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(hops_of(layers)));
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights, layers, {.dense = features});
    weights.allocate(3);
    step.allocate_state(weights);
    std::vector<std::uint32_t> labels(graph.label), held_out(graph.label);
    std::fill(labels.begin() + 100, labels.end(), unlabeled);
    std::fill(held_out.begin(), held_out.begin() + 100, unlabeled);
    constexpr std::uint64_t steps = 80;
    for (std::uint64_t t = 0; t < steps; ++t) {
        const auto scores = encode.forward(
            weights, views, {graph.rows.view}, {.training = random_key{1, random_domain::dropout}.with(t)}, executor);
        softmax_cross_entropy<float>(scores, labels, executor);
        encode.backward(weights, scores, {}, executor);
        step.step(weights, t + 1, make_schedule("cosine").factor(t, steps), executor);
    }
    return softmax_cross_entropy<float>(
        encode.forward(weights, views, {graph.rows.view}, {}, executor), held_out, executor)
        .accuracy();
}

constexpr dense_optimizer_options decay{.weight_decay = 5e-4, .clip_norm = 5};

/// Steps by a constant length along the signs of a moving average. Source: Chen et al., NeurIPS 2023 (Lion).
struct lion {
    float rate = 0.005F, near = 0.9F, far = 0.99F;

    static constexpr std::size_t state_floats(std::size_t dim) { return dim; }
    static constexpr float initial_state() { return 0; }
    void step(std::span<float> value, std::span<float> state, std::span<const float> gradient, std::uint64_t) const {
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            const float toward = near * state[i] + (1 - near) * gradient[i];
            value[i] -= toward == 0 ? 0 : std::copysign(rate, toward);
            state[i] = far * state[i] + (1 - far) * gradient[i];
        }
    }
};
static_assert(dense_update_rule<lion>);

} // namespace

TEST_CASE("each kind of layer learns communities that features alone do not reveal") {
    const communities graph;
    const tbb_executor executor(2);
    const dense_optimizer adam = make_dense_optimizer("adam", .02F, decay);
    const double alone = trained_accuracy(graph, "linear:32,linear", adam, executor);
    CHECK(alone > 0.3); // random: a quarter; features are weakly informative
    CHECK(alone < 0.7);
    for (const std::string text :
        {"sage:32,sage", "gcn:32,gcn", "gat:8x4,gat", "sage:32:norm:residual,linear:16:tanh,gcn:4:row"}) {
        CAPTURE(text);
        CHECK(trained_accuracy(graph, text, adam, executor) > alone + 0.15);
    }
    CHECK(trained_accuracy(graph, "gcn:32,gcn", make_dense_optimizer("adamw", .02F, decay), executor) > alone + 0.15);
    CHECK(trained_accuracy(graph, "gcn:32,gcn", dense_optimizer(lion{}, decay), executor) > alone + 0.15);
}

} // namespace test_model_encoder_training
