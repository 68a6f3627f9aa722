#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/model/layer/any_layer.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>
#include <model/own_layers.hpp>
#include <simt/train/support.hpp>
#include <train/graph_harness.hpp>

namespace test_simt_train_own_layers {

using namespace graph_harness;
using namespace simt_pipeline;

namespace {

/// Features and graph are on the device, so that recorded steps wait for their results alone.
outcome train_on_device(const graph_data& data, const set_up& with, const cuda::layer_list& layers, bool recorded) {
    memory_budget budget;
    set_up there = with;
    there.features_on_device = true;
    const device_features features{.nodes = data.rows.nodes,
        .columns = graph_data::columns,
        .read = [&](std::uint64_t first, matrix_view<std::byte> to) {
            for (std::size_t i = 0; i < to.rows(); ++i)
                encode_row(std::span(data.features).subspan((first + i) * graph_data::columns, graph_data::columns),
                    feature_type::f32, to[i].data());
        }};
    return train(data, there, 0, [&](gnn_harness& of) {
        const network_setup network{.layers = {},
            .in = of.encode->inputs(),
            .weights = of.weights,
            .seed = with.training.seed,
            .recorded = recorded,
            .own = std::make_shared<const cuda::layer_list>(layers)};
        auto sampler = std::make_shared<cuda::device_sampling>(budget,
            device_sampling_setup{.nodes = data.rows.nodes,
                .edges = data.store.edges(),
                .graphs = 2,
                .neighbors = with.training.neighbors,
                .sampler = with.training.sampler,
                .seed = with.training.seed,
                .seeds = with.training.batch,
                .lists_of_inputs = cuda::device_network::needs_lists_of_inputs(network, false),
                .recorded = recorded,
                .ids_on_host = !recorded});
        of.with.training.device_sampler.emplace(sampler);
        return std::optional<any_backend>(std::in_place, std::in_place_type<cuda::device_node_backend>, budget, network,
            std::nullopt, sampler, &features);
    });
}

} // namespace

TEST_CASE("simt.train.own_layers: layers of your own train on the device as on the CPU, eager and recorded") {
    const graph_data data = graph_data::planted(150, 3);
    const own_layers::attending first{.width = 6}; // with functions of edges
    const own_layers::pool second{.width = 4};
    const layer_surround around{.then = activation::relu, .dropout = .2, .norm = true};
    set_up with;
    with.own = {{first, around}, {second}};
    with.rows = false;
    with.features = test::feature_form{};
    with.optimizer = "sgd"; // the others initially divide rounding errors by small sums
    with.epochs = 3;
    with.training.batch = 12;
    with.training.neighbors.fanout = parse_fanout("3,2", neighbor_direction::both);
    const outcome want = train(data, with);
    const cuda::layer_list layers{{{first, around}, {second}}};
    const outcome got = train_on_device(data, with, layers, false);
    REQUIRE(got.epochs.size() == want.epochs.size());
    for (std::size_t e = 0; e < want.epochs.size(); ++e) {
        CHECK(std::abs(got.epochs[e].loss - want.epochs[e].loss) <= 1e-3 * std::abs(want.epochs[e].loss));
        CHECK(got.epochs[e].sampled_edges == want.epochs[e].sampled_edges);
    }
    CHECK(difference(got.weights, want.weights) < 2e-3);
    const cuda::device_calls before = cuda::calls_so_far();
    CHECK(train_on_device(data, with, layers, true) == got);
    CHECK((cuda::calls_so_far() - before).recorded_steps > 0);
}

} // namespace test_simt_train_own_layers
