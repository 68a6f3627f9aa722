// Custom batches: each is a cluster of the graph with all edges inside it, as Cluster-GCN trains (Chiang et al.,
// KDD'19). No neighbors are sampled.
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/train_loop.hpp>

#include <cmath>
#include <cstdio>
#include <numeric>

#include <gneiss/core/executor/tbb.hpp>
using namespace gneiss;

constexpr node_id nodes = 2000, cluster = 100; // node v is connected with four others of its cluster

//! [batches]
struct cluster_sample { // the arrays of a batch: both layers see the same graph
    std::vector<node_id> nodes;
    std::vector<std::uint32_t> offsets, neighbors;

    static std::size_t layers() { return 2; }
    layer_view layer(std::size_t, std::vector<std::uint32_t>&, std::vector<std::uint32_t>&) const {
        return {.targets = nodes.size(), .sources = nodes.size(), .offsets = offsets, .neighbors = neighbors};
    }
};

struct cluster_batches {
    std::span<const class_id> labels;
    executor_ref executor;

    void begin_epoch(const epoch_start&, const std::stop_token&) {}
    state_work acquire(const epoch_start&, std::uint32_t) {
        return {.view = {}, .features = {}, .batches = nodes / cluster};
    }
    bool ready(std::uint32_t) const { return true; }
    void produce(training_batch& batch, const std::stop_token&) { // on any thread: a function of the batch's key alone
        cluster_sample& sample = batch.payload<cluster_sample>(); // memory that the batch reuses
        const auto order = keyed_permutation(nodes / cluster, random_key{1, random_domain::user}.with(batch.key.epoch));
        sample.nodes.resize(cluster);
        std::iota(
            sample.nodes.begin(), sample.nodes.end(), static_cast<node_id>(order(batch.key.number.index)) * cluster);
        sample.offsets.assign(1, 0), sample.neighbors.clear();
        for (node_id v = 0; v < cluster; ++v) {
            for (const node_id step : {2U, 4U, 96U, 98U}) sample.neighbors.push_back((v + step) % cluster);
            sample.offsets.push_back(static_cast<std::uint32_t>(sample.neighbors.size()));
        }
        batch.layers.assign(sample, executor); // checks the lists
        batch.nodes = batch.seeds = sample.nodes;
        batch.labels.clear();
        for (const node_id v : sample.nodes) batch.labels.push_back(labels[v]);
    }
    void gathered(training_batch&) {}
    bool in_order() const { return false; }
    bool repeats() const { return false; }
    void enter(phase) {}
};
static_assert(batch_producer<cluster_batches>);
//! [batches]

int main() {
    std::vector<float> features(nodes);
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) {
        labels[v] = v % 2;
        features[v] = std::sin(static_cast<float>(v)) + (v % 2 == 1 ? .5F : -.5F);
    }
    const tbb_executor executor;
    memory_budget budget;
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:8,sage:2"), {.dense = 1});
    weights.allocate(/*seed*/ 1);
    const training_optimizers optimizers{.dense = make_dense_optimizer("adam", .01F)};
    optimizers.dense.allocate_state(weights);
    cluster_batches batches{labels, executor};
    matrix_features inputs({features.data(), nodes, 1});
    no_embeddings none;
    cpu_encoder_backend backend(encode, weights, classification_head{}, /*seed*/ 1, executor);
    train_loop loop({}, batches, inputs, none, backend, optimizers, budget);
    double accuracy = 0;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
    std::printf("accuracy %.3f\n", accuracy);
    return accuracy > .95 ? 0 : 1;
}
