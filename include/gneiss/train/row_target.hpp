// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// Host memory where the rows of a batch land, and their gradients: the batch's own, or pinned memory of a device, from
/// which rows are uploaded without another copy.
struct row_target {
    matrix_view<float> rows;      ///< [nodes, floats read of a node]
    matrix_view<float> gradients; ///< [nodes, dense columns]; empty: nothing is learned
};

/// Returns memory of the batch itself.
[[nodiscard]] inline row_target target_in_batch(training_batch& batch, std::size_t columns, std::size_t gradients) {
    const std::size_t nodes = batch.nodes.size();
    row_target to{.rows = {batch.memory_of_rows.rows.at_least(nodes * columns), nodes, columns}, .gradients = {}};
    if (gradients != 0) to.gradients = {batch.memory_of_rows.gradients.at_least(nodes * gradients), nodes, gradients};
    return to;
}

} // namespace gneiss
