// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <gneiss/sample/link_batch.hpp>

#include "kit/gnn/classifier.hpp"
#include "kit/gnn/device_network.hpp"

namespace mariusgnn {

std::optional<trainers::device_network_parts> backend_on(trainers::compute_device* device, const options& settings,
    const gneiss::training_plan& plan, const run_graph& graph, network& net, const gneiss::engine_factory& engines) {
    if (device == nullptr) return std::nullopt;
    trainers::limit_pinned(*device, plan, settings.pinned_features(graph.data().manifest()));
    const gneiss::network_setup network{.layers = trainers::layers_of(net.encode),
        .in = net.encode.inputs(),
        .weights = net.weights,
        .seed = settings.seed,
        .recorded = settings.record};
    trainers::device_inputs inputs;
    if (settings.uses_rows())
        inputs.keep = trainers::device_embeddings_of(settings, plan.partitioning.nodes, plan.layout);
    const std::uint64_t seeds = settings.links()
        ? gneiss::bound_link_batch(settings.negative_options(), *settings.batch, plan.partitioning.nodes).nodes
        : *settings.batch;
    std::optional<gneiss::device_sampling_setup> sampling =
        trainers::device_sampling_of(settings, plan, graph.buckets(), seeds,
            (!settings.uses_rows() || inputs.keep) && (!graph.features() || settings.feature_place == "device"));
    if (sampling) {
        sampling->lists_of_inputs = settings.uses_rows();
        if (settings.exclude_target_edges.value_or(false))
            sampling->excluded = static_cast<std::uint32_t>(*settings.batch);
        inputs.sampling = &*sampling;
    }
    std::optional<trainers::placed_features> placed;
    if (settings.places_features()) {
        placed.emplace(settings, *device, *graph.features(), graph.buckets(), engines);
        inputs.features = &**placed;
    }
    if (!settings.links()) return device->classify(network, inputs);
    return device->predict(
        network, trainers::decoder_of(settings, *settings.batch, net.encode.outputs(), net.relations), inputs);
}

} // namespace mariusgnn
