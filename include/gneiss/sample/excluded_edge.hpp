// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Edge excluded from sampling, as link prediction excludes a batch's target edges from message passing.
template <node_id_type NodeId = node_id>
struct excluded_edge {
    NodeId source{};
    NodeId destination{};
    edge_index id = 0;
};

} // namespace gneiss
