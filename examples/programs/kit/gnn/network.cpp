// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/network.hpp"

#include <algorithm>

#include "kit/run/checkpoint.hpp"

namespace trainers {

network::network(const gnn_options& how, const link_options* of_links, const gneiss::input_columns& in,
    const gneiss::dataset_manifest& graph)
    : classifier(how, of_links != nullptr ? *of_links->dim : static_cast<std::size_t>(graph.node_attributes.classes),
          in, of_links == nullptr) {
    if (of_links == nullptr) return;
    links.emplace(gneiss::make_link_model(*of_links->decoder, of_links->loss, encode.outputs(),
        of_links->model_options(), static_cast<float>(of_links->margin)));
    relations = gneiss::embedding_table(links->relation_rows(std::max<std::uint64_t>(graph.relations, 1)),
        {static_cast<std::uint32_t>(links->relation_floats()),
            static_cast<std::uint32_t>(how.any_row_optimizer(0).state_floats(links->relation_floats()))});
}

void network::initialize(const gnn_options& how, const link_options& of_links, const gneiss::tbb_executor& executor) {
    gneiss::initialize_rows(parse_initializer(of_links.relation_init, "relation-init", encode.outputs()),
        how.any_row_optimizer(0).initial_state(), how.seed, gneiss::embedding_kind::relations, 0,
        links->relation_floats(), relations.table(), executor);
}

void network::put(gneiss::checkpoint& to) const {
    classifier::put(to);
    if (links) to.sections["relations"] = to_bytes(relations.data());
}

void network::take(const gneiss::checkpoint& from) {
    classifier::take(from);
    if (links) from_bytes(from.sections.at("relations"), relations.data(), "relations");
}

} // namespace trainers
