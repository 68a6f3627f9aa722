// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "kit/run/checkpoint.hpp"

namespace mariusgnn {

namespace {

std::size_t wanted_outputs(const options& settings, const gneiss::dataset_manifest& graph) {
    return settings.links() ? *settings.dim : static_cast<std::size_t>(graph.node_attributes.classes);
}

} // namespace

gneiss::input_columns input_of(const options& settings, const gneiss::dataset_manifest& graph) {
    gneiss::input_columns columns;
    if (settings.uses_rows()) columns.dense = *settings.dim;
    const bool sparse =
        std::ranges::any_of(graph.arrays, [](const gneiss::dataset_array& a) { return a.name == "features.indptr"; });
    if (settings.uses_features())
        (sparse ? columns.sparse : columns.dense) += static_cast<std::size_t>(graph.node_attributes.features);
    return columns;
}

network::network(const options& settings, const gneiss::dataset_manifest& graph)
    : encode(weights, settings.layer_options(wanted_outputs(settings, graph)), input_of(settings, graph)) {
    const std::size_t outputs = encode.outputs();
    if (!settings.links()) {
        if (outputs != graph.node_attributes.classes)
            throw programs::usage_error(
                fmt::format("--layers {} gives {} columns for {} classes: leave out the last width", *settings.layers,
                    outputs, graph.node_attributes.classes));
    } else {
        links.emplace(gneiss::make_link_model(
            *settings.decoder, settings.loss, outputs, settings.model_options(), static_cast<float>(settings.margin)));
        const auto optimizer = settings.any_row_optimizer(0);
        relations = gneiss::embedding_table(links->relation_rows(std::max<std::uint64_t>(graph.relations, 1)),
            {static_cast<std::uint32_t>(links->relation_floats()),
                static_cast<std::uint32_t>(optimizer.state_floats(links->relation_floats()))});
    }
    weights.allocate(settings.seed);
    settings.dense_optimizer(0).allocate_state(weights);
}

void network::initialize(const options& settings, const gneiss::tbb_executor& executor) {
    if (!links) return;
    gneiss::initialize_rows(trainers::parse_initializer(settings.relation_init, "relation-init", encode.outputs()),
        settings.any_row_optimizer(0).initial_state(), settings.seed, gneiss::embedding_kind::relations, 0,
        links->relation_floats(), relations.table(), executor);
}

void network::put(gneiss::checkpoint& to) const {
    to.sections["weights"] = trainers::to_bytes(weights.values());
    to.sections["weights.state"] = trainers::to_bytes(weights.state());
    if (links) to.sections["relations"] = trainers::to_bytes(relations.data());
}

void network::take(const gneiss::checkpoint& from) {
    trainers::from_bytes(from.sections.at("weights"), weights.values(), "weights");
    trainers::from_bytes(from.sections.at("weights.state"), weights.state(), "states of weights");
    if (links) trainers::from_bytes(from.sections.at("relations"), relations.data(), "relations");
}

} // namespace mariusgnn
