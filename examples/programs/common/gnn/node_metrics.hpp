#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/eval/accuracy.hpp>

#include "common/records.hpp"

namespace trainers {

/// Metrics of predictions against node labels.
class node_metrics {
public:
    /// \param nodes  ascending
    node_metrics(std::vector<gneiss::node_id> nodes, std::size_t classes, std::span<const gneiss::class_id> labels);

    [[nodiscard]] std::span<const gneiss::node_id> nodes() const noexcept { return nodes_; }
    /// Resets all counts.
    void clear();
    /// Adds the scores of a node; ignores nodes that are not in `nodes`.
    void add(gneiss::node_id node, std::span<const float> scores);
    /// Returns accuracy, macro_f1 and, if scores of all nodes take at most 64 MiB, roc_auc. Empty without nodes.
    [[nodiscard]] programs::metric_values values() const;

private:
    std::vector<gneiss::node_id> nodes_;
    std::size_t classes_;
    std::span<const gneiss::class_id> labels_;
    gneiss::classification_metrics counts_;
    std::vector<float> scores_; // [nodes, classes], or empty
};

} // namespace trainers
