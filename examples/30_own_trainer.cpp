// A trainer of your own slots, with what a long run needs: checkpoints, resume after a kill, the best state, early
// stop, records, and memory within a budget.
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/fit.hpp>
#include <gneiss/train/sampled_batches.hpp>

#include <cmath>
#include <cstdio>
#include <numeric>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/csr.hpp>
using namespace gneiss;

constexpr node_id nodes = 2000;
using graph_type = csr_graph<>;

//! [slots]
struct my_slots { // made in this order; later ones refer to earlier ones
    node_task task;
    graph_in_memory<graph_type> topology;
    sampled_batches<node_task, graph_in_memory<graph_type>, neighbor_sampler<>> batches;
    matrix_features features;
    no_embeddings embeddings{};
    cpu_encoder_backend<classification_head> backend;

    my_slots(const graph_type& graph, std::span<const float> numbers, std::span<const class_id> labels,
        cpu_encoder& encode, dense_parameters<>& weights, executor_ref executor)
        : task({.batch = 100, .seed = 1}, labels, /*classes*/ 2, {nodes, 1},
              [](std::uint32_t, std::vector<node_id>& out) {
                  out.resize(nodes);
                  std::iota(out.begin(), out.end(), node_id{0});
              }),
          topology(graph),
          batches(
              task, topology, [] { return neighbor_sampler<>({.fanout = {{.in = 3}}}, /*seed*/ 1); }, executor),
          features({numbers.data(), numbers.size(), 1}),
          backend(encode, weights, classification_head{}, /*seed*/ 1, executor) {}
};
//! [slots]

int main(int count, char** arguments) { // 30_own_trainer [DIRECTORY [EPOCHS]]
    std::vector<edge> edges;
    std::vector<float> numbers(nodes);
    std::vector<class_id> labels(nodes);
    for (node_id v = 0; v < nodes; ++v) {
        for (const node_id step : {2U, 4U, 6U}) edges.push_back({v, 0, (v + step) % nodes});
        labels[v] = v % 2;
        numbers[v] = std::sin(static_cast<float>(v)) + (v % 2 == 1 ? .5F : -.5F);
    }
    const graph_type graph(
        csr<>::from_edges(nodes, neighbor_direction::in, {}, [&](auto&& sink) { sink(std::span<const edge>(edges)); }),
        csr<>{});
    const tbb_executor executor;
    memory_budget budget(std::uint64_t{64} << 20);
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:8,linear:2"), {.dense = 1});
    weights.allocate(/*seed*/ 1);
    const dense_optimizer adam = make_dense_optimizer("adam", .01F);
    adam.allocate_state(weights);
    //! [fit]
    const epoch_plan all{{.resident = {0}}}; // one state that holds every node
    const auto slots = std::make_shared<my_slots>(graph, numbers, labels, encode, weights, executor);
    trainer training(slots, sized_by_profile({}, *slots, all), {.dense = adam}, budget);
    double loss = 0; // of the last batch
    const training_observer last{.on_batch = [&](auto&, const auto& of) { loss = of.mean_loss(); }};
    const fit_options options{.directory = count > 1 ? arguments[1] : "own-run",
        .epochs = count > 2 ? std::stoull(arguments[2]) : 30,
        .patience = 50};
    const fit_result run = fit( // killed? the next call goes on from the last checkpoint
        training, [&](std::uint64_t) { return all; }, trained_state().add(weights), options, [&] { return -loss; },
        last);
    for (const fit_epoch& e : run.epochs) std::printf("%d %.17g\n", static_cast<int>(e.number), e.mean_loss);
    //! [fit]
    return run.epochs.back().mean_loss < .5 ? 0 : 1;
}
