// A custom task: batches in which a rare class is as frequent as the others, so that it is learned too. Only the choice
// of seeds is new: sampler, features, loss and loop are the library's.
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/train_loop.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/csr.hpp>
using namespace gneiss;

constexpr std::uint32_t classes = 2, per_class = 25; // seeds of a class in a batch

//! [task]
struct balanced_task {
    using view = std::vector<std::vector<node_id>>; // data of a state: its nodes by class
    static constexpr bool repeats = false;          // a state is trained once

    std::shared_ptr<const view> nodes; // of the only state

    void begin_epoch(const epoch_start&) {}
    std::shared_ptr<const view> acquire(const epoch_start&, std::uint32_t) const { return nodes; }
    static std::uint64_t batches(const view& of) { // each node of the largest class once
        return std::ranges::max_element(of, {}, &std::vector<node_id>::size)->size() / per_class;
    }

    struct cutter_type {                                            // one per sampling thread
        seed_set cut(training_batch& batch, const view& of) const { // a function of the batch's key and the state alone
            batch.seeds.clear();
            batch.labels.clear();
            for (class_id c = 0; c < classes; ++c) {
                const random_key key = random_key{1, random_domain::user}.with(batch.key.epoch).with(c);
                const keyed_permutation shuffled(of[c].size(), key);
                const std::uint64_t first = batch.key.number.index * per_class; // a small class begins again
                for (std::uint64_t k = 0; k < per_class; ++k) {
                    batch.seeds.push_back(of[c][static_cast<std::size_t>(shuffled((first + k) % of[c].size()))]);
                    batch.labels.push_back(c);
                }
            }
            return {batch.seeds};
        }
    };
    cutter_type cutter() const { return {}; }
};
static_assert(train_task<balanced_task>);
//! [task]

int main() {
    constexpr node_id nodes = 2000; // one in 20 is of class 1, and points to others of it
    std::vector<edge> edges;
    std::vector<float> features(nodes);
    auto by_class = std::make_shared<balanced_task::view>(classes);
    for (node_id v = 0; v < nodes; ++v) {
        const bool rare = v % 20 == 0;
        for (const node_id step : {20U, 40U, 60U}) edges.push_back({v, 0, (v + step) % nodes});
        features[v] = std::sin(static_cast<float>(v)) + (rare ? .5F : -.5F);
        (*by_class)[rare ? 1 : 0].push_back(v);
    }
    const auto all = [&](auto&& sink) { sink(std::span<const edge>(edges)); };
    const csr_graph<> graph(csr<>::from_edges(nodes, neighbor_direction::in, {}, all), csr<>{});

    const tbb_executor executor;
    memory_budget budget;
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:8,linear:2"), {.dense = 1});
    weights.allocate(/*seed*/ 1);
    const training_optimizers optimizers{.dense = make_dense_optimizer("adam", .01F)};
    optimizers.dense.allocate_state(weights);
    balanced_task task{by_class};
    graph_in_memory topology(graph);
    const auto make = [] { return neighbor_sampler<>({.fanout = {{.in = 3}}}, /*seed*/ 1); };
    sampled_batches batches(task, topology, make, executor);
    matrix_features inputs({features.data(), nodes, 1});
    no_embeddings none;
    cpu_encoder_backend backend(encode, weights, classification_head{}, /*seed*/ 1, executor);
    train_loop loop({}, batches, inputs, none, backend, optimizers, budget);
    double accuracy = 0;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
    std::printf("accuracy on both classes alike %.3f\n", accuracy);
    return accuracy > .9 ? 0 : 1;
}
