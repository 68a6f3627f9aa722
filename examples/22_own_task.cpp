// A custom task: node regression by Huber's loss, which outliers pull less. Only the loss on the encoder's outputs is
// new.
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/train_loop.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
using namespace gneiss;

//! [head]
struct huber_head { // on outputs [seeds, 1]
    static constexpr bool in_place = false, has_parameters = false;
    std::span<const float> wanted; // targets of all nodes

    void differentiate(
        training_batch& batch, matrix_view<const float> outputs, matrix_view<float> gradients, executor_ref) const {
        for (std::size_t i = 0; i < batch.seeds.size(); ++i) {
            const float off = outputs[i][0] - wanted[batch.seeds[i]];
            batch.statistics.loss += std::abs(off) < 1 ? double{off} * off / 2 : std::abs(off) - .5;
            gradients[i][0] = std::clamp(off, -1.0F, 1.0F) / static_cast<float>(batch.seeds.size());
        }
        batch.statistics.examples += batch.seeds.size();
        batch.statistics.query_count += batch.seeds.size();
    }
    void step(training_batch&, const any_row_optimizer&, executor_ref) const {} // has no parameters
};
//! [head]

int main() {
    constexpr node_id nodes = 2000; // target of a node: the mean of a feature over five nodes that point to it
    std::vector<edge> edges;
    for (node_id i = 0; i < 5 * nodes; ++i) edges.push_back({i / 5 * 7 % nodes + i % 5, 0, i / 5});
    std::vector<float> features(nodes + 4), wanted(nodes);
    for (std::size_t v = 0; v < features.size(); ++v) features[v] = std::sin(static_cast<float>(v));
    for (const edge& e : edges) wanted[e.destination] += features[e.source] / 5;
    const csr_graph<> graph(csr<>::from_edges(nodes + 4, neighbor_direction::in, {},
                                [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{});

    const tbb_executor executor;
    memory_budget budget;
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:8,linear:1"), {.dense = 1});
    weights.allocate(/*seed*/ 1);
    const training_optimizers optimizers{.dense = make_dense_optimizer("adam", .01F)};
    optimizers.dense.allocate_state(weights);

    //! [loop]
    node_task task({.batch = 100, .seed = 1}, {nodes + 4, 1}, [](std::uint32_t, std::vector<node_id>& out) {
        out.resize(nodes);
        std::iota(out.begin(), out.end(), node_id{0});
    });
    graph_in_memory topology(graph);
    sampled_batches batches(
        task, topology, [] { return neighbor_sampler<>({.fanout = {{.in = 5}}}, /*seed*/ 1); }, executor);
    matrix_features inputs({features.data(), features.size(), 1});
    no_embeddings none;
    cpu_encoder_backend backend(encode, weights, huber_head{wanted}, /*seed*/ 1, executor);
    train_loop loop({}, batches, inputs, none, backend, optimizers, budget);
    const epoch_plan all{{.resident = {0}}}; // one state that holds every node
    double error = 0;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
        error = loop.run(all, epoch).model.mean_loss();
        std::printf("Huber loss %.5f\n", error);
    }
    //! [loop]
    return error < .001 ? 0 : 1;
}
