#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/io/dataset.hpp>

#include "common/records.hpp"

namespace trainers {

/// Returns the part that `--split` names.
[[nodiscard]] gneiss::node_split split_named(const std::string& name);

/// Returns the names of the metrics of node classification, as far as `node_metrics` computes them for the validation nodes.
[[nodiscard]] std::vector<std::string> metrics_of(const gneiss::dataset_manifest& graph);

/// Metrics of predictions against node labels.
class node_metrics {
public:
    static constexpr std::size_t most_shown = 64, most_counted = 1024; ///< classes of a confusion matrix

    /// \param nodes  ascending
    node_metrics(std::vector<gneiss::node_id> nodes, std::size_t classes, std::span<const gneiss::class_id> labels);

    [[nodiscard]] std::span<const gneiss::node_id> nodes() const noexcept { return nodes_; }
    /// Resets all counts.
    void clear();
    /// Adds the scores of a node; ignores nodes that are not in `nodes`.
    void add(gneiss::node_id node, std::span<const float> scores);
    /// Returns accuracy, macro_f1 and, if scores of all nodes take at most 64 MiB, roc_auc. Empty without nodes.
    [[nodiscard]] programs::metric_values values() const;
    /// Returns precision, recall and F1 of each class, named as in `names`, and the confusion matrix of up to `most_shown`
    /// classes, else the most frequent confusions; null without nodes.
    [[nodiscard]] nlohmann::ordered_json per_class(const std::string& split, const gneiss::dataset& names) const;

private:
    std::vector<gneiss::node_id> nodes_;
    std::size_t classes_;
    std::span<const gneiss::class_id> labels_;
    gneiss::classification_metrics counts_;
    gneiss::confusion_matrix confusion_; // of up to most_counted classes
    std::vector<float> scores_; // [nodes, classes], or empty
};

} // namespace trainers
