// A GNN layer of one's own beside one of the library: GIN (Xu et al., ICLR 2019). Finite differences check its gradients first.
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/gradient_check.hpp>
#include <gneiss/sample/neighbor.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

using namespace gneiss;

/// out = (x + Σ neighbors) W. A message is the neighbor's row.
struct gin {
    static constexpr message_reduction reduce = message_reduction::sum;
    std::size_t width = 0, weight = 0;
    std::size_t outputs() const { return width; }
    std::uint64_t kept_floats(const layer_sizes& of) const { return of.targets * of.in.dense; }
    void allocate(auto& weights, const std::string& name, std::size_t in) {
        weight = weights.add(name, in, width, initializer::glorot(in, width));
    }
    void update(auto& c, auto own, auto reduced, auto out) const {
        const auto sum = c.keep(0, own.rows(), own.columns());
        c.apply_nodes(own.rows(), [&](std::size_t i) { std::ranges::transform(own[i], reduced[i], sum[i].begin(), std::plus()); });
        c.multiply(sum, c.value(weight), out);
    }
    void update_backward(auto& c, auto own, auto, auto g, auto grad_own, auto grad_reduced) const {
        c.add_tn(c.keep(0, own.rows(), own.columns()), g, c.gradient(weight));
        for (const auto to : {grad_own, grad_reduced}) // empty where features need no gradient
            if (!to.empty()) c.multiply_nt(g, c.value(weight), to);
    }
};
static_assert(message_passing_layer<gin>);

int main() {
    if (check_gradients({gin{.width = 4}}).error > 1e-6) return 1;
    constexpr std::uint32_t nodes = 1000, columns = 16;
    const planted_partition<> planted({.nodes = nodes, .edges = 6000, .communities = 4, .mixing = .1});
    std::vector<node_id> all(nodes);
    std::iota(all.begin(), all.end(), 0U);
    std::vector<class_id> train(nodes, unlabeled), test(nodes, unlabeled); // one node of ten trains
    for (const node_id v : all) (v % 10 == 0 ? train : test)[v] = planted.label(v);
    std::vector<float> rows(nodes * columns);
    for (const node_id v : all) planted.features(v, std::span(rows).subspan(v * columns, columns));
    neighbor_sampler<> sampler({parse_fanout("all,all", neighbor_direction::both)}, /*seed*/ 1);
    generated_edges edges(planted);
    const auto graph = make_csr_graph(edges, neighbor_direction::both);
    const tbb_executor on;
    mini_batch_arena arena;
    layer_stack layers; // one batch of all nodes
    layers.assign(sampler.sample({}, graph, std::span<const node_id>(all), on, arena), on);
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights,
        {{gin{.width = 32}, {.then = activation::relu, .norm = true}}, parse_layers("sage:4")[0]}, {.dense = columns});
    weights.allocate(/*seed*/ 1);
    const dense_optimizer optimizer(adam{.rate = .01F});
    optimizer.allocate_state(weights);
    for (std::uint64_t t = 1; t <= 60; ++t) {
        const auto scores = encode.forward(weights, layers, {{rows.data(), nodes, columns}}, {}, on);
        softmax_cross_entropy<float>(scores, train, on); // scores become their gradients
        encode.backward(weights, scores, {}, on);
        optimizer.step(weights, t, 1, on);
    }
    const auto scores = encode.forward(weights, layers, {{rows.data(), nodes, columns}}, {}, on);
    const double accuracy = softmax_cross_entropy<float>(scores, test, on).accuracy();
    std::printf("accuracy %.3f on nodes that did not train\n", accuracy);
    return accuracy > .8 ? 0 : 1;
}
