// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <gneiss/core/types.hpp>
#include <gneiss/sample/excluded_edge.hpp>

namespace gneiss {

/// Nodes whose outputs a batch needs, and edges that their sample excludes. Views of memory of the batch, or of what
/// cuts batches, until it cuts another.
struct seed_set {
    std::span<const node_id> nodes;              ///< distinct
    std::span<const excluded_edge<>> excluded{}; ///< edges that the sample leaves out
};

} // namespace gneiss
