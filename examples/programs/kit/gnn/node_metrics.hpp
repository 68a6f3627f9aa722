// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/eval/multilabel.hpp>
#include <gneiss/eval/regression.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/gnn/node_truth.hpp"
#include "kit/report/records.hpp"

namespace trainers {

/// Returns the part that `--on` names.
[[nodiscard]] gneiss::node_split split_named(const std::string& name);

/// Returns the names of the metrics of a dataset's node task, as far as `node_metrics` computes them for the validation
/// nodes; the first compares states unless --early-stop-metric names another.
[[nodiscard]] std::vector<std::string> metrics_of(const gneiss::dataset_manifest& graph);

/// Returns what metrics of nodes of a split are means over, as in "2,400 test nodes".
[[nodiscard]] std::string scope_of_nodes(std::uint64_t nodes, const std::string& split);

/// Metrics of outputs against the truth of nodes: of one class each, of several labels, or of numbers.
class node_metrics {
public:
    static constexpr std::size_t most_shown = 64, most_counted = 1024; ///< classes of a confusion matrix

    /// \param nodes  ascending
    /// \param truth  outlives this
    node_metrics(std::vector<gneiss::node_id> nodes, const node_truth& truth);

    /// Returns the memory of the metrics of a dataset's validation and test nodes: scores, counts, and the work of
    /// `values` and `per_class`. Without the lists of these nodes, which `label_need` includes.
    [[nodiscard]] static gneiss::memory_need need(const gneiss::dataset_manifest& graph);

    [[nodiscard]] std::span<const gneiss::node_id> nodes() const noexcept { return nodes_; }
    /// Resets all counts.
    void clear();
    /// Adds the outputs of a node; ignores nodes that are not in `nodes`. Throws errc::not_finite, naming the node.
    void add(gneiss::node_id node, std::span<const float> outputs);
    /// Returns those values of `metrics_of` that exist (ROC-AUC needs positives and negatives, R² two nodes); those of
    /// rankings only if scores of all nodes take at most 64 MiB. Empty without nodes.
    [[nodiscard]] programs::metric_values values() const;
    /// Returns which nodes the values are of, as in "2,400 test nodes".
    [[nodiscard]] std::string scope(const std::string& split) const { return scope_of_nodes(nodes_.size(), split); }
    /// Returns the metrics of each class or target that exist, named as in `names`; for one class per node also the
    /// confusion matrix of up to `most_shown` classes, else the most frequent confusions. Null without nodes.
    [[nodiscard]] nlohmann::ordered_json per_class(const std::string& split, const gneiss::dataset& names) const;

private:
    void add_confusions(nlohmann::ordered_json& to, const gneiss::dataset& names) const;

    std::vector<gneiss::node_id> nodes_;
    const node_truth* truth_;
    gneiss::classification_metrics classes_;
    gneiss::confusion_matrix confusion_; // of up to most_counted classes
    gneiss::multilabel_metrics labels_;
    gneiss::regression_metrics numbers_;
    std::vector<float> scores_;            // [nodes, columns], or empty
    std::vector<float> outputs_, targets_; // of a node
};

} // namespace trainers
