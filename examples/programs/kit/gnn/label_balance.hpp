// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Shares of the largest class among nodes of a split, for one class per node; else 0.
struct label_balance {
    double train = 0, valid = 0;
    bool ranks = false; ///< there are two classes, and validation nodes of both
};
/// Counts the labels of training and validation nodes, in one pass.
[[nodiscard]] label_balance balance_of(const gneiss::dataset& data);

/// Returns the validation metric that selects the best state by default: ROC-AUC for two classes, macro-F1 where more
/// than 60 % of the training nodes have one class; absent: the first of `metrics_of`.
[[nodiscard]] std::optional<std::string> selecting_metric(const gneiss::dataset& data);

} // namespace trainers
