#pragma once

#include <string>

#include <gneiss/io/dataset.hpp>

#include "common/training/gnn_options.hpp"

namespace trainers {

/// The flags of `train` of a design for node classification on given features. A design adds its own.
struct node_classification_options : gnn_options {
    // Groups of flags, in the order of the help.
    void add_training(programs::command& to);
    void add_evaluation(programs::command& to);

    /// What `resolve` of a program fills in of its copy, from the graph. Throws errc::invalid_argument for a dataset without
    /// classes, training nodes or features, usage_error.
    void resolve_node_classification(const gneiss::dataset& data);
};

} // namespace trainers
