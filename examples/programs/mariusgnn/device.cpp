// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/link_batch.hpp>

#include "kit/gnn/classifier.hpp"

namespace mariusgnn {

namespace {

gneiss::csr_graph<> whole_graph(const options& settings, const gneiss::bucket_store& buckets, std::uint64_t memory) {
    const std::uint64_t nodes = buckets.rows().nodes;
    gneiss::memory_budget budget(memory);
    const auto lists = [&](gneiss::neighbor_direction wanted) {
        if (settings.neighbors() != gneiss::neighbor_direction::both && settings.neighbors() != wanted)
            return gneiss::csr<>();
        return gneiss::csr<>::from_edges(nodes, wanted, {}, [&](auto&& sink) { buckets.for_each_edge(sink); });
    };
    const gneiss::memory_charge both =
        budget.charge({"graph for the device", 2 * gneiss::csr<>::bytes_needed(nodes, buckets.edges(), {})});
    return {lists(gneiss::neighbor_direction::in), lists(gneiss::neighbor_direction::out)};
}

} // namespace

std::optional<trainers::device_network_parts> backend_on(trainers::compute_device* device, const options& settings,
    const gneiss::training_plan& plan, const gneiss::bucket_store& buckets, network& net) {
    if (device == nullptr) return std::nullopt;
    trainers::limit_pinned(*device, plan);
    const gneiss::network_setup network{.layers = trainers::layers_of(net.encode),
        .in = net.encode.inputs(),
        .weights = net.weights,
        .seed = settings.seed};
    std::optional<gneiss::device_embeddings> keep;
    if (settings.uses_rows()) keep = trainers::device_embeddings_of(settings, plan.partitioning.nodes, plan.layout);
    const auto compute = [&](const gneiss::device_sampling_setup* sampling) {
        if (!settings.links()) return device->classify(network, keep, sampling);
        const gneiss::decoder_setup decoder =
            trainers::decoder_of(settings, *settings.batch, net.encode.outputs(), net.relations);
        return device->predict(network, decoder, keep, sampling);
    };
    if (settings.sample_on == "cpu") return compute(nullptr);
    if (!plan.keeps_all())
        throw gneiss::error(gneiss::errc::invalid_argument,
            "--sample-on gpu samples the whole graph: use --store memory or device, within --memory");
    const gneiss::csr_graph<> graph = whole_graph(settings, buckets, plan.budget);
    const gneiss::gnn_options training = settings.training_options();
    const gneiss::device_sampling_setup sampling{.graph = graph,
        .neighbors = training.neighbors,
        .dense = training.sampler == gneiss::sampler_kind::dense,
        .seed = settings.seed,
        .seeds = settings.links()
            ? gneiss::bound_link_batch(training.negatives, *settings.batch, plan.partitioning.nodes).nodes
            : *settings.batch,
        .lists_of_inputs = settings.uses_rows()};
    return compute(&sampling);
}

} // namespace mariusgnn
