// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/io/dataset.hpp>

#include "kit/cli/machine_rates.hpp"
#include "kit/gnn/gnn_options.hpp"

namespace trainers {

/// Returns the expected work of an epoch of a GNN.
/// \param links   flags of link prediction; null: node classification
/// \param share   of the nodes that a sampler sees, placed by chance
/// \param columns trained columns of the input, in addition to features
/// \param uses_features  the input has the dataset's features
[[nodiscard]] programs::epoch_work gnn_epoch_work(const gnn_options& flags, const link_options* links,
    const gneiss::dataset& data, double share = 1, std::uint64_t columns = 0, bool uses_features = true);

} // namespace trainers
