// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>

namespace mariusgnn {

gneiss::input_columns input_of(const options& settings, const gneiss::dataset_manifest& graph) {
    gneiss::input_columns columns;
    if (settings.uses_rows()) columns.dense = *settings.dim;
    const bool sparse =
        std::ranges::any_of(graph.arrays, [](const gneiss::dataset_array& a) { return a.name == "features.indptr"; });
    if (settings.uses_features())
        (sparse ? columns.sparse : columns.dense) += static_cast<std::size_t>(graph.node_attributes.features);
    return columns;
}

} // namespace mariusgnn
