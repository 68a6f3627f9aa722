// SPDX-License-Identifier: Apache-2.0
// Module inference: layer-wise inference of a GNN over all nodes, within a memory budget. Forward declarations, without default
// template arguments.
#pragma once

namespace gneiss {

struct layerwise_edges;
struct layerwise_input;
struct layerwise_options;
struct layerwise_plan;
struct layerwise_result;

} // namespace gneiss
