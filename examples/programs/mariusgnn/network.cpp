#include "network.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "common/training/checkpoint.hpp"

namespace mariusgnn {

namespace {

std::size_t wanted_outputs(const options& how, const gneiss::dataset_manifest& graph) {
    return how.links() ? *how.dim : static_cast<std::size_t>(graph.node_data.classes);
}

} // namespace

gneiss::input_columns input_of(const options& how, const gneiss::dataset_manifest& graph) {
    gneiss::input_columns columns;
    if (how.uses_rows()) columns.dense = *how.dim;
    const bool sparse = std::ranges::any_of(graph.arrays, [](const gneiss::dataset_array& a) { return a.name == "features.indptr"; });
    if (how.uses_features()) (sparse ? columns.sparse : columns.dense) += static_cast<std::size_t>(graph.node_data.features);
    return columns;
}

network::network(const options& how, const gneiss::dataset_manifest& graph)
    : encode(weights, how.layer_options(wanted_outputs(how, graph)), input_of(how, graph)) {
    const std::size_t outputs = encode.outputs();
    if (!how.links()) {
        if (outputs != graph.node_data.classes)
            throw programs::usage_error(fmt::format("--layers {} gives {} columns for {} classes: leave out the last width",
                *how.layers, outputs, graph.node_data.classes));
    } else {
        links.emplace(gneiss::make_link_model(*how.decoder, how.loss, outputs, how.model_options(), static_cast<float>(how.margin)));
        const auto optimizer = how.any_row_optimizer(0);
        relations = gneiss::parameter(links->relation_rows(std::max<std::uint64_t>(graph.relations, 1)),
            {static_cast<std::uint32_t>(links->relation_floats()), static_cast<std::uint32_t>(optimizer.state_floats(links->relation_floats()))});
    }
    weights.allocate(how.seed);
    how.dense_optimizer(0).allocate_state(weights);
}

void network::initialise(const options& how, const gneiss::tbb_executor& on) {
    if (!links) return;
    gneiss::initialize_rows(trainers::parse_initializer(how.relation_init, "relation-init", encode.outputs()),
        how.any_row_optimizer(0).initial_state(), how.seed, gneiss::parameter_table::relations, 0, links->relation_floats(),
        relations.table(), on);
}

void network::put(gneiss::checkpoint& to) const {
    to.sections["weights"] = trainers::to_bytes(weights.values());
    to.sections["weights.state"] = trainers::to_bytes(weights.state());
    if (links) to.sections["relations"] = trainers::to_bytes(relations.numbers());
}

void network::take(const gneiss::checkpoint& from) {
    trainers::from_bytes(from.sections.at("weights"), weights.values(), "weights");
    trainers::from_bytes(from.sections.at("weights.state"), weights.state(), "states of weights");
    if (links) trainers::from_bytes(from.sections.at("relations"), relations.numbers(), "relations");
}

} // namespace mariusgnn
