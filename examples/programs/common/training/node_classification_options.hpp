#pragma once

#include <string>

#include <gneiss/io/dataset.hpp>

#include "common/training/gnn_options.hpp"

namespace trainers {

/// The flags of `train` of a design for node classification on given features. A design adds its own.
struct node_classification_options : gnn_options {
    virtual ~node_classification_options() = default;
    virtual void add_to(programs::command& to) = 0;

    /// Fills what was left out from the graph, and refuses what does not go together: every default that depends on the graph
    /// stands here, what depends on memory is a plan's. Throws errc::invalid_argument for a dataset without classes, training
    /// nodes or features, usage_error.
    virtual void resolve(const gneiss::dataset& data);

protected:
    // Groups of flags, in the order of the help.
    void add_training(programs::command& to);
    void add_evaluation(programs::command& to);
};

} // namespace trainers
