// Neighbors drawn by edge weights, in a graph whose arrays belong to another library: nothing is copied.
#include <gneiss/graph/csr_view.hpp>
#include <gneiss/sample/weighted.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/train_loop.hpp>

#include <cmath>
#include <cstdio>
#include <numeric>

#include <gneiss/core/executor/tbb.hpp>
using namespace gneiss;

int main() {
    constexpr node_id nodes = 2000; // eight neighbors each; only the two whose edges weigh much have the node's class
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> data, features(nodes);
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) {
        labels[v] = v % 2;
        features[v] = std::sin(static_cast<float>(v)) + (v % 2 == 1 ? 1.0F : -1.0F);
        for (node_id i = 0; i < 8; ++i) {
            indices.push_back(static_cast<std::int32_t>((v + 1 + i * 37) % nodes));
            data.push_back(static_cast<node_id>(indices.back()) % 2 == v % 2 && i < 4 ? 100.0F : 0.01F);
        }
        indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }

    const tbb_executor executor;
    memory_budget budget;
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("gcn:2"), {.dense = 1});
    weights.allocate(/*seed*/ 1);
    const training_optimizers optimizers{.dense = make_dense_optimizer("adam", .02F)};
    optimizers.dense.allocate_state(weights);
    node_task task(
        {.batch = 200, .seed = 1}, labels, /*classes*/ 2, {nodes, 1}, [](std::uint32_t, std::vector<node_id>& out) {
            out.resize(nodes);
            std::iota(out.begin(), out.end(), node_id{0});
        });
    //! [weights]
    const csr_view graph(indptr, indices); // the id of an edge is its place in `indices`, and in `data`
    const auto weight = [&](edge_index e) { return data[e]; };
    const neighbor_options hops{.fanout = {{.in = 2}}};
    graph_in_memory topology(graph);
    sampled_batches batches(
        task, topology, [&] { return weighted(neighbor_sampler<>(hops, /*seed*/ 1), weight); }, executor);
    //! [weights]
    matrix_features inputs({features.data(), nodes, 1});
    no_embeddings none;
    cpu_encoder_backend backend(encode, weights, classification_head{}, /*seed*/ 1, executor);
    train_loop loop({}, batches, inputs, none, backend, optimizers, budget);
    double accuracy = 0;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
    std::printf("accuracy %.3f\n", accuracy);
    return accuracy > .9 ? 0 : 1;
}
