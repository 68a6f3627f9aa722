// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/gnn/network.hpp"
#include "options.hpp"

namespace mariusgnn {

/// Returns the input columns of the first layer.
[[nodiscard]] gneiss::input_columns input_of(const options& settings, const gneiss::dataset_manifest& graph);

/// The network of a run's flags.
class network : public trainers::network {
public:
    /// Throws usage_error if the last layer's width is not the number of classes.
    network(const options& settings, const gneiss::dataset_manifest& graph)
        : trainers::network(settings, settings.links() ? &settings : nullptr, input_of(settings, graph), graph) {}

    /// Initializes relations and their optimizer state, if there are some.
    void initialize(const options& settings, const gneiss::tbb_executor& executor) {
        if (links) trainers::network::initialize(settings, settings, executor);
    }
};

} // namespace mariusgnn
