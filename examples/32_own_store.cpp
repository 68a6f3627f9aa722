// Custom stores: learned rows that are made when a batch first reads them, and features that are computed, not stored.
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/train_loop.hpp>

#include <cstdio>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
using namespace gneiss;

//! [embeddings]
class grown_rows { // replace the map by messages to another machine, for example
public:
    std::size_t columns() const { return 4; }
    std::size_t state_columns() const { return 0; } // the compute stage steps no rows
    bool keeps_all() const { return false; }
    void set_optimizer(const any_row_optimizer& by) { by_ = by; }
    void begin_epoch(const epoch_plan&, std::uint32_t) {}
    std::optional<lease> acquire(std::uint32_t, const std::stop_token&) {
        return lease{};
    } // rows of any state are here
    void end_epoch() {}
    bool commit_wanted() const { return false; }
    void gather(training_batch& batch, matrix_view<float> to) { // in batch order, while another batch is applied
        const std::scoped_lock lock(turn_);
        for (std::size_t i = 0; i < batch.nodes.size(); ++i) std::ranges::copy(row(batch.nodes[i]), to[i].begin());
    }
    void computed(training_batch&) {}
    void apply(training_batch& batch) { // in batch order; columns after ours are gradients of features
        const std::scoped_lock lock(turn_);
        for (std::size_t i = 0; i < batch.nodes.size(); ++i)
            by_.step_row(row(batch.nodes[i]), batch.gradients[i].first(columns()), batch.step);
    }
    const resident_embeddings* resident(const lease&) const { return nullptr; } // a device cannot keep them
    std::size_t size() const { return rows_.size(); }

private:
    std::span<float> row(node_id v) {
        std::vector<float>& found = rows_[v];
        if (found.empty()) {
            found.resize(columns());
            for (std::size_t k = 0; k < columns(); ++k)
                found[k] = to_normal(random_key{1, random_domain::user}.with(v)[k]) * .1F;
        }
        return found;
    }
    std::unordered_map<node_id, std::vector<float>> rows_;
    any_row_optimizer by_{sgd{}};
    std::mutex turn_;
};
static_assert(embedding_source<grown_rows>);
//! [embeddings]

//! [features]
struct bits_of_id { // a row is a function of the node
    input_columns columns() const { return {.dense = 8}; }
    void begin_epoch(const epoch_start&) {}
    lease acquire(std::uint32_t) { return {}; } // nothing to wait for
    bool ready(std::uint32_t) const { return true; }
    void gather(training_batch& batch, matrix_view<float> to) {
        for (std::size_t i = 0; i < batch.nodes.size(); ++i)
            for (std::size_t k = 0; k < 8; ++k) to(i, k) = static_cast<float>(batch.nodes[i] >> k & 1U);
    }
    void enter(phase) {}
};
static_assert(feature_source<bits_of_id>);
//! [features]

int main() {
    constexpr node_id nodes = 4000, trained = 1000; // labels of the first thousand nodes: two bits, and one of a hash
    std::vector<edge> edges;
    for (node_id v = 0; v < trained; ++v) edges.push_back({v, 0, (v + 1) % trained});
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) labels[v] = (v & 1U) * 2 + static_cast<class_id>(mix64(v) & 1U);
    const csr_graph<> graph(
        csr<>::from_edges(nodes, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{});

    const tbb_executor executor;
    memory_budget budget;
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:16,linear:4"), {.dense = 12}); // ours first, then the features
    weights.allocate(/*seed*/ 1);
    const training_optimizers optimizers{.rows = sgd{.rate = 2}, .dense = make_dense_optimizer("adam", .01F)};
    optimizers.dense.allocate_state(weights);
    node_task task(
        {.batch = 100, .seed = 1}, labels, /*classes*/ 4, {nodes, 1}, [](std::uint32_t, std::vector<node_id>& out) {
            out.resize(trained);
            std::iota(out.begin(), out.end(), node_id{0});
        });
    graph_in_memory topology(graph);
    sampled_batches batches(
        task, topology, [] { return neighbor_sampler<>({.fanout = {{.in = 5}}}, /*seed*/ 1); }, executor);
    bits_of_id features;
    grown_rows rows;
    cpu_encoder_backend backend(encode, weights, classification_head{}, /*seed*/ 1, executor);
    train_loop loop({}, batches, features, rows, backend, optimizers, budget);
    double accuracy = 0;
    for (std::uint64_t epoch = 0; epoch < 60; ++epoch) accuracy = loop.run({{.resident = {0}}}, epoch).model.accuracy();
    std::printf("accuracy %.3f, %zu of %u nodes have a row\n", accuracy, rows.size(), nodes);
    return accuracy > .9 && rows.size() == trained ? 0 : 1;
}
