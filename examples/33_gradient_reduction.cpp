// Several batches share a step: gradients of four batches are summed before the optimizer sees them. The same slot
// exchanges gradients with replicas on other machines.
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/sum_of_replicas.hpp>
#include <gneiss/train/train_loop.hpp>

#include <cmath>
#include <cstdio>
#include <numeric>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
using namespace gneiss;

//! [reducer]
struct mean_of_batches {
    sum_of_replicas sum{};

    /// Called for the batches of a step, in order: the gradients of the last one are what the optimizer gets.
    void reduce(gradient_parts gradients, const gradient_turn& turn, const std::stop_token& stop) {
        sum.reduce(gradients, turn, stop);
        if (!turn.last) return;
        const float count = static_cast<float>(turn.replica + 1); // an epoch may end with fewer
        for (const std::span<float> part : gradients)
            for (float& g : part) g /= count;
    }
};
static_assert(gradient_reducer<mean_of_batches>);
//! [reducer]

constexpr node_id nodes = 2000;

int main() {
    std::vector<edge> edges;
    std::vector<float> features(nodes);
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) {
        for (const node_id step : {2U, 4U, 6U}) edges.push_back({v, 0, (v + step) % nodes});
        labels[v] = v % 2;
        features[v] = std::sin(static_cast<float>(v)) + (v % 2 == 1 ? .5F : -.5F);
    }
    const csr_graph<> graph(
        csr<>::from_edges(nodes, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{});

    const tbb_executor executor;
    memory_budget budget;
    const auto train = [&](std::uint64_t batch, std::uint32_t replicas, auto reducer) {
        dense_parameters<> weights;
        cpu_encoder encode(weights, parse_layers("sage:8,linear:2"), {.dense = 1});
        weights.allocate(/*seed*/ 1);
        const training_optimizers optimizers{.dense = make_dense_optimizer("adam", .01F)};
        optimizers.dense.allocate_state(weights);
        node_task task({.batch = batch, .seed = 1}, labels, /*classes*/ 2, {nodes, 1},
            [](std::uint32_t, std::vector<node_id>& out) {
                out.resize(nodes);
                std::iota(out.begin(), out.end(), node_id{0});
            });
        graph_in_memory topology(graph);
        sampled_batches batches(
            task, topology, [] { return neighbor_sampler<>({.fanout = {{.in = 3}}}, /*seed*/ 1); }, executor);
        matrix_features inputs({features.data(), nodes, 1});
        no_embeddings none;
        cpu_encoder_backend backend(encode, weights, classification_head{}, /*seed*/ 1, executor);
        //! [loop]
        train_loop loop({.replicas = replicas}, batches, inputs, none, backend, optimizers, budget, reducer);
        //! [loop]
        double accuracy = 0;
        for (std::uint64_t epoch = 0; epoch < 30; ++epoch)
            accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
        std::printf("batches of %llu: accuracy %.3f in %llu steps\n", static_cast<unsigned long long>(batch), accuracy,
            static_cast<unsigned long long>(loop.steps()));
        return std::pair(accuracy, loop.steps());
    };
    const auto [together, steps] = train(25, 4, mean_of_batches{});
    const auto [whole, same_steps] = train(100, 1, identity_reducer{});
    return together > .9 && whole > .9 && steps == same_steps ? 0 : 1;
}
