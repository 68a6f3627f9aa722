// A custom GNN layer among the library's: GIN (Xu et al., ICLR 2019). Finite differences check its gradients. The same
// layer runs on a GPU, as its function of values does (GNEISS_HD).
#include "small_graph.hpp"

#include <gneiss/gneiss.hpp>
#include <gneiss/model/cpu_encoder.hpp>

#include <cstdio>
using namespace gneiss;

//! [layer]
template <class T>
struct sum_of {
    matrix_view<const T> a, b;
    matrix_view<T> to;
    GNEISS_HD void operator()(std::size_t i, std::size_t k) const { to(i, k) = a(i, k) + b(i, k); }
};
template <class T>
sum_of(matrix_view<const T>, matrix_view<const T>, matrix_view<T>) -> sum_of<T>;

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
        c.apply_values(own.rows(), own.columns(), sum_of{own, reduced, sum});
        c.multiply(sum, c.value(weight), out);
    }
    void update_backward(auto& c, auto own, auto, auto g, auto grad_own, auto grad_reduced) const {
        c.add_tn(c.keep(0, own.rows(), own.columns()), g, c.gradient(weight));
        for (const auto to : {grad_own, grad_reduced}) // empty if features need no gradient
            if (!to.empty()) c.multiply_nt(g, c.value(weight), to);
    }
};
static_assert(message_passing_layer<gin>);
//! [layer]

int main() {
    if (check_gradients({gin{.width = 4}}).error > 1e-6) return 1;
    constexpr std::uint32_t nodes = 1000, columns = 16;
    const small_graph graph({.nodes = nodes, .edges = 6000, .communities = 4, .mixing = .1}, columns);
    std::vector<class_id> train(nodes, unlabeled), test = graph.labels; // one node of ten trains
    for (node_id v = 0; v < nodes; v += 10) std::swap(train[v], test[v]);
    neighbor_sampler<> sampler({parse_fanout("all,all", neighbor_direction::both)}, /*seed*/ 1);
    const tbb_executor executor;
    mini_batch_arena arena;
    layer_stack layers; // one batch of all nodes
    layers.assign(sampler.sample({}, graph.edges, graph.nodes, executor, arena), executor);
    //! [encoder]
    dense_parameters<> weights;
    encoder<float, eigen_backend> encode(weights,
        {{gin{.width = 32}, {.then = activation::relu, .norm = true}}, parse_layers("sage:4")[0]}, {.dense = columns});
    weights.allocate(/*seed*/ 1);
    const dense_optimizer optimizer(adam{.rate = .01F});
    optimizer.allocate_state(weights);
    for (std::uint64_t t = 1; t <= 60; ++t) {
        const auto scores = encode.forward(weights, layers, {graph.rows()}, {}, executor);
        softmax_cross_entropy<float>(scores, train, executor); // replaces scores by their gradients
        encode.backward(weights, scores, {}, executor);
        optimizer.step(weights, t, 1, executor);
    }
    //! [encoder]
    const auto scores = encode.forward(weights, layers, {graph.rows()}, {}, executor);
    const double accuracy = softmax_cross_entropy<float>(scores, test, executor).accuracy();
    std::printf("accuracy %.3f on held-out nodes\n", accuracy);
    return accuracy > .8 ? 0 : 1;
}
