// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Returns the weights of the classes in the loss by --class-weights; empty without it.
///
/// "balanced" counts the labels of the training nodes. A file has lines of a class name, a tab or blanks, and a weight;
/// classes that it does not name have the weight 1; lines that begin with "# " and name no class are comments. Throws
/// errc::invalid_format, naming the line, for unknown classes and for weights that are not positive; io_error.
/// \param labels  of all nodes
/// \param train   training nodes
[[nodiscard]] std::vector<float> class_weights_of(const std::optional<std::string>& spec, const gneiss::dataset& data,
    std::span<const gneiss::class_id> labels, std::span<const gneiss::node_id> train);

/// Returns the weights of the positives of each class by --class-weights, for several labels per node; empty without
/// it. "balanced" is negatives / positives among the training nodes, 1 for a class without either. Errors and files as
/// for `class_weights_of`.
[[nodiscard]] std::vector<float> positive_weights_of(const std::optional<std::string>& spec,
    const gneiss::dataset& data, const gneiss::mapped_targets& targets, std::span<const gneiss::node_id> train);
/// Throws as `class_weights_of` for a file, before a run begins.
void check_class_weights(const std::optional<std::string>& spec, const gneiss::dataset& data);

} // namespace trainers
