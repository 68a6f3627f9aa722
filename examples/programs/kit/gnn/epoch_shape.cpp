// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/epoch_shape.hpp"

#include <algorithm>
#include <cmath>

namespace trainers {

programs::epoch_work gnn_epoch_work(const gnn_options& flags, const link_options* links, const gneiss::dataset& data,
    double share, std::uint64_t columns, bool uses_features) {
    const gneiss::dataset_manifest& graph = data.manifest();
    const double examples = static_cast<double>(links != nullptr ? graph.train_edges : graph.node_attributes.train);
    const double sides = *flags.direction == "both" ? 2 : 1;
    programs::gnn_epoch_shape shape{
        .nodes = std::max<std::uint64_t>(static_cast<std::uint64_t>(share * static_cast<double>(graph.nodes)), 1),
        .neighbors = static_cast<std::uint64_t>(sides * share * share * static_cast<double>(graph.train_edges)),
        .batches = std::ceil(examples / static_cast<double>(*flags.batch)),
        .columns = columns,
        .trains_rows = columns != 0};
    shape.seeds = examples / std::max(shape.batches, 1.0);
    programs::epoch_work decoder;
    std::uint64_t outputs = std::max<std::uint64_t>(graph.node_attributes.classes, 1);
    if (links != nullptr) {
        outputs = *links->dim;
        const std::uint64_t negatives = links->negatives->all ? shape.nodes : links->negatives->count;
        shape.seeds = 2 * shape.seeds + 2.0 * static_cast<double>(*links->chunks) * static_cast<double>(negatives);
        decoder = programs::work_of(programs::link_epoch_shape{
            .edges = graph.train_edges, .batch = *flags.batch, .negatives = negatives, .dim = *links->dim});
        decoder.batches = 0; // those of the samples
    }
    if (uses_features) {
        const gneiss::node_features features = data.features();
        shape.columns += graph.node_attributes.features;
        if (features.sparse())
            shape.entries =
                static_cast<double>(features.nnz()) / static_cast<double>(std::max<std::uint64_t>(graph.nodes, 1));
    }
    for (const gneiss::hop_fanout& hop : flags.hops())
        shape.fanout.push_back(std::max({hop.in, hop.out, hop.both}) == gneiss::all_neighbors
                ? 0
                : std::uint64_t{hop.in} + hop.out + hop.both);
    for (const gneiss::layer_options& layer : flags.layer_options(static_cast<std::size_t>(outputs)))
        shape.layers.push_back({.width = layer.outputs(),
            .own_row = layer.kind == gneiss::layer_kind::sage,
            .takes_neighbors = layer.takes_hop()});
    return programs::work_of(shape) + decoder;
}

} // namespace trainers
