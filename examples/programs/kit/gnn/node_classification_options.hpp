// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <gneiss/io/dataset.hpp>

#include "kit/gnn/gnn_options.hpp"

namespace trainers {

/// Flags of `train` of a node classification trainer on given features. Trainers add their own.
struct node_classification_options : gnn_options {
    // Groups of flags, in the order of the help.
    void add_training(programs::command& to);
    void add_evaluation(programs::command& to);

    /// Sets defaults from the graph. Throws errc::invalid_argument for a dataset without labels, training nodes or
    /// features, usage_error.
    void resolve_node_classification(const gneiss::dataset& data, bool features = true);
};

} // namespace trainers
